"""What is left of a view whose kernel is gone, or whose page was reloaded: the last picture."""

from __future__ import annotations

import os
import signal

import pytest

from jmars.notebook.view import MIME_TYPE
from tests.browser.harness import NotebookPage
from tests.browser.test_cell_in_lab import SETUP, slow

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

KERNEL = "window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel"
WIDGET = "application/vnd.jupyter.widget-view+json"


def end_kernel(notebook: NotebookPage, way: str) -> None:
    """Restart the kernel as its menu does, or end its process from outside."""
    if way == "restarted":
        notebook.page.evaluate(f"() => {KERNEL}.restart()")
    else:
        os.kill(int(notebook.text(0)), signal.SIGKILL)  # the server starts another one


@pytest.mark.parametrize("way", ["restarted", pytest.param("killed", marks=pytest.mark.long)])
def test_a_kernel_that_is_gone_is_said_and_saved_so(lab, lab_page, way):
    name = f"gone-{way}.ipynb"
    lab.write(name, [f"{SETUP}\nimport os; os.getpid()", slow(60)])
    with lab_page.opened(name) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.moved(1)
        end_kernel(notebook, way)
        notebook.wait_for_text(1, "the kernel is gone; last seen at")
        for theme in ("light", "dark"):
            notebook.theme(theme)
            notebook.view(1).get_by_text("last seen at").wait_for()
            notebook.screenshot(f"kernel-{way}-{theme}")
        assert "kernel gone" in notebook.view(1).first.inner_text()
        assert notebook.view(1).get_by_role("button", name="Cancel").count() == 0
        notebook.save()
    (saved,) = lab.read(name).cells[1].outputs
    assert WIDGET not in saved.data
    assert saved.data[MIME_TYPE]["snap"]["state"] == "kernel gone"
    with lab_page.opened(name, kernel=False) as notebook:
        notebook.view(1).get_by_text("kernel gone").first.wait_for()


def test_a_notebook_saved_in_mid_run_shows_its_picture_without_a_kernel(lab, lab_page):
    lab.write("mid.ipynb", [SETUP, slow(60)])
    with lab_page.opened("mid.ipynb", fresh=True) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.moved(1)
        notebook.save()
    with lab_page.opened("mid.ipynb", kernel=False) as notebook:
        notebook.view(1).get_by_text("kernel gone").first.wait_for()
        notebook.screenshot("saved-in-mid-run")
        assert "model not found" not in notebook.view(1).first.inner_text()


@pytest.mark.long
def test_a_page_reloaded_in_mid_run_has_prints_result_and_picture(lab, lab_page, tmp_path):
    gate = tmp_path / "gate"
    cell = slow(60, gate).replace("\ntotal\n", "\nprint('first', end=' ')\nprint('sum', total > 0)\ntotal\n")
    lab.write("reloaded.ipynb", [SETUP, cell, "print('state', job.state)"])
    with lab_page.opened("reloaded.ipynb", fresh=True) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.moved(1)
        notebook.save()
        notebook.page.reload()
        notebook.wait_until_ready()
        notebook.view(1).get_by_role("button", name="Cancel").wait_for()
        gate.touch()
        notebook.wait_for_text(1, MIME_TYPE)
        notebook.view(1).get_by_text("succeeded").first.wait_for()
        notebook.wait_for_text(1, "execute_result")
        notebook.screenshot("reloaded")
        notebook.save()
    saved, printed, result = lab.read("reloaded.ipynb").cells[1].outputs
    assert (printed.name, printed.text) == ("stdout", "first sum True\n")  # before the reload, and after it
    assert result.output_type == "execute_result"
    n = 60 * 20
    assert str(float(sum(i + 1 for i in range(n)) * 2 + n)) in result.data["text/plain"]
    assert lab.read("reloaded.ipynb").cells[1].execution_count == result.execution_count
    assert WIDGET not in saved.data
    assert saved.data[MIME_TYPE]["snap"]["state"] == "succeeded"
    assert saved.data["text/plain"].startswith("jmars succeeded")
