"""The quiet view of a cell in JupyterLab: two heights while the cell runs, then a line with the result right below."""

from __future__ import annotations

import pytest

from jmars.notebook.view import MIME_TYPE
from tests.browser.axe import add_axe, check
from tests.browser.harness import THEMES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SETUP = "%load_ext jmars\nimport numpy as np, time\nfrom jmars.tensor import map_blocks"
TWO_JOBS = """%%jmars -w 2 --memory 512MiB
def slow(block):
    time.sleep(0.15)
    return block * 2

x = map_blocks(slow, np.arange(40.0, chunk_size=1), dtype=float)
print('first', float(x.sum()))
total = map_blocks(slow, x + 1, dtype=float).sum()
total"""
PYTHON = """%%jmars
values = [3, 1, 2]
time.sleep(1.5)
sorted(values)"""
HEIGHTS = """cell => {
  const seen = window.heights = new Set();
  const look = () => {
    const view = document.querySelectorAll('.jp-Notebook .jp-Cell')[cell].querySelector('.jm');
    if (view) seen.add(Math.round(view.getBoundingClientRect().height));
    window.looking = requestAnimationFrame(look);
  };
  look();
}"""
SEEN = "() => { cancelAnimationFrame(window.looking); return [...window.heights]; }"


@pytest.mark.parametrize("width", [820, 1440])
@pytest.mark.parametrize("theme", THEMES)
def test_the_view_has_two_heights_and_is_a_line_at_the_end(lab, lab_page, theme, width):
    name = f"quiet-{theme}-{width}.ipynb"
    lab.write(name, [SETUP, TWO_JOBS, PYTHON])
    with lab_page.opened(name, width=width, height=1000) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.page.evaluate(HEIGHTS, 1)
        notebook.run(1, wait=True)
        notebook.wait_for_text(1, MIME_TYPE)
        view = notebook.view(1).locator(".jm").first
        view.locator(".jm-state", has_text="succeeded").wait_for()
        low, high = sorted(notebook.page.evaluate(SEEN))
        assert low <= 42 and high > 300
        box, result = view.bounding_box(), notebook.view(1).last.bounding_box()
        assert box and result and box["height"] == low and result["y"] - box["y"] < 90  # a printed line is between
        said = view.locator(".jm-time").inner_text()
        assert " · 2 workers started in " in said and " · peak " in said and "predicted" not in said
        assert f"jmars succeeded: {said}" == notebook.outputs(1)[0]["data"]["text/plain"]  # as nbconvert shows it
        notebook.screenshot(f"quiet-{theme}-{width}")
        view.get_by_role("button", name="details").click()
        assert view.get_by_role("tab", selected=True).inner_text() == "Lines"
        rows = view.locator(".jm-code tbody tr")
        assert rows.first.locator("code").inner_text() == "def slow(block):"  # without the line `%%jmars`
        code = rows.nth(4).locator("code")  # the longest line
        assert width < 1000 or code.evaluate("it => it.scrollWidth <= it.clientWidth")
        notebook.screenshot(f"quiet-{theme}-{width}-lines")
        notebook.run(2, wait=True)
        python = notebook.view(2).locator(".jm").first
        python.locator(".jm-state", has_text="succeeded").wait_for()
        assert "in Python, most in line 3" in python.locator(".jm-time").inner_text()
        python.get_by_role("button", name="details").click()
        assert "s" in python.locator(".jm-code tbody tr").nth(1).locator("td").nth(1).inner_text()
        notebook.screenshot(f"quiet-{theme}-{width}-python")
        add_axe(notebook.page)
        assert notebook.page.evaluate(check(".jp-OutputArea-output .jm")) == []
        assert notebook.console == []
