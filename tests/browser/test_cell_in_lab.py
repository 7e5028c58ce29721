"""What a person sees: JupyterLab under a prefix and with a token, a `%%jmars` cell, its live view and its buttons."""

from __future__ import annotations

import time

import pytest

from jmars.notebook.view import MIME_TYPE
from tests.browser.harness import PROMPT, THEMES, NotebookPage, running_browser, running_lab
from tests.notebook.kernels import IN_LAB, write_kernelspec

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

SETUP = "%load_ext jmars\nimport numpy as np, time\nfrom jmars.tensor import map_blocks\nx = 'old'"
SLOW = """%%jmars -w 2 --memory 512MiB -o job
def slow(block):
    time.sleep(0.1)
    return block * 2

a = np.arange({n}.0, chunk_size=1) + 1
x = map_blocks(slow, np.sqrt(a * a), dtype=float)
total = (x + 1).sum()
total
"""


def slow(seconds: float) -> str:
    """A cell that takes about that long on two workers: chains that fuse, user code, a tree sum."""
    return SLOW.format(n=round(seconds * 20))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with running_lab(tmp_path_factory.mktemp("lab"), {"JMARS_DISPLAY": "widget"}) as started:
        yield started


@pytest.fixture(scope="module")
def browser():
    with running_browser() as started:
        yield started


def moved(notebook: NotebookPage, cell: int) -> list[int]:
    """Percentages that the bar has shown, three different ones at least."""
    bar = notebook.view(cell).get_by_role("progressbar")
    seen: list[int] = []
    end = time.monotonic() + 20
    while len(seen) < 3 and time.monotonic() < end:
        now = int(bar.get_attribute("aria-valuenow") or 0)
        if not seen or now != seen[-1]:
            seen.append(now)
        notebook.page.wait_for_timeout(100)
    return seen


@pytest.mark.long(beyond=1)
@pytest.mark.alone
@pytest.mark.parametrize("version", IN_LAB)
def test_cancel_is_clicked_while_the_cell_blocks(lab, browser, version):
    write_kernelspec(lab.specs, f"ipykernel-{version}", version)
    lab.write("cancel.ipynb", [SETUP, slow(60), "print('next', x, job.state)"], f"ipykernel-{version}")
    with NotebookPage.opened(browser, lab, "cancel.ipynb") as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        seen = moved(notebook, 1)
        assert seen == sorted(seen), "the bar went back"
        assert len(seen) >= 3, "the view stood still"
        notebook.run(2)
        assert notebook.text(2) == ""
        begun = time.monotonic()
        notebook.view(1).get_by_role("button", name="Cancel").click()
        notebook.wait_for_text(2, "next old cancelled", timeout=5)
        assert time.monotonic() - begun < PROMPT
        assert notebook.console == []


@pytest.mark.long(beyond=1)
@pytest.mark.alone
@pytest.mark.parametrize("version", IN_LAB)
def test_a_reloaded_page_shows_the_running_cell_again(lab, browser, version):
    write_kernelspec(lab.specs, f"ipykernel-{version}", version)
    lab.write("reload.ipynb", [SETUP, slow(60), "print('next', x, job.state)"], f"ipykernel-{version}")
    with NotebookPage.opened(browser, lab, "reload.ipynb") as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        moved(notebook, 1)
        notebook.save()
        notebook.page.reload()
        notebook.wait_until_ready()
        assert len(moved(notebook, 1)) >= 3
        begun = time.monotonic()
        notebook.view(1).get_by_role("button", name="Cancel").click()
        notebook.view(1).get_by_text("cancelled").first.wait_for(timeout=5000)
        assert time.monotonic() - begun < PROMPT
        notebook.run(2, wait=True)
        assert notebook.text(2).strip() == "next old cancelled"


