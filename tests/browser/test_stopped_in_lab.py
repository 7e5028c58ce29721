"""A cluster that is stopped by the side bar while a cell runs: what the cell and the views of its job say."""

from __future__ import annotations

import pytest

from tests.browser.harness import THEMES
from tests.browser.test_clusters_in_lab import start, stop

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

CELL = """%%jmars --view full
import time
from jmars.tensor import arange, map_blocks
def slow(block):
    time.sleep(0.1)
    return block * 2
map_blocks(slow, arange(400.0, chunk_size=1) + 1, dtype=float).sum()"""


@pytest.mark.parametrize("theme", THEMES)
def test_a_cell_says_that_the_side_bar_stopped_its_cluster(lab, lab_page, theme):
    name = f"stopped-{theme}.ipynb"
    lab.write(name, ["%load_ext jmars\nimport jmars\ncluster = jmars.connect('to-stop')", CELL])
    with lab_page.opened(name, width=1500) as notebook:
        page = notebook.page
        notebook.theme(theme)
        side = page.locator(".jmars-Sidebar")
        start(notebook, "to-stop")
        notebook.run(0, wait=True)
        notebook.run(1)
        assert len(notebook.moved(1)) >= 3
        side.get_by_role("button", name="Open the view of").click()
        main = page.locator(".jmars-Main .jm")
        main.get_by_text("running").first.wait_for()
        stop(page, side)
        page.evaluate(
            "() => { const { shell } = window.jupyterapp;"
            " shell.activateById([...shell.widgets('main')].find(one => one.context).id); }"
        )
        page.wait_for_function("() => window.jupyterapp.shell.currentWidget?.content?.model")
        notebook.wait_for_text(
            1, "ClusterStoppedError: to-stop was stopped from the side bar of Jupyter before the job"
        )
        for view in (notebook.view(1).locator(".jm").first, main):
            view.locator(".jm-state", has_text="cancelled").wait_for()
            view.get_by_text("was stopped from the side bar of Jupyter").first.wait_for()
            assert view.get_by_role("button", name="Cancel").count() == 0
            legend = view.locator(".jm-legend").first.inner_text()
            assert "running" not in legend
        notebook.screenshot(f"stopped-{theme}")
