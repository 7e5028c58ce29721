"""The Lines tab: a click on a line marks its operands in the graph and the time line, and the other way round."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.browser.axe import add_axe, check
from tests.browser.look import open_view, picture_at
from tests.browser.simulated import simulate

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

# pixels of the graph after fusion that are neither faint nor empty
STRONG = """() => {
  const canvas = document.querySelectorAll('.jm-graph canvas')[1];
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let strong = 0;
  for (let i = 3; i < data.length; i += 4) strong += data[i] > 250;
  return strong;
}"""


def look(page, name):
    folder = os.environ.get("JMARS_SCREENS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.png").write_bytes(page.screenshot(full_page=True))


@pytest.mark.parametrize("dark", [False, True])
def test_a_line_and_its_operands_mark_each_other(page, dark):
    page.set_viewport_size({"width": 1000, "height": 800})
    open_view(page, dark)
    page.evaluate("p => window.put(p)", json.loads(json.dumps(picture_at(simulate(32), 6.0))))
    page.get_by_role("tab", name="Graph").click()
    all_strong = page.evaluate(STRONG)
    page.get_by_role("tab", name="Lines").click()
    line = page.get_by_role("button", name="d = np.sqrt(c) - 1")
    line.click()
    assert line.get_attribute("aria-pressed") == "true"
    assert "operands of line 4" in page.locator(".jm-focus").inner_text()
    look(page, f"lines-marked-{'dark' if dark else 'light'}")
    page.get_by_role("tab", name="Workers").click()
    assert page.locator(".jm-workers .jm-faint").count() > 0
    page.get_by_role("tab", name="Graph").click()  # marked there too
    assert 0 < page.evaluate(STRONG) < all_strong / 2  # the boxes of one kind of four stay strong
    assert page.locator(".jm-focus").is_visible()
    look(page, f"graph-marked-{'dark' if dark else 'light'}")
    page.get_by_role("button", name="Mark none").click()
    page.locator(".jm-graph canvas").last.press("Home")  # an operand of the first line
    page.get_by_role("tab", name="Lines").click()
    of = page.locator("tr.jm-of code")
    assert of.all_inner_texts() in (["a = np.random.rand(8000, 8000)"], ["b = np.random.rand(8000, 8000)"])
    page.get_by_role("tab", name="Workers").click()
    lane = page.locator(".jm-workers .jm-lanes")
    lane.click(position={"x": 120, "y": 14})  # the first piece of worker-0
    page.get_by_role("tab", name="Lines").click()
    assert page.locator("tr[data-lit]").count() == 1
    add_axe(page)
    assert page.evaluate(check(".jm")) == []


SHOWN = """[...document.querySelectorAll('.jm-code tbody tr')].flatMap(row => {
  const cells = [...row.querySelectorAll('td:not(.jm-share):not(.jm-cell)')].filter(it => it.offsetParent);
  const share = row.querySelector('.jm-share span')?.innerText;
  return share ? [[share, cells.map(it => it.innerText).filter(it => /s$/.test(it))]] : [];
})"""
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


@pytest.mark.parametrize("width", [280, 540, 1000])
def test_a_share_is_that_of_the_seconds_that_are_seen_and_code_is_whole(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    open_view(page, width == 540)
    page.evaluate("p => window.put(p)", json.loads(json.dumps(picture_at(simulate(32), 6.0))))
    page.get_by_role("tab", name="Lines").click()
    rows = page.evaluate(SHOWN)
    took = [sum(float(text.split()[0]) * UNITS[text.split()[1]] for text in seen) for _, seen in rows]
    for (share, _), seconds in zip(rows, took, strict=True):
        assert abs(float(share.strip("≈ %")) - 100 * seconds / sum(took)) < 1.5, rows
    for code in page.locator(".jm-code tbody code").all():
        assert code.evaluate("it => it.scrollWidth <= it.clientWidth + 1")
    if width == 280:  # the side bar: the code has the whole width
        box = page.locator(".jm-code tbody th").first.bounding_box()
        assert box and box["width"] > 200
    add_axe(page)
    assert page.evaluate(check(".jm")) == []
    look(page, f"lines-{width}")
