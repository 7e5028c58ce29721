"""The side bar starts, connects, shows and stops a cluster; commands, status bar, notifications and settings."""

from __future__ import annotations

import json

import pytest

from tests.browser.axe import add_axe, check
from tests.browser.harness import THEMES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

BACKGROUND = """import pathlib, time
from jmars.tensor import arange, map_blocks
from jmars.client.cluster import default_cluster
def slow(block):
    if block[0] == 1:
        time.sleep(3)  # notified are jobs of two seconds
    elif not pathlib.Path({gate!r}).exists():
        time.sleep(0.1)
    return block * 2

x = map_blocks(slow, arange(600.0, chunk_size=1) + 1, dtype=float)
job = default_cluster().submit((x + 1).sum(), name="a <b>long</b> sum")"""


def start(notebook, name, workers="1"):
    """Open the side bar and its form, and start a cluster of this machine."""
    notebook.command("jmars:start")
    side = notebook.page.locator(".jmars-Sidebar")
    side.get_by_label("Where").select_option("local")
    side.get_by_role("spinbutton", name="Workers").fill(workers)
    assert side.get_by_label("Memory limit").input_value() == "300MiB"  # of the settings
    side.get_by_label("Memory limit").fill("256MiB")
    side.get_by_label("Name").fill(name)
    side.get_by_role("button", name="Start", exact=True).click()
    side.locator(".jm-card", has_text=name).wait_for()


def stop(page, side):
    """Stop the selected cluster, and confirm."""
    side.get_by_role("button", name="Stop…").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Stop").click()
    side.get_by_text("No cluster is running").wait_for()


def save_and_open_a_replay(notebook, side, name):
    """Save the run of the shown job from the side bar, then from its view in the main area, and show it in a cell."""
    page, dialog = notebook.page, notebook.page.locator(".jp-Dialog")
    tools = page.locator(".jp-MainAreaWidget", has=page.locator(".jmars-Main")).locator(".jp-Toolbar")
    tools.get_by_role("button", name="Report").wait_for()
    told = page.locator(".Toastify__toast", has_text=f"the replay is in {name}")

    def save(button):
        button.click()
        assert dialog.get_by_role("textbox").input_value() == "a-b-long-b-sum.run"
        dialog.get_by_role("textbox").fill(name)
        dialog.get_by_role("button", name="Save").click()

    save(side.get_by_role("button", name="Save the replay of"))
    told.wait_for()
    save(tools.get_by_role("button", name="Save replay"))
    dialog.get_by_text("A file of this name is there already").wait_for()
    dialog.get_by_role("button", name="Replace").click()
    told.nth(1).wait_for()
    page.evaluate(NOTEBOOK_TO_FRONT)
    page.evaluate("() => void window.jupyterapp.commands.execute('jmars:open-replay')")  # ends with its dialog
    assert dialog.locator("option").first.get_attribute("value") == name
    dialog.locator("input").fill(name)
    dialog.get_by_role("button", name="Insert a cell").click()
    dialog.wait_for(state="detached")
    at = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex")
    notebook.run(at, wait=True)
    notebook.view(at).get_by_role("slider").wait_for()
    for file, content, shows in (
        (name, None, ".jm-slider"),
        (f"damaged-{name}", b"jmars run 1\n", "[role=alert]:has-text('is damaged')"),
        (f"text-{name}", b"#!/bin/sh", "[role=alert]:has-text('has the editor')"),
    ):
        if content is not None:
            (notebook.lab.folder / file).write_bytes(content)
        page.evaluate(OPEN_FILE, file)
        page.locator(f".jmars-RunFile {shows}").wait_for()
        notebook.screenshot(f"file-of-{file.removesuffix('.run')}")
        page.evaluate("() => window.jupyterapp.shell.currentWidget.close()")  # the file stays: Lab copies it later


