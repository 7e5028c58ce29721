"""A plan before the run and beside it, as a person sees both in JupyterLab."""

from __future__ import annotations

import pytest

from tests.browser.harness import THEMES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SETUP = "%load_ext jmars\nimport numpy as np"
CELL = """%%jmars {flags} -w 2 --memory 1GiB -o {name}
a = np.random.default_rng(1).random((5000, 5000), chunk_size=500)
b = ((a + 1) * 2).rechunk((250, 5000))
total = b.sum(axis=0)
"""


@pytest.mark.parametrize("theme", THEMES)
def test_a_cell_that_is_planned_shows_its_plan(lab, lab_page, theme):
    planned = CELL.format(flags="--plan", name="plan")
    lab.write(f"plan-{theme}.ipynb", [SETUP, planned, "plan.what_if(workers=4)"])
    with lab_page.opened(f"plan-{theme}.ipynb", height=1400) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        notebook.wait_for_text(1, "no plan can beat")
        images = notebook.page.locator(".jp-OutputArea-output img")
        images.nth(1).wait_for()
        assert all(images.nth(i).evaluate("image => image.complete && image.naturalWidth > 500") for i in (0, 1))
        notebook.screenshot(f"plan-{theme}")
        notebook.run(2, wait=True)
        notebook.wait_for_text(2, "workers 4")
        notebook.screenshot(f"what-if-{theme}")
        assert notebook.console == []


@pytest.mark.long
@pytest.mark.parametrize("theme", THEMES)
def test_what_was_predicted_stands_beside_what_was_measured(lab, lab_page, theme):
    lab.write(f"run-{theme}.ipynb", [SETUP, CELL.format(flags="--view full", name="job")])
    with lab_page.opened(f"run-{theme}.ipynb", height=1000) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        notebook.wait_until_idle()
        notebook.screenshot(f"run-{theme}")
        notebook.tab(1, "Plan")
        table = notebook.view(1).get_by_role("table", name="predicted and measured")
        first = table.get_by_role("row").nth(1).inner_text().split("\t")
        assert first[0] == "time" and first[1].endswith("s") and first[2].endswith("s")
        assert notebook.view(1).get_by_role("table", name="plans tried").get_by_role("row").count() >= 2
        notebook.screenshot(f"plan-tab-{theme}")
        assert notebook.console == []


READING = """%%jmars --view full -w 2 --memory 1GiB -o job
import jmars.tensor as mt
x = mt.from_zarr("plane.zarr", chunk_size=(150, 600))
rows, columns = x[:10, :500].sum(), x[:500, :10].sum()
total = rows + columns + np.load("large.npy").mean()
del x
"""
FILES = """import zarr
zarr.create_array("plane.zarr", data=np.zeros((600, 600)), chunks=(100, 100), overwrite=True)
np.save("large.npy", np.ones((2000, 1000)))"""


@pytest.mark.parametrize("theme", THEMES)
def test_bytes_of_files_stand_in_the_header_and_the_plan_tab(lab, lab_page, theme):
    pytest.importorskip("zarr")
    name = f"read-{theme}.ipynb"
    lab.write(name, [SETUP, FILES, READING])
    with lab_page.opened(name, height=1000) as notebook:
        notebook.theme(theme)
        for cell in (0, 1, 2):
            notebook.run(cell, wait=True)
        notebook.wait_until_idle()
        view = notebook.view(2)
        assert "15.3 MiB read" in view.locator(".jm-time").inner_text()
        notebook.tab(2, "Plan")
        rows = view.get_by_role("table", name="sources").get_by_role("row")
        texts = [row.split("\t") for row in rows.all_inner_texts()]
        assert [row[0] for row in texts] == ["source", "load", "from_zarr[...]"]
        assert texts[1][2:] == ["15.3 MiB", "15.3 MiB", "1"] and texts[2][2:] == ["78.1 KiB", "2.7 MiB", "2"]
        assert "its 2 parts share 800 B" in view.locator(".jm-twice").inner_text()
        notebook.screenshot(f"sources-{theme}")
        assert notebook.console == []
