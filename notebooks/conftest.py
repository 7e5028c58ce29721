"""Notebooks run as tests: one kernel each, in this environment, showing one line of text where a view would be."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first cell of a notebook starts its kernel."""
    os.environ["JMARS_DISPLAY"] = "text"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Other tests choose for themselves."""
    if nextitem is None or nextitem.parent is not item.parent:
        os.environ.pop("JMARS_DISPLAY", None)