JOBS_FIT = """() => {
  const jobs = [...document.querySelectorAll('.jmars-Sidebar .jm-job')];
  return jobs.length > 0 && jobs.every(it => it.scrollWidth <= it.clientWidth);
}"""
OPEN_FILE = "path => void window.jupyterapp.commands.execute('docmanager:open', { path })"  # as a double click does
NOTEBOOK_TO_FRONT = """() => {
  const { shell } = window.jupyterapp;
  shell.activateById([...shell.widgets('main')].find(it => it.content?.model?.sharedModel?.cells).id);
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_a_cluster_is_started_connected_watched_and_stopped_by_clicks(lab, lab_page, theme, tmp_path):
    name, gate = f"clusters-{theme}.ipynb", tmp_path / "gate"
    lab.write(name, [BACKGROUND.format(gate=str(gate))])
    with lab_page.opened(name, width=1500) as notebook:
        page = notebook.page
        notebook.theme(theme)
        side = page.locator(".jmars-Sidebar")
        start(notebook, "by-click")
        notebook.screenshot(f"clusters-{theme}-started")
        side.get_by_role("button", name="Connect", exact=True).click()
        page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.length === 2"
        )
        side.get_by_role("button", name="Connect", exact=True).click()  # once more selects the cell that is there
        page.wait_for_function("() => document.activeElement.closest('.jp-Notebook')")  # and has the keys
        page.keyboard.press("Shift+Enter")
        notebook.wait_for_text(0, "by-click, 1 worker")
        notebook.wait_until_idle()
        assert page.evaluate("window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.length") == 2
        assert "begin a cell with %%jmars to compute on it" in notebook.text(0)
        notebook.view(0).get_by_text("1 worker (0 busy)").first.wait_for()  # the widget of the cluster
        notebook.screenshot(f"clusters-{theme}-connected")
        notebook.run(0, wait=True)
        assert "already loaded" not in notebook.text(0)
        side.locator(".jm-kernels", has_text=name).wait_for()
        side.get_by_text("Begin a cell with %%jmars").wait_for()
        notebook.run(1, wait=True)
        status = page.locator(".jmars-Status")
        status.get_by_text("jmars: ").wait_for()
        side.get_by_role("progressbar").first.wait_for()
        notebook.screenshot(f"clusters-{theme}-running")
        side.get_by_role("button", name="Open the view of a <b>long</b> sum").click()
        page.locator(".jmars-Main .jm").get_by_text("running").first.wait_for()
        gate.touch()
        ended = page.locator(".Toastify__toast", has_text="succeeded after")  # also of other notebooks of the server
        notice = ended.filter(has_text="a <b>long</b> sum")
        notice.wait_for()
        notebook.screenshot(f"clusters-{theme}-ended")
        status.wait_for(state="hidden")
        with page.context.expect_page() as tab:
            side.get_by_role("link", name="Report of").click()
        report = tab.value
        report.get_by_role("heading", name="a <b>long</b> sum").wait_for()
        report.locator("canvas, svg").first.wait_for()  # Bokeh draws without the origin of the server
        report.close()
        for width in (1024, 1280, 1500):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(JOBS_FIT)
            notebook.screenshot(f"clusters-{theme}-{width}")
        save_and_open_a_replay(notebook, side, f"saved-{theme}.run")
        notebook.screenshot(f"clusters-{theme}-replay")
        side.get_by_role("button", name="Timeline").click()
        page.locator(".jm-history svg").wait_for()
        notebook.screenshot(f"clusters-{theme}-timeline")
        notebook.screenshot(f"clusters-{theme}-two")
        stop(page, side)
        assert [error for error in notebook.console if "jmars" in error] == []


LATE = """%%jmars -w 2
import time
from jmars.tensor import arange, map_blocks
def slow(block):
    time.sleep(0.1)
    return block
time.sleep(1.5)
map_blocks(slow, arange(60.0, chunk_size=1), dtype=float).sum()"""


@pytest.mark.long
def test_the_status_bar_shows_a_job_that_begins_long_after_its_cell(lab, lab_page):
    lab.write("late.ipynb", ["%load_ext jmars", LATE])
    with lab_page.opened("late.ipynb", width=1250) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.page.locator(".jmars-Status").get_by_text("jmars: ").wait_for()
        notebook.wait_for_text(1, "1770.0")
        notebook.page.locator(".jmars-Status").wait_for(state="hidden")


SCALED = """%%jmars
import os, time
from jmars.tensor import arange, map_blocks
def slow(block):
    time.sleep(0 if os.path.exists("{gate}") else 0.1)
    return block
