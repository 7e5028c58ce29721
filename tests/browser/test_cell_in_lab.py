"""What a person sees: JupyterLab under a prefix and with a token, a `%%jmars` cell, its live view and its buttons."""

from __future__ import annotations

from pathlib import Path

import pytest

from jmars.notebook.view import MIME_TYPE
from tests.browser.harness import THEMES, NotebookPage
from tests.notebook.kernels import IN_LAB, PROMPT, write_kernelspec

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SETUP = "%load_ext jmars\nimport numpy as np, pathlib, time\nfrom jmars.tensor import map_blocks\nx = 'old'"
SLOW = """%%jmars -w 2 --memory 512MiB -o job
def slow(block):
    time.sleep(0.0 if pathlib.Path({gate!r}).exists() else 0.1)
    return block * 2

a = np.arange({n}.0, chunk_size=1) + 1
x = map_blocks(slow, np.sqrt(a * a), dtype=float)
total = (x + 1).sum()
total
"""


def slow(seconds: float, gate: str | Path = "/no/gate") -> str:
    """A cell that takes about that long on two workers, or until `gate` is there: chains that fuse, user code, a tree
    sum.
    """
    return SLOW.format(n=round(seconds * 20), gate=str(gate))


def click_cancel(notebook: NotebookPage, cell: int, following: int) -> None:
    """Cancel a cell that blocks, once its bar has moved; the cell queued behind it is dropped, and runs anew."""
    notebook.view(cell).get_by_role("button", name="Cancel").wait_for()
    seen = notebook.moved(cell)
    assert seen == sorted(seen), "the bar went back"
    assert len(seen) >= 3, "the view stood still"
    notebook.run(following)
    assert notebook.text(following) == ""
    notebook.view(cell).get_by_role("button", name="Cancel").click()
    notebook.wait_until_idle(timeout=PROMPT)
    assert notebook.text(following) == ""
    notebook.run(following)
    notebook.wait_for_text(following, "old cancelled")


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("version", IN_LAB)
def test_a_blocking_cell_is_cancelled_before_and_after_a_page_reload(lab, lab_page, version):
    write_kernelspec(lab.specs, f"ipykernel-{version}", version)
    cells = [SETUP, slow(60), "print('next', x, job.state)", "print('again', x, job.state)"]
    lab.write("cancel.ipynb", cells, f"ipykernel-{version}")
    with lab_page.opened("cancel.ipynb", fresh=True) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        click_cancel(notebook, 1, 2)
        assert notebook.console == []
        notebook.run(1)
        notebook.view(1).get_by_role("button", name="Cancel").wait_for()
        notebook.moved(1)
        notebook.save()
        notebook.page.reload()
        notebook.wait_until_ready()
        click_cancel(notebook, 1, 3)
        notebook.view(1).get_by_text("cancelled").first.wait_for()


@pytest.mark.parametrize("theme", THEMES)
def test_the_view_is_seen_in_both_themes_and_saved_without_a_kernel(lab, lab_page, theme):
    name = f"look-{theme}.ipynb"
    lab.write(name, [SETUP, slow(4), "total + 1"])
    with lab_page.opened(name, height=1000) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.moved(1)
        notebook.screenshot(f"cell-{theme}-graph")
        for tab in ("Lines", "Workers", "Operands", "Memory & spill", "Plan"):
            notebook.tab(1, tab)
            notebook.screenshot(f"cell-{theme}-{tab.split()[0].lower()}")
        notebook.run(2, wait=True)
        notebook.wait_until_idle()
        notebook.view(1).get_by_text("succeeded").first.wait_for()
        notebook.tab(1, "Graph")
        notebook.view(1).locator(".jm-graph canvas").last.press("ArrowDown")
        facts = notebook.view(1).locator(".jm-facts").first.inner_text().split()
        assert {"time", "predicted", "shape", "dtype", "float64", "back", "end"} <= {*facts}
        notebook.screenshot(f"cell-{theme}-ended")
        notebook.tab(1, "Lines")
        line = notebook.view(1).locator(".jm-code tr", has_text="map_blocks")
        assert " s" in line.inner_text()  # seconds of calculating
        assert notebook.view(1).locator(".jm-code code").first.inner_text() == "def slow(block):"
        notebook.screenshot(f"cell-{theme}-lines")
        notebook.wait_for_text(1, MIME_TYPE)
        notebook.save()
        assert notebook.console == []
    outputs = lab.read(name).cells[1].outputs
    assert MIME_TYPE in outputs[0].data
    assert "<img" in outputs[0].data["text/html"]
    assert "widget-view" not in str(outputs)
    with lab_page.opened(name, kernel=False) as notebook:
        notebook.theme(theme)
        notebook.tab(1, "Operands")
        notebook.screenshot(f"saved-without-kernel-{theme}")
        assert notebook.view(1).get_by_role("button", name="Cancel").count() == 0  # by role: none that can be seen


