"""Takes README's picture: `python -m tests.browser.picture` looks at the first notebook's cell in JupyterLab.

Not a test: run it when the view has changed, look at docs/images/first-cell.png, and commit it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.browser.harness import ROOT, LabPage, running_browser, running_lab

CELL = 5  # the `%%jmars` cell of the first notebook
PICTURE = ROOT / "docs" / "images" / "first-cell.png"


def main(share: float = 55.0) -> None:
    """Save what a person sees when about `share` percent of the cell's operands are done."""
    with tempfile.TemporaryDirectory() as folder, running_lab(Path(folder), {"JMARS_DISPLAY": "widget"}) as lab:
        shutil.copy(ROOT / "notebooks" / "00_first_cell.ipynb", lab.folder / "first_cell.ipynb")
        with running_browser() as browser, LabPage(browser, lab).opened("first_cell.ipynb", 1180, 860) as notebook:
            notebook.command("application:toggle-left-area")
            for cell in (1, 3):
                notebook.run(cell, wait=True)
            notebook.run(CELL)
            view = notebook.view(CELL).first
            bar = view.get_by_role("progressbar")
            bar.wait_for()
            notebook.tab(CELL, "Graph")
            notebook.page.locator(".jp-Notebook .jp-Cell").nth(CELL).evaluate(
                "it => it.scrollIntoView({block: 'start'})"
            )
            while int(bar.get_attribute("aria-valuenow") or 0) < share:
                notebook.page.wait_for_timeout(20)
            PICTURE.parent.mkdir(exist_ok=True)
            PICTURE.write_bytes(notebook.page.screenshot())
            notebook.wait_until_idle()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