@pytest.mark.parametrize("theme", THEMES)
def test_the_view_is_seen_in_both_themes(lab, browser, theme):
    lab.write(f"look-{theme}.ipynb", [SETUP, slow(6), "total + 1"])
    with NotebookPage.opened(browser, lab, f"look-{theme}.ipynb", height=1000) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1)
        moved(notebook, 1)
        notebook.screenshot(f"cell-{theme}-graph")
        for tab in ("Workers", "Operands", "Memory & spill", "Plan"):
            notebook.view(1).get_by_role("tab", name=tab).click()
            notebook.screenshot(f"cell-{theme}-{tab.split()[0].lower()}")
        notebook.run(2, wait=True)
        notebook.wait_until_idle()
        notebook.screenshot(f"cell-{theme}-ended")
        assert "succeeded" in notebook.view(1).first.inner_text()
        assert notebook.console == []


def test_what_is_saved_needs_no_kernel(lab, browser):
    lab.write("saved.ipynb", [SETUP, slow(1)])
    with NotebookPage.opened(browser, lab, "saved.ipynb") as notebook:
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        notebook.wait_for_text(1, MIME_TYPE)
        notebook.save()
    outputs = lab.read("saved.ipynb").cells[1].outputs
    assert MIME_TYPE in outputs[0].data
    assert "<img" in outputs[0].data["text/html"]
    assert "widget-view" not in str(outputs)
    with NotebookPage.opened(browser, lab, "saved.ipynb") as notebook:
        notebook.view(1).get_by_role("tab", name="Operands").click()
        notebook.screenshot("saved-without-kernel")
        assert notebook.view(1).get_by_role("button", name="Cancel").count() == 0  # by role: none that can be seen


@pytest.mark.long
def test_the_stop_button_stops_the_cell_and_what_is_queued(lab, browser):
    lab.write("stop.ipynb", [SETUP, slow(60), "x = 'must not run'", "print('state', x, job.state)"])
    with NotebookPage.opened(browser, lab, "stop.ipynb") as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        moved(notebook, 1)
        notebook.run(2)
        notebook.command("notebook:interrupt-kernel")
        notebook.wait_for_text(1, "KeyboardInterrupt")
        notebook.wait_until_idle()
        notebook.screenshot("stopped")
        notebook.run(3, wait=True)
        assert notebook.text(3).strip() == "state old cancelled"


@pytest.mark.long
def test_to_background_gives_the_prompt_back_and_the_view_stays_live(lab, browser):
    lab.write("background.ipynb", [SETUP, slow(8), "print('state', job.state)", "print('sum', float(total))"])
    with NotebookPage.opened(browser, lab, "background.ipynb") as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        moved(notebook, 1)
        notebook.view(1).get_by_role("button", name="To background").click()
        notebook.run(2, wait=True)
        assert notebook.text(2).strip() == "state running"
        assert len(moved(notebook, 1)) >= 3
        notebook.run(3, wait=True)
        n = 8 * 20
        assert notebook.text(3).strip() == f"sum {float(sum(2 * i + 1 for i in range(1, n + 1)))}"


@pytest.mark.long
@pytest.mark.alone
def test_the_side_bar_lists_the_job_and_cancels_it(lab, browser):
    lab.write("side.ipynb", [SETUP, slow(60), "print('next', x, job.state)"])
    with NotebookPage.opened(browser, lab, "side.ipynb", width=1600) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        moved(notebook, 1)
        notebook.command("jmars:show")
        side = notebook.page.locator("#jmars-sidebar")
        side.get_by_role("progressbar").first.wait_for()
        notebook.page.wait_for_timeout(500)
        notebook.screenshot("side-bar")
        notebook.run(2)
        begun = time.monotonic()
        side.get_by_role("button", name="Cancel").first.click()
        notebook.wait_for_text(2, "next old cancelled", timeout=5)
        assert time.monotonic() - begun < PROMPT


def test_without_the_token_the_server_tells_nothing(lab):
    assert lab.get("jmars/clusters")[0] == 200
    assert lab.get("jmars/clusters", token=None)[0] == 403
