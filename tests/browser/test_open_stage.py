"""A stage of a large graph opens to its operands on a real canvas, by keys and by clicks, in both themes."""

from __future__ import annotations

import json

import pytest

from tests.browser.look import open_view, picture_at
from tests.browser.simulated import simulate

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

PIXEL = "([x, y]) => [...document.querySelector('canvas').getContext('2d').getImageData(x, y, 1, 1).data]"


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("dark", [False, True])
def test_a_stage_opens_to_its_operands(page, dark):
    page.set_viewport_size({"width": 1000, "height": 700})
    open_view(page, dark)
    picture = json.loads(json.dumps(picture_at(simulate(1000, seconds=20), 9.0)))
    page.evaluate("p => window.put(p)", picture)
    page.get_by_role("tab", name="Graph").click()
    canvas, told = page.locator(".jm-graph canvas").first, page.locator(".jm-inspector h4")
    low = canvas.bounding_box()["height"]
    canvas.focus()
    page.keyboard.press("ArrowDown")
    name = told.inner_text()
    page.keyboard.press("Enter")
    assert told.inner_text() == f"{name}: operands 1 to 3 of 1\u202f000"
    page.keyboard.press("End")
    assert told.inner_text() == f"{name}: operands 997 to 1\u202f000 of 1\u202f000"
    assert canvas.bounding_box()["height"] > low + 60
    at = [19, 80]  # within the first mark: its box stands below the other one of its layer
    by_state = page.evaluate(PIXEL, at)
    page.get_by_role("button", name="by worker").click()
    assert page.evaluate(PIXEL, at) != by_state
    page.evaluate("p => window.put(p)", picture)  # the next frame leaves it open
    assert told.inner_text().endswith("of 1\u202f000")
    canvas.focus()
    page.keyboard.press("Escape")
    assert (told.inner_text(), canvas.bounding_box()["height"]) == (name, low)
