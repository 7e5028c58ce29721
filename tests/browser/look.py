"""Takes screenshots of the view for people to look at: `python -m tests.browser.look FOLDER [WIDTH]`.

The built widget on a bare page, fed with simulated events; no kernel and no JupyterLab are needed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from jmars.notebook.run_state import RunState
from jmars.notebook.tab_states import CellFacts, MemoryState
from jmars.notebook.view import as_json
from tests.browser.simulated import CELL, simulate
from tests.browser.simulated_hosts import on_hosts

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "jmars" / "notebook" / "static"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
TABS = ("Graph", "Lines", "Workers", "Operands", "Memory", "Plan")
DARK = """--jp-ui-font-color1:#eee;--jp-ui-font-color2:#bbb;--jp-layout-color1:#212121;--jp-layout-color2:#424242;
--jp-layout-color3:#616161;--jp-border-color1:#616161;--jp-border-color2:#424242"""
HOST = """
async ([source, dark]) => {
  document.body.dataset.jpThemeLight = dark ? 'false' : 'true';
  const module = await import(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
  const traits = {}, calls = {};
  window.sent = [];
  window.put = json => {
    for (const [name, value] of Object.entries(json)) {
      const packed = name.startsWith('operand_') || name === 'line_costs';
      const bytes = packed && Uint8Array.from(atob(value), c => c.charCodeAt(0));
      traits[name] = bytes ? new DataView(bytes.buffer) : value;
    }
    for (const name of Object.keys(json)) (calls['change:' + name] || []).forEach(f => f());
    return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  };
  const on = (n, f) => (calls[n] = calls[n] || []).push(f);
  const model = {get: n => traits[n], send: m => window.sent.push(m), off: () => {}, on};
  window.unmount = module.default.render({model, el: document.getElementById('el')});
}
"""


def open_view(page: Page, dark: bool = False) -> None:
    """The view on a bare page; `window.put(picture)` feeds it."""
    css = (STATIC / "widget.css").read_text()
    body = f"body{{margin:10px;background:{'#111' if dark else '#fff'};{DARK if dark else ''}}}"
    page.set_content(
        f"<!doctype html><html lang=en><title>view</title><style>{css}{body}</style><body><main id=el></main>"
    )
    page.evaluate(HOST, [(STATIC / "widget.js").read_text(), dark])


def on_each_tab(page: Page, expression: str, place: str = "body") -> dict[str, Any]:
    """What an expression of JavaScript gives on each tab of the view at a place, when the tab is drawn.

    All in one call: a click by Playwright takes 40 ms of CPU.
    """
    script = """async ([tabs, expression, place]) => {
      const found = {};
      for (const tab of tabs) {
        [...document.querySelectorAll(place + ' [role=tab]')].find(it => it.textContent.startsWith(tab)).click();
        await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
        found[tab] = await eval(expression);
      }
      return found;
    }"""
    found: dict[str, Any] = page.evaluate(script, [TABS, expression, place])
    return found


def picture_at(events: list[list[Any]], t: float, attached: bool = True) -> dict[str, Any]:
    """What is shown `t` seconds after the first event."""
    memory = MemoryState(lambda: 24_000_000)  # kept in the kernel
    run = RunState(attached=attached, view="full", cell=CellFacts(file="<cell>", text=CELL), memory=memory)
    job, begun = next((event[3], event[1]) for event in events if event[2] == "JobSubmitted")
    run.follow(job)
    now = begun + t
    run.fold([event for event in events if event[1] <= now])
    run.advise(
        job,
        [("chunk_size 64.0 MiB: −38 % time (5.1 s), peak 2.1 GiB (predictions here were off by 12 % of time)", 0.38)],
    )
    return as_json(run.picture(now))


def stuck(events: list[list[Any]], t: float) -> list[list[Any]]:
    """The events up to `t` seconds, and then nothing but the reason."""
    now = events[0][1] + t
    seen = [event for event in events if event[1] <= now]
    text = (
        "e = (a + b) * 2 … (job-1) waits for memory: operand exp of line 6 (f = np.exp(e)) is first in line, needs "
        "300.0 MiB and lacks 120.0 MiB, of 512.0 MiB there are 310.0 MiB chunks of this job, 130.0 MiB kept tensors "
        "(`del` names that are not needed), 60.0 MiB scratch of running operands, 12.0 MiB free"
    )
    data = {"kind": "memory", "text": text, "seconds": 6.0, "calm": False}
    return [*seen, [seen[-1][0] + 1, now + 6.0, "Stalled", seen[0][3], data]]


def main(folder: Path, width: int = 1000) -> None:
    scenes = {
        "running": picture_at(simulate(32), 3.5),
        "small": picture_at(simulate(3, seconds=4), 2.0),
        "big": picture_at(simulate(1000, seconds=20), 9.0),
        "cancelled": picture_at(simulate(32, cancel_at=4.0), 9.0),
        "failed": picture_at(simulate(60, fail_at=4.0), 9.0),
        "done": picture_at(simulate(32), 60.0),
        "stuck": picture_at(stuck(simulate(32), 3.5), 60.0),
        "hosts": picture_at(on_hosts(2, 4), 3.5),
        "host-lost": picture_at(on_hosts(2, 4, lost_at=4.0), 6.0),
        "many-hosts": picture_at(on_hosts(40, 160, lost_at=4.0, width=200), 6.0),
    }
    with sync_playwright() as pw:
        browser = pw.chromium.launch(executable_path="/usr/bin/chromium", headless=True, args=FLAGS)
        for dark in (False, True):
            page = browser.new_page(viewport={"width": width, "height": 700})
            page.on("pageerror", lambda error: print("page error:", error))
            open_view(page, dark)
            for name, picture in scenes.items():
                page.evaluate("p => window.put(p)", json.loads(json.dumps(picture)))
                for tab in TABS if name in ("running", "big", "done", "stuck") or "host" in name else TABS[:1]:
                    page.get_by_role("tab", name=tab).click()
                    if tab == "Graph" and name == "running":
                        page.locator(".jm-graph canvas").last.press("End")
                        page.locator(".jm-graph canvas").last.press("ArrowLeft")
                        page.locator(".jm-graph canvas").last.press("ArrowLeft")
                    page.wait_for_timeout(200)
                    path = folder / f"{name}-{tab.split()[0].lower()}-{'dark' if dark else 'light'}-{width}.png"
                    page.screenshot(path=path, full_page=True)
                page.get_by_role("tab", name="Graph").click()
            page.close()
        browser.close()


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    main(out, int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
