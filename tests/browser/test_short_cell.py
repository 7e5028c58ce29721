"""The view of a short cell in JupyterLab: one line, which opens."""

from __future__ import annotations

import pytest

from jmars.notebook.view import MIME_TYPE
from tests.browser.harness import THEMES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

CELLS = [
    "%load_ext jmars\nimport numpy as np\nx = np.arange(2_000_000.0)",
    "%%jmars -w 2 --memory 512MiB\ny = x + 1",
    "%%jmars --view line\nz = (y * 2).sum(); z",
    "%%jmars --view full\nz = (y * 3).sum(); z",
    "%%jmars --view none\nz = (y * 4).sum(); z",
]


@pytest.mark.parametrize("theme", THEMES)
def test_a_short_cell_shows_a_line_that_opens(lab, lab_page, theme):
    name = f"short-{theme}.ipynb"
    lab.write(name, CELLS)
    with lab_page.opened(name, height=1000) as notebook:
        notebook.theme(theme)
        for cell in range(len(CELLS)):
            notebook.run(cell, wait=True)
        notebook.wait_for_text(2, MIME_TYPE)
        line, full = notebook.view(2).locator(".jm"), notebook.view(3).locator(".jm")
        line.wait_for()
        assert line.get_attribute("data-line") == "true" and full.get_attribute("data-line") == "false"
        assert line.bounding_box()["height"] < 60 < full.bounding_box()["height"]
        assert notebook.view(4).locator(".jm").count() == 0
        assert [one["output_type"] for one in notebook.outputs(4)] == ["execute_result"]
        notebook.screenshot(f"short-{theme}")
        line.get_by_role("button", name="details").click()
        line.get_by_role("tab", name="Plan").wait_for()
        notebook.screenshot(f"short-{theme}-open")
        assert notebook.console == []
