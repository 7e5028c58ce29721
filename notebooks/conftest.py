"""Notebooks run as tests: one kernel each, in this environment, showing one line of text where a view would be."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest
from jupyter_core.utils import ensure_event_loop

SHORT = "00_first_cell.ipynb"  # the notebook of the short run


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the cells of the other notebooks."""
    if item.path.suffix == ".ipynb" and item.path.name != SHORT:
        item.add_marker(pytest.mark.long)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first cell of a notebook starts its kernel."""
    os.environ["JMARS_DISPLAY"] = "text"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """After the last cell: what nbval 0.11 opens for a notebook and leaves open is closed."""
    notebook: Any = item.parent
    is_last = nextitem is None or nextitem.parent is not notebook
    stderr = notebook.kernel.km._launch_args["stderr"] if is_last else None
    try:
        return (yield)
    finally:
        if stderr is not None:
            os.environ.pop("JMARS_DISPLAY", None)
            stderr.close()
            ensure_event_loop().close()
