"""Why nothing moves, and what each worker did, as a person sees both in JupyterLab."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.harness import THEMES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SETUP = """%load_ext jmars
import numpy as np, pathlib, time
import jmars.tensor as mt
gate = pathlib.Path({gate!r})
def waits(block):
    while not gate.exists():
        time.sleep(0.05)
    return block"""
CELL = """%%jmars -w 2 --memory 1GiB -b
a = np.random.default_rng(1).random((2000, 2000), chunk_size=250)
b = mt.map_blocks(waits, (a * 2).sum(axis=0), dtype=float)"""


@pytest.mark.parametrize("theme", THEMES)
def test_the_view_says_why_nothing_moves_and_shows_a_lane_for_each_worker(lab, lab_page, theme, tmp_path: Path):
    gate = tmp_path / "gate"
    name = f"why-{theme}.ipynb"
    lab.write(name, [SETUP.format(gate=str(gate)), CELL, "%jmars why", "%jmars trace run.json"])
    with lab_page.opened(name, height=1300) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        line = notebook.view(1).locator(".jm-why")
        line.wait_for()  # five seconds after the last thing that moved
        said = line.inner_text()
        assert "runs: operand" in said and "waits" in said and "of line 3 (b = mt.map_blocks(waits" in said
        assert line.get_attribute("data-calm") == "true"
        notebook.tab(1, "Workers")
        lanes = notebook.view(1).locator("[data-lane]")
        lanes.nth(1).wait_for()
        running = notebook.view(1).locator(".jm-lane.jm-open")
        assert running.count() >= 1
        wide = running.first.bounding_box()["width"] / lanes.first.bounding_box()["width"]
        notebook.page.wait_for_function(  # the piece of the operand that waits grows with the time axis
            "([piece, lane, wide]) => piece.getBoundingClientRect().width / lane.getBoundingClientRect().width > wide",
            arg=[running.first.element_handle(), lanes.first.element_handle(), wide],
        )
        running.first.hover()
        assert "running for" in notebook.view(1).locator(".jm-told").inner_text()
        notebook.screenshot(f"why-{theme}")
        box, panel = lanes.nth(0).bounding_box(), notebook.view(1).locator(".jm-timeline:visible").bounding_box()
        assert box and panel and box["x"] >= panel["x"] and box["x"] + box["width"] <= panel["x"] + panel["width"] + 1
        notebook.run(2, wait=True)
        notebook.wait_for_text(2, "runs: operand")
        gate.touch()
        notebook.view(1).get_by_text("succeeded").first.wait_for()
        notebook.run(3, wait=True)
        notebook.wait_for_text(3, "ui.perfetto.dev")
        assert (lab.folder / "run.json").stat().st_size > 1000
        notebook.screenshot(f"lanes-{theme}")
        assert notebook.console == []
