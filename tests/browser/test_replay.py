"""Replays: the same as the live view showed, at any moment, on a page without kernel, server or network."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

import jmars
from jmars.notebook.replay import REPLAY_TYPE, replay_data, replay_page
from jmars.reports.saved_run import save_run
from tests.browser.axe import add_axe, check
from tests.browser.look import on_each_tab, open_view, picture_at
from tests.browser.simulated import simulate
from tests.browser.test_widths import CUT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SEEK = """async t => {
  const slider = document.querySelector('.jm-slider');
  slider.value = String(Math.round(1e6 * t));
  slider.dispatchEvent(new Event('input'));
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
SHOWN = """[...document.querySelectorAll('.jm-bar, .jm-legend, .jm-state, .jm-panel:not([hidden])')]
  .map(it => it.getAttribute('aria-valuetext') || it.innerText)
  .concat([...document.querySelectorAll('.jm-panel:not([hidden]) canvas')].map(it => it.toDataURL()))"""
# frames a second over n moments in no order, and for each the slider and the clock that are drawn one frame later
SCRUB = """async n => {
  const slider = document.querySelector('.jm-slider'), begun = performance.now(), told = [];
  for (let i = 0; i < n; i++) {
    slider.value = String(Math.round(Number(slider.max) * ((37 * i) % n) / n));
    slider.dispatchEvent(new Event('input'));
    await new Promise(done => requestAnimationFrame(done));
    told.push([Number(slider.value) / 1e6, document.querySelector('.jm-clock').innerText]);
  }
  return { rate: n * 1000 / (performance.now() - begun), told };
}"""


def open_replay(page: Page, saved: dict[str, Any], dark: bool = False) -> None:
    """A page as `Replay.page` writes it, whose policy lets `on_each_tab` evaluate."""
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.set_content(replay_page(saved, "replay").replace("script-src", "script-src 'unsafe-eval'"))
    page.locator(".jm-slider").wait_for()


def saved(*runs: list[list[Any]]) -> dict[str, Any]:
    return {"runs": [b64encode(replay_data(run, "job-1", f"run {k}")).decode() for k, run in enumerate(runs)]}


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, Any]:
    """Two runs of a graph, which differ from the first operands on."""
    paths = [save_run(tmp_path / f"{k}.run", simulate(16, seed=k), "job-1", "exp") for k in (1, 2)]
    found = jmars.replay(*paths)._repr_mimebundle_()[REPLAY_TYPE]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("width", [32, pytest.param(300, marks=pytest.mark.long)])
