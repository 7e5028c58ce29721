"""A cluster's widget, a job's view and a replay in plain cells of Notebook 7."""

from __future__ import annotations

import pytest

from jmars.reports.saved_run import save_run
from tests.browser.harness import THEMES
from tests.browser.simulated import simulate
from tests.browser.test_controls import JOB, START
from tests.browser.test_notebook_7 import opened
from tests.browser.test_replay import SEEK

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("theme", THEMES)
def test_a_cluster_a_job_and_a_replay_show_themselves(lab, browser, theme, tmp_path):
    name = f"seven-controls-{theme}.ipynb"
    save_run(lab.folder / "seven.run", simulate(16), "job-1", "exp")
    job = JOB.format(gate=str(tmp_path / "gate"))
    lab.write(name, [START, job, "jmars.replay('seven.run')", "print(cluster.closed)"])
    with opened(lab, browser, name, theme) as notebook:
        notebook.run(0, wait=True)
        notebook.view(0).get_by_text("2 workers (0 busy)").wait_for()
        notebook.run(1, wait=True)
        notebook.view(0).get_by_text("a long job: running").wait_for()
        assert len(notebook.moved(1)) >= 2
        notebook.run(2, wait=True)
        notebook.view(2).get_by_role("slider").wait_for()
        notebook.page.evaluate(SEEK, 4.0)
        assert "running" in notebook.view(2).locator(".jm-state").inner_text()
        notebook.screenshot(f"seven-controls-{theme}")
        notebook.view(0).get_by_role("button", name="Stop cluster").click()
        notebook.view(0).get_by_role("button", name="Stop it now").click()
        notebook.view(0).get_by_text("shown: stopped").wait_for()
        notebook.run(3, wait=True)
        assert notebook.text(3).strip() == "True"
