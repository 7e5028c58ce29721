"""The view while Python of the cell runs: above all that the cell prints, with the line that runs, and Cancel."""

from __future__ import annotations

import pytest

from jmars.notebook.view import MIME_TYPE
from tests.browser.harness import THEMES
from tests.browser.test_cell_in_lab import SETUP

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

PYTHON = """%%jmars -w 2 --memory 512MiB
print("first", "words")
a = np.arange(2_000_000.0)
time.sleep(60)
x = a.sum()
"""
PRINTS = """%%jmars
print("0", end=" ")
a = np.arange(4_000_000.0, chunk_size=500_000)
print(np.sqrt(a).sum() > 1)
a.mean()
"""
STATE = "window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.status"


@pytest.mark.parametrize("theme", THEMES)
def test_the_running_line_is_seen_above_prints_and_cancel_interrupts(lab, lab_page, theme):
    name = f"python-{theme}.ipynb"
    lab.write(name, [SETUP, PYTHON, "print('next', x)"])
    with lab_page.opened(name, height=700) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.view(1).get_by_text("line 4 of 5").wait_for()
        notebook.wait_for_text(1, "first words")  # which is not in the source, that the view holds
        outputs = notebook.outputs(1)
        assert ["data" in one for one in outputs] == [True, False]
        notebook.run(2)
        notebook.page.wait_for_timeout(2500)  # the page answers the view each second
        assert notebook.page.evaluate(STATE) == "busy"
        notebook.screenshot(f"python-{theme}")
        notebook.view(1).get_by_role("button", name="Cancel").click()
        notebook.wait_for_text(1, "was cancelled; names keep their old values")
        notebook.wait_until_idle()
        assert notebook.text(2) == ""  # the queue of Run All ends
        notebook.run(2, wait=True)
        assert notebook.text(2).strip() == "next old"
        notebook.wait_for_text(1, MIME_TYPE)
        notebook.screenshot(f"python-{theme}-cancelled")
        notebook.view(1).get_by_text("cancelled").first.wait_for()
        assert notebook.console == []


@pytest.mark.long
def test_a_page_without_a_control_channel_names_the_stop_button(lab, lab_page):
    lab.write("deaf.ipynb", [SETUP, PYTHON, "print('next', x)"])
    with lab_page.opened("deaf.ipynb", height=700) as notebook:
        notebook.run(0, wait=True)
        notebook.page.evaluate(f"() => {{ {STATE.removesuffix('.status')}.sendControlMessage = undefined; }}")
        notebook.run(1)
        notebook.view(1).get_by_text("line 4 of 5").get_by_text("to cancel, use the Stop button").wait_for()
        assert not notebook.view(1).get_by_role("button", name="Cancel").is_visible()
        notebook.screenshot("python-deaf")
        notebook.command("notebook:interrupt-kernel")
        notebook.wait_for_text(1, "KeyboardInterrupt")
        notebook.run(2, wait=True)
        assert notebook.text(2).strip() == "next old"


def test_the_view_splits_no_printed_line_and_short_cells_have_none(lab, lab_page):
    late = "import jmars.notebook.sampler as sampler; sampler._REVEAL_SECONDS = 60.0"  # in no case a view without a job
    lab.write("prints.ipynb", [f"{SETUP}\n{late}", PRINTS, "%%jmars\nprint('small')", "1"])
    with lab_page.opened("prints.ipynb", height=700) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        notebook.wait_for_text(1, MIME_TYPE)
        kinds = [one["output_type"] for one in notebook.outputs(1)]
        assert kinds == ["display_data", "stream", "execute_result"]
        assert "0 True" in notebook.text(1)
        notebook.run(2, wait=True)
        notebook.run(3, wait=True)
        assert [one["output_type"] for one in notebook.outputs(2)] == ["stream"]
        assert notebook.outputs(3)[0]["output_type"] == "execute_result"
        notebook.screenshot("prints")
