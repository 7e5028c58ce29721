"""The view in the main area, the time line, the status bar and dialogs: accessible, and not cut at any width."""

from __future__ import annotations

import pytest

from tests.browser.axe import add_axe, check
from tests.browser.look import on_each_tab
from tests.browser.test_widths import CUT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

JOB = """import time, jmars
from jmars.tensor import arange, map_blocks
def slow(block):
    time.sleep(0.3)
    return block * 2

cluster = jmars.Cluster.hosts(["local"], n_workers=2, memory_limit="256MiB", name="looked-at")
x = map_blocks(slow, arange(3000.0, chunk_size=1) + 1, dtype=float)
job = cluster.submit((x + 1).sum(), name="a job of minutes")"""
WIDTHS = (320, 700, 1440)


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_main_area_time_line_status_bar_and_dialogs(lab, lab_page, theme):
    lab.write(f"reached-{theme}.ipynb", [JOB])
    with lab_page.opened(f"reached-{theme}.ipynb", width=1440) as notebook:
        page, found = notebook.page, []
        notebook.theme(theme)
        add_axe(page)
        notebook.run(0, wait=True)
        page.locator(".jmars-Status").get_by_text("jmars: ").wait_for()
        found += page.evaluate(check(".jmars-Status"))
        notebook.command("jmars:show")
        page.locator(".jmars-Sidebar .jm-card").wait_for()
        for act in ("scale", "stop"):
            page.evaluate("act => void window.jupyterapp.commands.execute(`jmars:${act}`)", act)
            page.locator(".jp-Dialog").wait_for()
            notebook.screenshot(f"dialog-{act}-{theme}")
            found += page.evaluate(check(".jp-Dialog"))
            page.keyboard.press("Escape")
        page.evaluate("() => { const s = window.jupyterapp.shell; s.mode = 'single-document'; s.collapseLeft(); }")
        page.evaluate("() => window.jupyterapp.shell.collapseRight()")
        try:
            for word, drawn in (("timeline", ".jm-history svg"), ("open", ".jmars-Main .jm [role=progressbar]")):
                notebook.command(f"jmars:{word}")
                page.locator(drawn).wait_for()
                shown = ".jmars-Main:not(.lm-mod-hidden *)"
                for width in WIDTHS:
                    page.set_viewport_size({"width": width, "height": 900})
                    notebook.screenshot(f"{word}-{theme}-{width}")
                    if word == "timeline":
                        found += [(word, width, *fault) for fault in page.evaluate(check(shown))]
                        found += [(word, width, text) for text in page.evaluate(CUT)]
                    else:
                        for expression in (check(shown), CUT):
                            for tab, faults in on_each_tab(page, expression, shown).items():
                                found += [(width, tab, fault) for fault in faults]
        finally:
            page.evaluate("() => { const s = window.jupyterapp.shell; s.mode = 'multiple-document'; s.expandLeft(); }")
        assert found == []
        notebook.command("jmars:cancel")
