"""Takes the pictures of docs/tutorials/gallery.md in JupyterLab: `python -m tests.browser.gallery`.

Not a test: run it when the view has changed, look at docs/images/gallery/, and commit it.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Locator, Page

from tests.browser.harness import ROOT, LabPage, NotebookPage, running_browser, running_lab

CELL = 5  # the `%%jmars` cell of the first notebook
FOLDER = ROOT / "docs" / "images" / "gallery"
LARGEST = 200_000  # bytes of a picture
PLAN = """%%jmars --plan -w 2 --memory 1GiB
table = np.random.default_rng(7).random((1000, 1000), chunk_size=250)
standard = (table - table.mean(axis=0)) / table.std(axis=0)
alike = standard.T @ standard / len(table)"""
ADDED = [PLAN, 'job.report("report.html")', "%jmars stop"]


def keep(name: str, picture: bytes) -> None:
    """Write a picture with a palette of its own."""
    path = FOLDER / f"{name}.png"
    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    whole.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=8).save(path, optimize=True)  # a small mark keeps its colour
    assert path.stat().st_size <= LARGEST, f"{path} has {path.stat().st_size} bytes"
    print(path.relative_to(ROOT), path.stat().st_size)


def show(notebook: NotebookPage, cell: int) -> Locator:
    """Scroll to a cell; gives it."""
    found = notebook.page.locator(".jp-Notebook .jp-Cell").nth(cell)
    found.evaluate("it => it.scrollIntoView({block: 'start'})")
    return found


def tabs(notebook: NotebookPage) -> None:
    """The cell while it runs, and its tabs when it has ended."""
    view = notebook.view(CELL).first
    bar = view.get_by_role("progressbar")
    bar.wait_for()
    notebook.tab(CELL, "Graph")
    cell = show(notebook, CELL)
    while int(bar.get_attribute("aria-valuenow") or 0) < 55:
        notebook.page.wait_for_timeout(20)
    keep("graph", cell.screenshot())
    notebook.wait_until_idle(300)
    for tab in ("Lines", "Workers", "Memory", "Plan"):
        view.get_by_role("tab", name=tab).click()
        notebook.page.wait_for_timeout(500)  # the tab is drawn at the next frame
        keep(tab.lower(), view.screenshot())


def report(page: Page, path: Path) -> None:
    """The top of the report, as a browser opens the file."""
    page.set_viewport_size({"width": 1100, "height": 1000})
    page.goto(path.as_uri())
    page.locator("canvas").first.wait_for()
    page.wait_for_timeout(1000)  # Bokeh draws its figures one after another
    keep("report", page.screenshot())


def main() -> None:
    """Run the notebook and take all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_lab(Path(folder), {"JMARS_DISPLAY": "widget"}) as lab:
        book = nbformat.read(ROOT / "notebooks" / "00_first_cell.ipynb", as_version=4)
        book.cells = [*book.cells[: CELL + 1], *map(nbformat.v4.new_code_cell, ADDED)]
        for cell in book.cells:
            cell.source = cell.source.replace("-o job", "-o job --view full")
            if cell.cell_type == "code":
                cell.outputs = []
        nbformat.write(book, lab.folder / "gallery.ipynb")
        with running_browser() as browser:
            with LabPage(browser, lab).opened("gallery.ipynb", 1180, 1400) as notebook:
                notebook.command("application:toggle-left-area")
                for cell in (1, 3):
                    notebook.run(cell, wait=True)
                notebook.run(CELL)
                tabs(notebook)
                notebook.run(CELL + 1, wait=True)
                notebook.wait_for_text(CELL + 1, "no plan can beat")
                keep("plan-before", show(notebook, CELL + 1).screenshot())
                for cell in (CELL + 2, CELL + 3):
                    notebook.run(cell, wait=True)
            report(browser.new_page(), lab.folder / "report.html")


if __name__ == "__main__":
    main()
