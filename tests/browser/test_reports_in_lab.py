"""Reports in a browser without network; Bokeh's figures and drawn graphs in a notebook of JupyterLab."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("bokeh")

import jmars.tensor as mt
from tests.browser.axe import add_axe, check
from tests.browser.harness import THEMES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

NAME = "a <b>sum</b>"
SETUP = """import jmars, jmars.tensor as mt
from bokeh.io import output_notebook, show
from bokeh.resources import INLINE
cluster = jmars.Cluster(n_workers=2, memory_limit="256MiB")
y = ((mt.ones((600, 600), chunk_size=200) + 1) @ mt.ones((600, 200), chunk_size=200)).sum(axis=0)
job = cluster.submit(y, name="drawn")
job.wait()
output_notebook(INLINE, hide_banner=True)  # without network"""
FIGURES = "show(job.timeline())\nshow(job.memory())"
DRAWN = """() => [...document.querySelectorAll('.jp-Notebook .jp-RenderedSVG img')]
  .filter(it => it.complete && it.naturalWidth > 50).length === 2"""

REACHED = """() => [...document.querySelectorAll('.jp-Notebook .jp-RenderedSVG')].every(it =>
  it.scrollWidth <= it.clientWidth || ['auto', 'scroll'].includes(getComputedStyle(it).overflowX))"""


@pytest.mark.parametrize("width", [320, 1440])
def test_a_report_opens_without_network(browser, cluster, tmp_path, width):
    job = cluster.submit((mt.ones((400, 400), chunk_size=100) + 1).sum(), name=NAME)
    job.wait()
    job.report(tmp_path / "report.html")
    page, errors, asked = browser.new_page(), [], []
    try:
        page.set_viewport_size({"width": width, "height": 900})
        page.context.set_offline(True)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "report.html").as_uri())
        page.locator("canvas").first.wait_for()
        assert NAME in page.locator("body").inner_text()
        assert page.locator("canvas").count() >= 3
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        add_axe(page)
        assert page.evaluate(check("body")) == []
        assert errors == [] and [url for url in asked if not url.startswith(("file:", "data:"))] == []
    finally:
        page.close()


@pytest.mark.parametrize("theme", THEMES)
def test_figures_and_graphs_are_drawn_in_a_notebook(lab, lab_page, theme):
    if shutil.which("dot") is None:
        pytest.skip("needs the program `dot` (Debian package graphviz)")
    name = f"reports-{theme}.ipynb"
    lab.write(name, [SETUP, FIGURES, "y.visualize()", "job.visualize(fusion='after', colour='worker')"])
    with lab_page.opened(name, height=1200) as notebook:
        notebook.theme(theme)
        for cell in range(4):
            notebook.run(cell, wait=True)
        figures = notebook.page.locator(".jp-Notebook .jp-CodeCell").nth(1).locator("canvas")
        figures.last.wait_for()
        assert figures.count() >= 2
        notebook.screenshot(f"figures-{theme}")
        notebook.page.wait_for_function(DRAWN)
        assert notebook.page.evaluate(REACHED)  # what is wider than the cell
        notebook.view(3).first.scroll_into_view_if_needed()
        notebook.screenshot(f"graphs-{theme}")
        assert [error for error in notebook.console if "jmars" in error] == []
