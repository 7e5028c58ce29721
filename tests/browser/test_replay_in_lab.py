"""Replays in JupyterLab, in a saved notebook without a kernel, and in the page that nbconvert makes of it."""

from __future__ import annotations

import nbconvert
import nbformat
import pytest

from jmars.reports.saved_run import save_run
from tests.browser.simulated import simulate
from tests.browser.test_replay import SEEK

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


def test_a_saved_notebook_is_scrubbed_without_a_kernel(lab, lab_page, browser):
    for k in (1, 2):
        save_run(lab.folder / f"{k}.run", simulate(16, seed=k), "job-1", "exp")
    lab.write("replay.ipynb", ["import jmars; jmars.replay('1.run')", "jmars.replay('1.run', '2.run')"])
    with lab_page.opened("replay.ipynb") as notebook:
        for cell in (0, 1):
            notebook.run(cell, wait=True)
            notebook.view(cell).get_by_role("slider").wait_for()
        notebook.save()
        notebook.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    with lab_page.opened("replay.ipynb", kernel=False) as notebook:
        view = notebook.view(0)
        view.get_by_role("slider").wait_for()
        for theme in ("light", "dark"):
            notebook.theme(theme)
            view.get_by_role("button", name="Next event").click()
            notebook.page.evaluate(SEEK, 4.0)
            assert "running" in view.locator(".jm-state").inner_text()
            notebook.screenshot(f"replay-{theme}")
            notebook.view(1).get_by_role("slider").scroll_into_view_if_needed()
            notebook.screenshot(f"replay-pair-{theme}")
        notebook.page.evaluate(SEEK, 60.0)
        assert view.locator(".jm-state").inner_text() == "succeeded"
    saved = nbformat.read(lab.folder / "replay.ipynb", as_version=4)
    page = browser.new_page()
    try:
        page.set_content(nbconvert.HTMLExporter(template_name="lab").from_notebook_node(saved)[0])
        frame = page.frame_locator("iframe").first
        frame.get_by_role("slider").press("End")
        frame.locator(".jm-state", has_text="succeeded").wait_for()
    finally:
        page.close()
