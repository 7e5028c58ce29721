"""The side bar in JupyterLab: clusters, jobs, the view of one, cancel; and accessibility of the view in both themes."""

from __future__ import annotations

import json

import pytest

from jmars.notebook.run_state import RunState
from jmars.notebook.static_view import final_bundle
from jmars.notebook.view import MIME_TYPE
from tests.browser.axe import CONTRAST, RULES, add_axe, check
from tests.browser.harness import THEMES
from tests.browser.look import ROOT, on_each_tab, open_view, picture_at
from tests.browser.simulated import simulate
from tests.notebook.kernels import PROMPT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SETUP = "import time, jmars\nfrom jmars.tensor import arange, map_blocks"
SLOW = """def slow(block):
    time.sleep(0.3)
    return block * 2

cluster = jmars.Cluster(n_workers=2, memory_limit="512MiB")
x = map_blocks(slow, arange(600.0, chunk_size=1) + 1, dtype=float)
job = cluster.submit((x + 1).sum(), name="a slow job")
job.wait(600)
print("it is", job.state)
cluster.close()"""

STATES = ROOT / "labextension" / "style" / "states.css"


@pytest.mark.parametrize("theme", THEMES)
def test_the_side_bar_shows_a_blocked_cells_job_and_cancels_it(lab, lab_page, theme):
    lab.write(f"side-{theme}.ipynb", [SETUP, SLOW])
    with lab_page.opened(f"side-{theme}.ipynb", width=1500) as notebook:
        notebook.theme(theme)
        notebook.command("jmars:show")
        side = notebook.page.locator(".jmars-Sidebar")
        side.get_by_text("No cluster is running").wait_for()
        notebook.run(0, wait=True)
        notebook.run(1)
        side.get_by_role("button", name="2 workers").wait_for()
        side.locator(".jm-state", has_text="running").wait_for()
        bar = side.get_by_role("progressbar")
        before = bar.get_attribute("aria-valuetext")
        notebook.page.wait_for_function(
            "([bar, before]) => bar.ariaValueText !== before", arg=[bar.element_handle(), before]
        )
        notebook.screenshot(f"side-{theme}")
        for tab in ("Workers", "Operands", "Memory", "Plan"):
            side.get_by_role("tab", name=tab).click()
            notebook.screenshot(f"side-{theme}-{tab.lower()}")
        side.get_by_role("button", name="Cancel", exact=True).click()
        notebook.wait_for_text(1, "it is cancelled", timeout=PROMPT)
        side.get_by_text("No cluster is running").wait_for()
        assert notebook.console == []


@pytest.mark.long
def test_a_page_that_is_reloaded_while_a_cell_blocks_shows_the_job_again(lab, lab_page):
    lab.write("again.ipynb", [SETUP, SLOW.replace("sleep(0.3)", "sleep(0.5)")])  # blocks beyond any wait
    with lab_page.opened("again.ipynb", width=1500) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.command("jmars:show")
        side = notebook.page.locator(".jmars-Sidebar")
        side.locator(".jm-state", has_text="running").wait_for()
        notebook.save()
        notebook.page.reload()
        notebook.wait_until_drawn()  # the kernel answers this page when the cell has ended, so nothing may ask it
        notebook.command("jmars:show")
        side.locator(".jm-state", has_text="running").wait_for()
        side.get_by_role("button", name="Cancel", exact=True).click()
        side.get_by_text("No cluster is running").wait_for()
        notebook.wait_until_ready()  # the cell has ended


def test_a_saved_job_opens_as_the_full_view_without_kernel_or_trust(lab, lab_page):
    lab.write("saved-job.ipynb", ["1"])
    saved = lab.read("saved-job.ipynb")
    bundle = json.loads(json.dumps(final_bundle(_finished())))
    saved.cells[0].outputs = [{"output_type": "display_data", "data": bundle, "metadata": {}}]
    (lab.folder / "saved-job.ipynb").write_text(json.dumps(saved))
    assert MIME_TYPE in bundle
    with lab_page.opened("saved-job.ipynb", kernel=False) as notebook:
        view = notebook.view(0)
        assert view.locator(".jm-time").inner_text() in bundle["text/plain"]  # the same numbers as nbconvert shows
        notebook.tab(0, "Operands")
        view.get_by_role("rowheader", name="multiply").wait_for()
        assert view.get_by_role("button", name="Cancel").count() == 0
        notebook.screenshot("saved-job")
        notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.ready")
        assert notebook.console == []
        assert json.loads(lab.get("api/kernels")[1]) == []


def _finished():
    events = simulate(32)
    run = RunState()
    run.follow("job-1")
    run.fold(events)
    return run.picture(events[-1][1])


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("width", [320, 1440])
def test_the_view_is_accessible_in_both_themes_and_all_colours_of_states(page, width):
    scenes = {"running": picture_at(simulate(32), 3.5), "big": picture_at(simulate(500, seconds=20), 9.0)}
    scenes |= {"cancelling": picture_at(simulate(3, seconds=4, cancel_at=2.0), 2.4)}
    scenes |= {"failed": picture_at(simulate(32, fail_at=3.0), 9.0)}
    found = []
    page.set_viewport_size({"width": width, "height": 900})
    for theme in ("light", "dark"):
        open_view(page, theme == "dark")
        page.add_style_tag(content=STATES.read_text(encoding="utf-8"))
        add_axe(page)
        for colours in ("colours", "contrast", "grey"):
            page.evaluate("colours => { document.body.dataset.jmarsStates = colours; }", colours)
            expression = check(".jm", RULES if (theme, colours) == ("light", "colours") else CONTRAST)
            for scene, picture in scenes.items():
                page.evaluate("picture => window.put(picture)", picture)
                for tab, faults in on_each_tab(page, expression).items():
                    found += [(theme, colours, scene, tab, *fault) for fault in faults]
    assert found == []


