"""A tensor in a plain cell of JupyterLab: its facts, a picture of the chunks, and values where they are computed."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SETUP = "%load_ext jmars\nimport numpy as np"
CELL = """%%jmars -w 1 --memory 400MiB
x = np.random.default_rng(0).random((400, 600), chunk_size=100) * 2
w = np.zeros(3)
for turn in range(3):
    g = w - np.arange(3.0)
    if np.linalg.norm(g) < 1e-9:
        break
    w = w - g
"""


def test_a_tensor_shows_its_chunks_and_its_values(lab, lab_page):
    cells = [SETUP, CELL, "x", "(x + 1)[:, :250]", "w", "%jmars stop"]
    lab.write("tensor.ipynb", cells)
    with lab_page.opened("tensor.ipynb", height=1100) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        for cell in (2, 3, 4):
            notebook.run(cell, wait=True)
        notebook.wait_for_text(4, "array([0., 1., 2.])")
        html = [next(out["data"].get("text/html", "") for out in notebook.outputs(cell)) for cell in (2, 3, 4)]
        assert ">computed<" in html[0] and "<pre" in html[0]
        assert "only computed as far as shown" in html[1] and "<pre" in html[1]
        assert html[2] == ""
        pictures = notebook.page.locator(".jp-OutputArea-output img[alt$='chunks']")
        assert pictures.count() == 2
        assert all(pictures.nth(k).bounding_box()["height"] > 20 for k in range(2))
        for theme in ("light", "dark"):
            notebook.theme(theme)
            pictures.first.scroll_into_view_if_needed()
            notebook.screenshot(f"tensor-{theme}")
        notebook.run(5, wait=True)
