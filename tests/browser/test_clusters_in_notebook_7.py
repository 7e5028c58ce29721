"""The side bar, its commands and notifications in Notebook 7, which has neither tabs nor a status bar."""

from __future__ import annotations

import pytest

from tests.browser.harness import THEMES
from tests.browser.test_clusters_in_lab import BACKGROUND, start, stop
from tests.browser.test_notebook_7 import opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


@pytest.mark.parametrize("theme", THEMES)
def test_a_cluster_is_started_connected_watched_and_stopped_by_clicks(lab, browser, theme, tmp_path):
    name, gate = f"seven-clusters-{theme}.ipynb", tmp_path / "gate"
    lab.write(name, [BACKGROUND.format(gate=str(gate))])
    assert lab.url.endswith("/user/ann/")
    with opened(lab, browser, name, theme) as notebook:
        page, side = notebook.page, notebook.page.locator(".jmars-Sidebar")
        start(notebook, "in-seven")
        side.get_by_role("button", name="Connect", exact=True).click()
        cells = "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.length === 2"
        page.wait_for_function(cells)
        notebook.run(0, wait=True)
        assert "in-seven, 1 worker" in notebook.text(0)
        side.locator(".jm-kernels", has_text=name).wait_for()
        notebook.run(1, wait=True)
        side.get_by_role("button", name="Open the view of a <b>long</b> sum").click()
        page.locator(".jmars-Main .jm").get_by_role("progressbar").wait_for()
        gate.touch()
        assert page.locator(".jmars-Main").first.bounding_box()["height"] > 200
        notebook.screenshot(f"seven-{theme}-view-below")
        page.locator(".Toastify__toast", has_text="succeeded after").wait_for()
        side.get_by_role("button", name="Timeline").click()
        page.locator(".jm-history svg").wait_for()
        notebook.screenshot(f"seven-{theme}-timeline")
        stop(page, side)