def test_a_widget_that_is_wider_or_narrower_is_drawn_anew(page):
    page.set_viewport_size({"width": 1000, "height": 900})
    open_view(page)
    page.evaluate("picture => window.put(picture)", picture_at(simulate(32), 3.5))
    for width in (1000, 400, 700):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "() => [...document.querySelectorAll('canvas')].every(c => c.clientWidth === c.parentElement.clientWidth)"
        )
        assert page.evaluate("document.querySelector('.jm').scrollWidth <= document.querySelector('.jm').clientWidth")


def test_plan_and_workers_fit_the_narrowest_side_bar(page):
    page.set_viewport_size({"width": 284, "height": 900})
    open_view(page)
    page.evaluate("picture => window.put(picture)", picture_at(simulate(32), 60.0))
    wider = """[...document.querySelectorAll('.jm-tabs, .jm-panel:not([hidden])')]
      .filter(it => it.scrollWidth > it.clientWidth).map(it => [it.className, it.scrollWidth, it.clientWidth])"""
    found = on_each_tab(page, wider)
    assert {tab: found[tab] for tab in ("Graph", "Workers", "Memory", "Plan") if found[tab]} == {}


def test_a_click_tells_about_an_operand(page):
    page.set_viewport_size({"width": 1000, "height": 900})
    open_view(page)
    page.evaluate("picture => window.put(picture)", picture_at(simulate(3, seconds=4), 60.0))
    page.get_by_role("tab", name="Graph").click()
    for key in ("Home", "ArrowRight"):  # to the second layer
        page.locator(".jm-graph canvas").last.press(key)
    told = page.locator(".jm-inspector").inner_text()
    assert "add+multiply+sqrt+subtract" in told
    assert "np.sqrt(c) - 1" in told
    assert "numexpr" in told and "(2048, 1024)" in told and "float64" in told
    facts = dict(
        page.eval_on_selector_all(".jm-facts div", "all => all.map(it => [...it.children].map(x => x.innerText))")
    )
    assert facts["time"].endswith("s") and facts["predicted time"] == "0.25 s"
    page.get_by_role("button", name="by worker").click()
    assert page.get_by_role("button", name="by worker").get_attribute("aria-pressed") == "true"


def test_what_was_predicted_stands_beside_what_was_measured(page):
    page.set_viewport_size({"width": 1000, "height": 900})
    open_view(page)
    page.evaluate("picture => window.put(picture)", picture_at(simulate(32), 3.5))
    page.get_by_role("tab", name="Plan").click()
    table = page.get_by_role("table", name="predicted and measured")
    cells = [row.split("\t") for row in table.inner_text().splitlines()]
    assert cells[1][:3] == ["time", "8.00 s", "–"]
    page.evaluate("picture => window.put(picture)", picture_at(simulate(32), 60.0))
    cells = [row.split("\t") for row in table.inner_text().splitlines()]
    assert cells[1][1] == "8.00 s" and cells[1][2].endswith(" s") and cells[1][3].endswith(" %")
    assert page.get_by_role("table", name="plans tried").get_by_role("row").count() == 6


HOSTILE = [
    "<img src=x onerror='window.hit=1'>",
    "</script><script>window.hit=1</script>",
    "javascript:window.hit=1",
    '"><svg onload=window.hit=1>',
    "a\x00b",
    "\u202egnp.exe",
    "x" * 1_000_000,
]


@pytest.mark.long(beyond=2)
@pytest.mark.parametrize("name", HOSTILE, ids=["img", "script", "url", "svg", "nul", "rtl", "long"])
def test_a_hostile_name_runs_nothing_and_the_graph_is_still_drawn(page, name):
    events = simulate(3, seconds=4, name=name)
    for event in events:
        if event[2] == "GraphBuilt":
            event[4]["stages"] = [[name, name, 1, name, stage[4]] for stage in event[4]["stages"]]
            event[4]["after_labels"] = [name] * event[4]["n_after"]
            event[4]["predicted"] |= {"chosen": name, "tried": [[name, 1.0, 1, 1, 1]] * 3}
        if event[2] == "WorkerMoved":
            event[4]["name"] = name
    page.set_viewport_size({"width": 800, "height": 900})
    open_view(page)
    asked = []

    def ask(request):
        asked.append(request.url)

    page.on("request", ask)
    page.evaluate("picture => window.put(picture)", picture_at(events, 2.0))
    on_each_tab(page, "0")
    page.get_by_role("tab", name="Graph").click()
    assert page.evaluate("window.hit") is None
    page.remove_listener("request", ask)
    assert asked == []
    assert page.evaluate("document.querySelectorAll('.jm img, .jm script, .jm a, .jm iframe').length") == 0
    colours = """() => [...document.querySelectorAll('canvas')].map(c => new Set(
      new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size)"""
    assert min(page.evaluate(colours)) > 5
