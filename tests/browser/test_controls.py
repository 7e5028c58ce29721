"""Plain cells in JupyterLab: a cluster as a widget, a job's view, a bar while a cell waits."""

from __future__ import annotations

import pytest

from tests.browser.axe import AXE
from tests.browser.harness import THEMES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

START = """import pathlib, time
import jmars
import jmars.tensor as mt

def sleeps(n, gate):
    def slow(block):
        time.sleep(0.0 if pathlib.Path(gate).exists() else 0.2)
        return block
    return mt.ones(n, chunk_size=1).map_blocks(slow, dtype="f8").sum()

cluster = jmars.Cluster(n_workers=2, memory_limit="256MiB", name="shown")
cluster"""
JOB = "job = cluster.submit(sleeps(500, {gate!r}), name='a long job')\njob"
PLAIN = "print(float(sleeps(500, {gate!r}).execute().fetch()))"
SMALL = "print(float(mt.ones(4).sum()))"
AGAIN = "cluster.job(job.id)"
PLAN = """plan = ((mt.ones((2000, 2000), chunk_size=100) + 1) @ mt.ones((2000, 50), chunk_size=100)).sum().plan()
search = plan.improving(seconds=60)
search"""
SLIDERS = "plan.explore()"
VIOLATIONS = """async ([source, cell]) => {
  if (!window.axe) eval(source);
  const outputs = document.querySelectorAll('.jp-Notebook .jp-Cell')[cell].querySelectorAll('.jp-OutputArea-output');
  const found = await axe.run([...outputs]);
  return found.violations.map(one => [one.id, one.nodes[0].html]);
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_a_plan_is_improved_while_one_watches_and_asked_what_if(lab, lab_page, theme):
    name = f"plans-{theme}.ipynb"
    lab.write(name, ["import jmars.tensor as mt", PLAN, SLIDERS, "print(search.running, search.result() is not plan)"])
    with lab_page.opened(name, height=1000) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        search = notebook.view(1)
        search.get_by_text("searching after").wait_for()
        told = search.get_by_text("of search;").text_content()
        notebook.page.wait_for_function(
            "told => [...document.querySelectorAll('svg text')].every(it => it.textContent !== told)", arg=told
        )
        notebook.run(2, wait=True)
        sliders = notebook.view(2)
        sliders.get_by_role("slider").first.focus()
        notebook.page.keyboard.press("ArrowRight")
        sliders.get_by_text("with workers").wait_for()
        notebook.screenshot(f"plans-{theme}")
        assert notebook.page.evaluate(VIOLATIONS, [AXE.read_text(), 1]) == []
        search.get_by_role("button", name="Stop").click()
        search.get_by_text("ended after").wait_for()
        notebook.run(3, wait=True)
        assert notebook.text(3).strip() == "False True"
        assert notebook.console == []


@pytest.mark.parametrize("theme", THEMES)
def test_a_plain_notebook_shows_clusters_jobs_and_progress(lab, lab_page, theme, tmp_path):
    name, gate, other = f"controls-{theme}.ipynb", tmp_path / "gate", tmp_path / "other"
    job, plain = JOB.format(gate=str(gate)), PLAIN.format(gate=str(other))
    lab.write(name, [START, job, plain, SMALL, AGAIN, "print(again.closed)", "again = jmars.connect('shown')\nagain"])
    with lab_page.opened(name, height=1000) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        panel = notebook.view(0)
        panel.get_by_text("2 workers (0 busy)").wait_for()
        assert panel.get_by_role("button", name="Adapt").count() == 0  # workers of one machine do not follow the work
        field = panel.get_by_role("textbox", name="workers")
        for wrong, told in {"2.5": "2.5 is no whole number", "0": "0 is not from 1 to 10,000"}.items():
            field.fill(wrong)
            panel.get_by_role("button", name="Scale").click()
            panel.get_by_text(told).wait_for()
        notebook.screenshot(f"controls-{theme}-wrong")
        field.fill("3")
        field.press("Enter")
        panel.get_by_text("3 workers (0 busy)").wait_for()
        panel.get_by_text("It has 3 now.").wait_for()
        notebook.run(1, wait=True)
        notebook.run(6, wait=True)  # another connection
        for shown in (panel, notebook.view(6)):
            shown.get_by_text("a long job: running").wait_for()  # the cluster's widgets are live
        view = notebook.view(1)
        view.get_by_role("tab", name="Lines").click()
        assert len(notebook.moved(1)) >= 2
        notebook.page.locator(".jmars-Status").get_by_text("jmars: ").wait_for()
        notebook.screenshot(f"controls-{theme}")
        assert notebook.page.evaluate(VIOLATIONS, [AXE.read_text(), 0]) == []
        notebook.run(4, wait=True)  # another handle, another view
        notebook.view(4).locator(".jm-state", has_text="running").first.wait_for()
        gate.touch()
        notebook.view(1).locator(".jm-state", has_text="succeeded").wait_for()
        notebook.wait_for_text(1, "vnd.jmars.job")  # the last picture is in the notebook
        notebook.run(2)
        notebook.view(2).locator("progress").wait_for()
        other.touch()
        notebook.screenshot(f"controls-{theme}-bar")
        notebook.wait_until_idle()
        assert notebook.text(2).split() == ["500.0"] and "progress" not in str(notebook.outputs(2))
        shown = notebook.page.locator(".jp-Notebook .jp-Cell").nth(2).locator(".jp-OutputArea-child")
        assert [one.is_visible() for one in shown.all()] == [False, True]  # the bar that has ended takes no room
        notebook.run(3, wait=True)
        assert len(notebook.outputs(3)) == 1  # a small value shows no bar
        panel.get_by_role("button", name="Stop cluster").click()
        panel.get_by_role("button", name="Keep it").wait_for()
        notebook.screenshot(f"controls-{theme}-sure")
        panel.get_by_role("button", name="Stop it now").click()
        for shown in (panel, notebook.view(6)):
            shown.get_by_text("shown: stopped").wait_for()
            assert shown.get_by_role("button").count() == 0
        notebook.screenshot(f"controls-{theme}-stopped")
        notebook.run(5, wait=True)
        assert notebook.text(5).strip() == "True"
        assert notebook.console == []
