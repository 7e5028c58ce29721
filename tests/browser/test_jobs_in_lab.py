"""A cell with several jobs: totals in the header, a line for each job, and the graph of the job that is clicked."""

from __future__ import annotations

import pytest

from tests.browser.harness import THEMES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

# small values are computed by jobs too, not in the kernel
SETUP = "%load_ext jmars\nimport jmars, numpy as np\njmars.config.local_seconds = 0"
CELL = """%%jmars -w 2 --memory 512MiB --view full
a = np.random.default_rng(1).random((400, 400), chunk_size=200)
first = float((a * 2).sum())
for turn in range(60):
    if float((a + turn).max()) < 0:
        break
b = np.sqrt(a) @ a
b.mean()
"""


@pytest.mark.parametrize("theme", THEMES)
def test_every_job_of_a_cell_is_counted_and_a_click_shows_its_graph(lab, lab_page, theme):
    name = f"jobs-{theme}.ipynb"
    lab.write(name, [SETUP, CELL])
    with lab_page.opened(name, height=1200) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        notebook.wait_until_idle()
        view = notebook.view(1)
        view.get_by_text("succeeded").first.wait_for()
        said = view.locator(".jm-time").inner_text()
        assert "operands" not in said and "predicted" not in said and said.split()[1] == "s"
        notebook.tab(1, "Graph")
        lines = view.locator(".jm-joblist button")
        lines.first.wait_for()
        assert "The last 50 of 62 jobs:" in view.locator(".jm-parts").inner_text()
        texts = lines.all_inner_texts()
        assert len(texts) == len(set(texts)) == 50
        assert "line 5: if float((a + turn).max()) < 0:" in texts[0]
        notebook.screenshot(f"jobs-{theme}")
        newest = view.locator("figcaption").first.inner_text()
        lines.nth(48).click()
        view.get_by_text("Shown: job 61 of 62").wait_for()
        assert view.locator("figcaption").first.inner_text() != newest
        view.get_by_role("tab", name="Operands").click()
        assert "max" in view.locator(".jm-operands").inner_text()
        notebook.screenshot(f"jobs-{theme}-older")
        lines.nth(0).click()
        view.get_by_text("The graph of job 13 of 62 is not kept").wait_for()
        lines.nth(49).click()
        view.get_by_role("tab", name="Graph").click()
        assert view.locator("figcaption").first.inner_text() == newest
        assert notebook.console == []


@pytest.mark.parametrize("theme", THEMES)
def test_a_cell_that_failed_before_it_had_a_graph_says_so(lab, lab_page, theme):
    name = f"failed-{theme}.ipynb"
    cell = "%%jmars -w 2 --memory 200MiB --view full\na = np.ones((8000, 8000), chunk_size=8000)\n(a @ a).sum()"
    lab.write(name, [SETUP, cell])
    with lab_page.opened(name) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.wait_until_idle()
        view = notebook.view(1).first
        view.get_by_text("failed").first.wait_for()
        notebook.tab(1, "Graph")
        notebook.screenshot(f"failed-{theme}")
        assert "The job failed before it ran" in view.locator(".jm-graph").inner_text()
