"""Takes the docs' pictures of replays, of the side bar and of a time line: `python -m tests.browser.gallery_lab`.

Not a test: run it when the view has changed, look at docs/images/gallery/, and commit it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.gallery import FOLDER, keep, show
from tests.browser.harness import ROOT, Lab, LabPage, NotebookPage, running_browser, running_lab
from tests.browser.test_replay import SEEK

WORK = """%load_ext jmars
import time, jmars
import numpy as np
from jmars.tensor import map_blocks
cluster = jmars.Cluster.hosts(["local", "local"], n_workers=2, memory_limit="512MiB", name="night")
def slow(block):
    time.sleep(0.15)
    return block.mean(axis=0, keepdims=True)"""
CELL = """%%jmars -b --view line
table = np.random.default_rng(7).random((200_000, 100), chunk_size=(1000, 100))
standard = (table - table.mean(axis=0)) / table.std(axis=0)
means = map_blocks(slow, standard, dtype=float, chunks=((1,) * 200, (100,)))
spread = means.std()"""
MIDDLE = "() => Number(document.querySelector('.jm-slider').max) / 1e6"


def replays(lab: Lab, browser: Browser) -> None:
    """The outputs of notebooks/08_replay.ipynb, in the middle of the run, in both themes."""
    shutil.copy(ROOT / "notebooks" / "08_replay.ipynb", lab.folder / "replay.ipynb")
    with LabPage(browser, lab).opened("replay.ipynb", 1180, 1500) as notebook:
        notebook.command("application:toggle-left-area")
        for cell in (1, 3, 5, 7):
            notebook.run(cell, wait=True)
        middle = 0.5 * float(notebook.page.evaluate(MIDDLE))
        for theme in ("light", "dark"):
            notebook.theme(theme)
            for cell, name, tab in ((5, "replay", "Workers"), (7, "two-runs", "Graph")):
                view = notebook.view(cell).first
                show(notebook, cell)
                view.get_by_role("tab", name=tab).first.click()
                notebook.page.evaluate(_SEEK, [cell, middle])
                keep(f"{name}-{theme}", view.screenshot())


_SEEK = f"""async ([cell, t]) => {{
  const output = document.querySelectorAll('.jp-Notebook .jp-Cell')[cell];
  const seek = {SEEK.replace("document.querySelector", "output.querySelector")};
  await seek(t);
}}"""


def side_bar(lab: Lab, browser: Browser) -> None:
    """A job in the side bar, the status bar and the main area, and the time line of its cluster, in both themes."""
    lab.write("side.ipynb", [WORK, CELL])
    with LabPage(browser, lab).opened("side.ipynb", 1400, 900) as notebook:
        page = notebook.page
        notebook.command("application:toggle-left-area")
        notebook.command("jmars:show")
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        page.locator(".jmars-Sidebar").get_by_role("progressbar").wait_for()
        page.locator(".jmars-Status").get_by_text("jmars: ").wait_for()
        _until(notebook, 75)
        page.locator(".jmars-Status").get_by_text(re.compile(r"[1-9]\d %")).wait_for()
        for theme in ("light", "dark"):
            notebook.theme(theme)
            page.wait_for_timeout(500)  # canvases are drawn anew
            keep(f"side-bar-{theme}", page.screenshot())
        _until(notebook, 100)
        notebook.theme("light")
        notebook.command("jmars:timeline")
        page.locator(".jm-history svg").wait_for()
        keep("time-line", page.locator(".jm-history").screenshot())


def _until(notebook: NotebookPage, percent: int) -> None:
    bar = notebook.page.locator(".jmars-Sidebar").get_by_role("progressbar")
    while int(bar.get_attribute("aria-valuenow") or 0) < percent:
        notebook.page.wait_for_timeout(50)


def main() -> None:
    """Take all pictures of this file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder), {"JMARS_DISPLAY": "widget"}) as lab,
        running_browser() as browser,
    ):
        replays(lab, browser)
        side_bar(lab, browser)


if __name__ == "__main__":
    main()