def test_a_replay_shows_what_the_live_view_showed(page, width):
    events = simulate(width, n_workers=3)
    data = replay_data(events, "job-1")
    raw = zlib.decompress(data)
    head = json.loads(raw[4 : 4 + int.from_bytes(raw[:4], "little")])
    first = next(at for at, event in enumerate(events) if event[3])
    keys = [key["moment"] for key in head["keys"]]
    moments = [keys[2], *(keys[len(keys) * k // 7] for k in (5, 1, 6, 3)), keys[-1]]  # forwards and backwards
    times = [events[first + moment][1] - events[first][1] for moment in moments]
    page.set_viewport_size({"width": 1000, "height": 900})
    found = []
    open_replay(page, saved(events))
    for t in times:
        page.evaluate(SEEK, t + 1e-6)
        found.append(on_each_tab(page, SHOWN))
    expected = []
    page.goto("about:blank")
    open_view(page)
    page.add_style_tag(content=".jm { max-width: none }")
    for t in times:
        picture = json.loads(json.dumps(picture_at(events, t + 2e-6)))
        picture["snap"]["view"] = "full"
        page.evaluate("picture => window.put(picture)", picture)
        expected.append(on_each_tab(page, SHOWN))
    for replayed, live in zip(found, expected, strict=True):
        for tab in ("Graph", "Operands"):
            assert replayed[tab] == live[tab]
        tables = [one["Workers"][3].split("Time line")[0] for one in (replayed, live)]  # its axis is of the whole run
        assert tables[0] == tables[1]


def test_steps_keys_and_play(page):
    open_replay(page, saved(simulate(3, seconds=0.5)))
    event, slider = page.locator(".jm-event"), page.get_by_role("slider", name="time of the run")

    def number() -> int:
        found = re.match(r"event ([\d\u202f]+) of", event.inner_text())
        assert found
        return int(found[1].replace("\u202f", ""))

    assert page.locator(".jm-state").inner_text() == "succeeded"  # it opens at the end
    slider.press("Home")
    first = number()  # the first events have the same time
    page.get_by_role("button", name="Next event").click()
    assert number() == first + 1
    page.get_by_role("button", name="Previous event").click()
    assert number() == first
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    slider.press("ArrowLeft")
    assert number() == first + 1
    slider.press("PageUp")
    seconds = float(re.findall(r"([\d.]+) s", slider.get_attribute("aria-valuetext"))[0])
    assert seconds >= float(slider.get_attribute("max")) / 1e7
    page.get_by_label("speed").select_option("3")
    page.get_by_role("button", name="Play").click()
    page.locator(".jm-state", has_text="succeeded").wait_for()
    page.get_by_label("speed").select_option("0.01")  # the run lasts longer than the click on Pause
    page.get_by_role("button", name="Play").click()  # from the start again
    page.get_by_role("button", name="Pause").click()
    at = number()
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert number() == at


def test_two_runs_share_time_and_tab_and_mark_their_differences(page, pair):
    open_replay(page, pair)
    assert "First difference:" in page.locator(".jm-player").inner_text()
    first = pair["difference"]["first"]
    page.locator(".jm-firstly button").click()
    assert page.locator(".jm-clock").inner_text().startswith(f"{first['at']:.2f} s")
    assert page.locator(".jm-ticks .jm-first").count() == 1
    page.get_by_role("tab", name="Memory").first.click()
    shown = page.locator("[role=tab][aria-selected=true]").all_text_contents()
    assert shown == ["Memory & spill"] * 2
    assert page.locator(".jm-run").all_inner_texts()[1].startswith("B exp (2.run)")


def test_a_run_of_20000_operands_is_drawn_in_a_frame_at_any_moment(page):
    events = simulate(2200, seconds=60)
    text = saved(events)
    graph = next(event[4] for event in events if event[2] == "GraphBuilt")
    assert graph["n_before"] > 18_000 and len(text["runs"][0]) < 2e6
    page.set_viewport_size({"width": 1000, "height": 900})
    open_replay(page, text)
    told = page.evaluate(SCRUB, 60)["told"]  # 20 frames a second and more: docs/how-to/replay.md
    assert len({seconds for seconds, _ in told}) == 60
    assert [clock.partition(" of ")[0] for _, clock in told] == [f"0 min {seconds:04.1f} s" for seconds, _ in told]


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        ("", "damaged"),
        ("!!!", "damaged"),
        (b64encode(b64decode(saved(simulate(3))["runs"][0])[:-40]).decode(), "damaged"),
        (b64encode(zlib.compress(b"\x02\0\0\0{}")).decode(), "later than this jmars"),
        (b64encode(zlib.compress(b"\0" * 300 * 2**20)).decode(), "too large"),
    ],
)
def test_damaged_data_is_told(page, packed, words):
    page.set_content(replay_page({"runs": [packed]}, "replay"))
    page.get_by_role("alert").wait_for()
    assert words in page.get_by_role("alert").inner_text()


def test_texts_of_a_run_are_text(page):
    events = simulate(3)
    name = "</script><script>window.bad = 1</script><img src=x onerror='window.bad = 1'>"
    next(event for event in events if event[2] == "JobSubmitted")[4]["name"] = name
    one = b64encode(replay_data(events, "job-1", name)).decode()
    open_replay(page, {"runs": [one, one], "names": [name, name]})
    assert page.evaluate("window.bad") is None
    assert name in page.locator(".jm-which").first.inner_text()


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("width", [320, 1440])
def test_a_replay_is_accessible_and_nothing_is_cut(page, width, pair):
    page.set_viewport_size({"width": width, "height": 900})
    found = []
    for dark in (False, True):
        open_replay(page, pair, dark)
        page.evaluate(SEEK, 2.0)
        add_axe(page)
        for tab, faults in on_each_tab(page, check("body")).items():
            found += [(dark, tab, *fault) for fault in faults]
        for tab, cut in on_each_tab(page, CUT).items():
            found += [(dark, tab, text) for text in cut]
    assert found == []