map_blocks(slow, arange(4000.0, chunk_size=1), dtype=float).sum()"""


@pytest.mark.parametrize("theme", THEMES)
def test_a_cluster_of_one_machine_is_scaled_while_a_cell_runs(lab, lab_page, theme, tmp_path):
    name, gate = f"scaled-{theme}", tmp_path / "gate"
    lab.write(f"{name}.ipynb", ["%load_ext jmars", f"%jmars connect {name}", SCALED.format(gate=gate)])
    with lab_page.opened(f"{name}.ipynb", width=1250, height=1000) as notebook:
        notebook.theme(theme)
        page = notebook.page
        side, dialog = page.locator(".jmars-Sidebar"), page.locator(".jp-Dialog")
        start(notebook, name)
        for cell in (0, 1):
            notebook.run(cell, wait=True)
        notebook.run(2)
        notebook.view(2).locator(".jm-state", has_text="running").wait_for()
        side.get_by_role("button", name="Scale…").click()
        assert dialog.get_by_text("As the work needs").count() == 0
        notebook.screenshot(f"scale-one-machine-{theme}")
        assert dialog.get_by_role("radio").count() == 0  # there is one way
        field, scale = dialog.get_by_label("Number of workers").last, dialog.get_by_role("button", name="Scale")
        for wrong, told in {"0": "0 is too few", "2.5": "2.5 is no whole number", "": "An empty field"}.items():
            field.fill(wrong)
            dialog.get_by_role("alert").get_by_text(told).wait_for()
            assert scale.is_disabled()
        notebook.screenshot(f"scale-wrong-{theme}")
        field.fill("1000")
        dialog.get_by_text("workers on ").wait_for()
        notebook.screenshot(f"scale-many-{theme}")
        scale.click()
        dialog.get_by_text("all the same?").wait_for()  # asked once more
        dialog.get_by_role("button", name="Cancel").click()
        dialog.wait_for(state="detached")
        assert side.locator(".jm-card", has_text="1 worker,").count() == 1
        side.get_by_role("button", name="Scale…").click()
        dialog.get_by_label("Number of workers").last.fill("4")
        dialog.get_by_role("button", name="Scale").click()
        side.locator(".jm-card", has_text="4 workers").wait_for()
        notebook.tab(2, "Workers")
        last = notebook.view(2).get_by_role("row").filter(has_text="worker-3")
        last.wait_for()
        notebook.screenshot(f"scaled-up-{theme}")
        side.get_by_role("button", name="Scale…").click()
        dialog.get_by_label("Number of workers").last.fill("2")
        dialog.get_by_role("button", name="Scale").click()
        side.locator(".jm-card", has_text="2 workers").wait_for()
        last.filter(has_text="left").wait_for()
        notebook.screenshot(f"scaled-down-{theme}")
        gate.touch()
        notebook.wait_for_text(2, "7998000.0")
        assert notebook.console == []
        stop(page, side)


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_side_bar_and_its_form_are_accessible(lab, lab_page, theme):
    lab.write(f"clusters-axe-{theme}.ipynb", ["1"])
    with lab_page.opened(f"clusters-axe-{theme}.ipynb", width=1250) as notebook:
        page = notebook.page
        notebook.theme(theme)
        side = page.locator(".jmars-Sidebar")
        start(notebook, "reached")
        side.get_by_text("New cluster").click()
        add_axe(page)
        found = {}
        for kind in ("local", "ssh", "dask", "ray"):
            side.get_by_label("Where").select_option(kind)
            notebook.screenshot(f"form-{kind}-{theme}")
            found |= {(kind, rule): elements for rule, elements in page.evaluate(check(".jmars-Sidebar"))}
        assert found == {}
        side.get_by_label("Where").select_option("ssh")
        side.get_by_role("button", name="Start", exact=True).click()
        side.get_by_text("Name at least one machine").wait_for()
        side.get_by_label("Machines").fill("-oProxyCommand=x")
        side.get_by_role("button", name="Start", exact=True).click()
        side.get_by_text("is no place of ssh").wait_for()
        page.evaluate("window.jupyterapp.shell.collapseLeft()")
        for width in (320, 700, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("(it => it.scrollWidth <= it.clientWidth)(document.querySelector('.jmars-Sidebar'))")
            notebook.screenshot(f"form-{theme}-{width}")
        page.set_viewport_size({"width": 1250, "height": 900})
        page.evaluate("window.jupyterapp.shell.expandLeft()")
        stop(page, side)


@pytest.mark.long
def test_commands_are_in_the_palette_and_a_cell_runs_under_the_magic(lab, lab_page):
    lab.write("palette.ipynb", ["import numpy as np\nnp.arange(10.0).sum()"])
    with lab_page.opened("palette.ipynb", width=1250) as notebook:
        page = notebook.page
        page.keyboard.press("Control+Shift+C")
        page.keyboard.type("jmars")
        items = page.locator(".lm-CommandPalette-item")
        items.first.wait_for()
        for label in ("Show jmars Clusters", "jmars: Start a Cluster…", "Run the Cell with %%jmars"):
            items.filter(has_text=label).wait_for()
        notebook.screenshot("palette")
        page.keyboard.type(" scale")
        page.locator(".lm-CommandPalette-item.lm-mod-active", has_text="jmars: Scale the Cluster…").wait_for()
        notebook.screenshot("palette-scale")
        page.keyboard.press("Enter")
        page.locator(".jmars-Sidebar").get_by_role("button", name="Start", exact=True).wait_for()
        page.keyboard.press("Control+Shift+C")
        page.keyboard.press("Escape")
        page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
        notebook.command("jmars:run-cell")
        notebook.wait_for_text(0, "45.0")
        source = "window.jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells[0].source"
        assert page.evaluate(source).startswith("%%jmars --memory 300MiB\nimport numpy")
        notebook.screenshot("under-the-magic")
        settings = json.loads(lab.get("lab/api/settings/jmars-lab:plugin")[1])
        assert (
            settings["schema"]["properties"]["tab"]["default"] == "lines" and settings["settings"]["notifyAfter"] == 2
        )
