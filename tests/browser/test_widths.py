"""The view fits where it stands: beside another tab, in the side bar, magnified. Simulated runs on a bare page."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import pairwise

import pytest

from jmars.notebook.widget import JobView
from tests.browser.look import on_each_tab, open_view, picture_at
from tests.browser.simulated import simulate
from tests.browser.simulated_hosts import on_hosts

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

WIDTHS = (252, 280, 320, 360, 420, 430, 480, 520, 600, 700, 860, 900, 1200, 1440)  # pixels of the page
CUT = """[...document.querySelectorAll('.jm, .jm-head, .jm-panel:not([hidden]), .jm-panel:not([hidden]) *')]
  .filter(it => it.scrollWidth > it.clientWidth + 1 && it.clientWidth > 0 && getComputedStyle(it).display !== 'inline'
    && getComputedStyle(it).textOverflow !== 'ellipsis')
  .map(it => `${it.tagName}.${it.className}: ${it.scrollWidth} in ${it.clientWidth}`)"""


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("run", ["running", "big", "done", "host lost", "many hosts"])
def test_nothing_is_cut_at_any_width(page, run):
    events = {
        "big": lambda: simulate(1000, seconds=20),
        "host lost": lambda: on_hosts(2, 4, lost_at=4.0),
        "many hosts": lambda: on_hosts(40, 160, lost_at=4.0, width=200),
    }.get(run, lambda: simulate(32, n_workers=4))()
    picture = picture_at(events, {"running": 3.5, "done": 60.0, "big": 9.0}.get(run, 6.0))
    picture["workers"][1]["replaced"] = 12
    open_view(page)
    page.evaluate("p => window.put(p)", json.loads(json.dumps(picture)))
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 700})
        for tab, cut in on_each_tab(page, CUT).items():
            found += [f"{width} px, {tab}: {text}" for text in cut]
    assert "\n".join(found) == ""


FACTS = """[...document.querySelectorAll('.jm-joblist')].flatMap(list => {
  const { left, right } = list.getBoundingClientRect();
  return [...list.querySelectorAll('span:last-child')].map(it => {
    const range = document.createRange();
    range.selectNodeContents(it);
    const box = range.getBoundingClientRect();
    return box.width > 0 && box.left >= left && box.right <= right + 1;
  });
})"""


@pytest.mark.long
def test_the_facts_of_a_cells_jobs_are_not_cut_at_any_width(page):
    picture = json.loads(json.dumps(picture_at(simulate(3, seconds=4), 60.0)))
    part = {"name": "In [3]", "line": 12, "text": "total = float((a * 2).sum()) + float((a - 2).sum()) # of all"}
    part |= {"state": "succeeded", "n": 12_345, "elapsed": 83.2, "spilled": 2**31}
    picture["snap"]["parts"] = [part | {"number": i, "job": f"job-{i}"} for i in (1, 2)]
    open_view(page)
    page.evaluate("p => window.put(p)", picture)
    page.get_by_role("tab", name="Graph").click()  # the Lines tab is about all jobs, and has no list of jobs
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 700})
        page.wait_for_timeout(50)
        assert page.evaluate(FACTS) == [True, True], f"{width} px"


NAMES = """[...document.querySelectorAll('[role=tab]')].map(tab => {
  const range = document.createRange();
  range.selectNodeContents(tab);
  const box = range.getBoundingClientRect();
  return [box.left, box.right, box.top];
})"""


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("dark", [False, True])
def test_the_names_of_the_tabs_stand_apart_at_any_width(page, dark):
    open_view(page, dark)
    page.evaluate("p => window.put(p)", json.loads(json.dumps(picture_at(simulate(3, seconds=4), 2.0))))
    near = {}
    for width in (262, *WIDTHS):  # the side bar has 260 pixels at least, 10 of padding at each side
        page.set_viewport_size({"width": width, "height": 700})
        for tab, names in on_each_tab(page, NAMES).items():  # the open tab's name is bold, so wider
            gaps = [right[0] - left[1] for left, right in pairwise(names) if left[2] == right[2]]  # of one line
            if min(gaps) < 5 or max(name[1] for name in names) > width:
                near[width, tab] = [round(gap, 1) for gap in gaps]
    assert near == {}


LOAD = """
async ([loader, packed, picture]) => {
  const binary = text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
  const names = name => name.startsWith('operand_') || name === 'line_costs';
  const traits = {_module: binary(packed), _module_id: 'one'};
  for (const [name, value] of Object.entries(picture)) traits[name] = names(name) ? binary(value) : value;
  const model = {get: name => traits[name], on: () => {}, off: () => {}, send: () => {}};
  const widget = await import(URL.createObjectURL(new Blob([loader], {type: 'text/javascript'})));
  for (const number of [1, 2]) {
    await widget.default.render({model, el: document.body.appendChild(document.createElement('main'))});
  }
}
"""


def test_a_page_unpacks_the_module_of_the_view_once_and_gets_its_style(page):
    picture = json.loads(json.dumps(picture_at(simulate(32), 3.5)))
    page.set_content("<!doctype html><html lang=en><title>view</title><body>")
    page.evaluate(LOAD, [JobView._esm, b64encode(JobView._module.default_value).decode(), picture])
    page.locator(".jm-state", has_text="running").nth(1).wait_for()
    assert page.locator(".jm").count() == 2
    assert page.evaluate("[...document.head.querySelectorAll('style')].map(it => it.textContent.includes('.jm'))") == [
        True
    ]