BOXES = """() => {
  const view = [...document.querySelectorAll('.jp-OutputArea-output .jm')].find(it => it.clientWidth > 0);
  const canvas = view.querySelector('.jm-graph canvas');
  const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d');
  pen.fillStyle = getComputedStyle(view).getPropertyValue('--jm-box').trim();
  pen.fillRect(0, 0, 1, 1);
  const [box] = new Uint32Array(pen.getImageData(0, 0, 1, 1).data.buffer);
  const drawn = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return new Uint32Array(drawn.buffer).reduce((sum, one) => sum + (one === box), 0) > 500;
}"""


def test_the_graph_of_an_ended_cell_takes_another_themes_colours(lab, lab_page):
    flags = "%%jmars -w 2 --memory 512MiB --view full"
    cell = f"{flags}\nnp.random.default_rng(1).random((800, 800), chunk_size=800).sum()"  # boxes with names
    lab.write("rethemed.ipynb", [SETUP, cell])
    with lab_page.opened("rethemed.ipynb") as notebook:
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        notebook.wait_until_idle()
        notebook.wait_for_text(1, MIME_TYPE)
        notebook.view(1).get_by_text("succeeded").first.wait_for()
        notebook.tab(1, "Graph")
        notebook.page.wait_for_function(BOXES)
        for theme in ("dark", "light"):
            notebook.theme(theme)
            notebook.page.wait_for_function(BOXES, timeout=5000)
            notebook.screenshot(f"rethemed-{theme}")


@pytest.mark.long
def test_the_stop_button_stops_the_cell_and_what_is_queued(lab, lab_page):
    lab.write("stop.ipynb", [SETUP, slow(60), "x = 'must not run'", "print('state', x, job.state)"])
    with lab_page.opened("stop.ipynb") as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.moved(1)
        notebook.run(2)
        notebook.command("notebook:interrupt-kernel")
        notebook.wait_for_text(1, "KeyboardInterrupt")
        notebook.wait_until_idle()
        notebook.screenshot("stopped")
        notebook.run(3, wait=True)
        assert notebook.text(3).strip() == "state old cancelled"


@pytest.mark.long
def test_to_background_gives_the_prompt_back_and_the_view_stays_live(lab, lab_page, tmp_path):
    gate = tmp_path / "gate"
    lab.write("background.ipynb", [SETUP, slow(60, gate), "print('state', job.state)", "print('sum', float(total))"])
    with lab_page.opened("background.ipynb") as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.moved(1)
        notebook.view(1).get_by_role("button", name="To background").click()
        notebook.run(2, wait=True)
        assert notebook.text(2).strip() == "state running"
        assert len(notebook.moved(1)) >= 3
        gate.touch()
        notebook.run(3, wait=True)
        n = 60 * 20
        assert notebook.text(3).strip() == f"sum {float(sum(2 * i + 1 for i in range(1, n + 1)))}"


@pytest.mark.long
def test_the_side_bar_lists_the_job_and_cancels_it(lab, lab_page):
    lab.write("side.ipynb", [SETUP, slow(60), "print('next', x, job.state)"])
    with lab_page.opened("side.ipynb", width=1600) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.moved(1)
        notebook.command("jmars:show")
        side = notebook.page.locator("#jmars-sidebar")
        side.get_by_role("progressbar").first.wait_for()
        notebook.page.wait_for_timeout(500)
        notebook.screenshot("side-bar")
        side.get_by_role("button", name="Cancel").first.click()
        notebook.wait_for_text(1, "was cancelled; names keep their old values", timeout=PROMPT)
        notebook.wait_until_idle()  # until then, the kernel refuses the cells that come: Cancel ends the queue
        notebook.run(2)
        notebook.wait_for_text(2, "next old cancelled")


def test_without_the_token_the_server_tells_nothing(lab):
    assert lab.get("jmars/clusters")[0] == 200
    assert lab.get("jmars/clusters", token=None)[0] == 403
