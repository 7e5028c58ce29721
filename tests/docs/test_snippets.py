"""Every Python block of README and docs runs, top to bottom in one kernel per page, and shows what the page says."""

from __future__ import annotations

import asyncio
import doctest
import gc
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from tests.docs.pages import PAGES, Snippet, name, snippets

SHORT = {"README.md", "docs/tutorials/first-cell.md"}
WITH_PYTHON = [
    pytest.param(page, id=name(page), marks=[] if name(page) in SHORT else pytest.mark.long)
    for page in PAGES
    if snippets(page)
]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_a_page_runs_and_shows_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JMARS_DISPLAY", "none")
    parts = snippets(page)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(part.code) for part in parts])
    _execute(notebook, tmp_path)
    for part, cell in zip(parts, notebook.cells, strict=True):
        _compare(page, part, cell)


def _execute(notebook: NotebookNode, folder: Path) -> None:
    client = NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(folder)}})

    async def run() -> None:
        await client.async_execute()

    asyncio.run(run())
    gc.collect()


def _compare(page: Path, part: Snippet, cell: NotebookNode) -> None:
    if part.shows is None:
        return
    shown = "".join(
        output.text if output.output_type == "stream" else output.data.get("text/plain", "") + "\n"
        for output in cell.outputs
        if output.output_type in ("stream", "execute_result", "display_data")
    )
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(part.shows, shown, flags), (
        f"{name(page)}:{part.line} says\n{part.shows}\nand shows\n{shown}"
    )
