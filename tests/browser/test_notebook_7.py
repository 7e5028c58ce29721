"""What a person sees in Notebook 7: the view under a running cell, its buttons, the saved picture and the side bar."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Browser

from jmars.notebook.view import MIME_TYPE
from tests.browser.harness import PATIENCE, THEMES, TOKEN, Lab, NotebookPage
from tests.browser.test_cell_in_lab import SETUP, click_cancel, slow

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


@contextlib.contextmanager
def opened(lab: Lab, browser: Browser, name: str, theme: str, kernel: bool = True) -> Iterator[NotebookPage]:
    """A notebook in a page of Notebook 7; without `kernel`, of a kernel that this machine has not."""
    page = browser.new_context(viewport={"width": 1250, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    console: list[str] = []
    page.on("pageerror", lambda error: console.append(str(error.stack)))
    notebook = NotebookPage(page, lab, console)
    try:
        page.goto(f"{lab.url}notebooks/{name}?token={TOKEN}")
        if kernel:
            notebook.wait_until_ready()
        else:
            page.locator(".jp-Dialog button", has_text="No Kernel").click()
            notebook.wait_until_drawn()
        notebook.theme(theme)
        yield notebook
        notebook.theme("light")  # the server keeps the theme
        assert [error for error in console if "jmars" in error] == []  # Notebook has errors of its own
    except BaseException as error:
        error.add_note(notebook.told())
        raise
    finally:
        page.context.close()
        lab.end_kernels()


def forget_kernel(lab: Lab, name: str) -> None:
    """Name a kernel that this machine has not in a saved notebook."""
    saved = lab.read(name)
    saved.metadata = {"kernelspec": {"name": "gone", "display_name": "gone"}}  # by a language, Notebook finds another
    nbformat.write(saved, lab.folder / name)


@pytest.mark.parametrize("theme", THEMES)
def test_the_view_moves_comes_back_after_a_reload_and_is_saved(lab, browser, theme, tmp_path):
    name, gate = f"seven-{theme}.ipynb", tmp_path / "gate"
    lab.write(name, [SETUP, slow(60, gate), "print('state', job.state)"])
    with opened(lab, browser, name, theme) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        assert len(notebook.moved(1)) >= 3
        notebook.screenshot(f"seven-{theme}")
        notebook.save()
        notebook.page.reload()
        notebook.wait_until_ready()
        notebook.view(1).get_by_role("button", name="Cancel").wait_for()
        assert len(notebook.moved(1)) >= 3
        gate.touch()
        notebook.wait_for_text(1, MIME_TYPE)
        notebook.wait_for_text(1, '"state":"succeeded"')  # of the last picture
        notebook.wait_for_text(1, "execute_result")
        notebook.run(2, wait=True)
        assert notebook.text(2).strip() == "state succeeded"
        notebook.screenshot(f"seven-{theme}-reloaded")
        notebook.save()
    picture, result = lab.read(name).cells[1].outputs
    assert picture.data[MIME_TYPE]["snap"]["state"] == "succeeded"
    assert result.output_type == "execute_result"
    forget_kernel(lab, name)
    with opened(lab, browser, name, theme, kernel=False) as notebook:
        notebook.view(1).get_by_text("succeeded").first.wait_for()
        notebook.tab(1, "Operands")
        notebook.screenshot(f"seven-{theme}-without-kernel")
        assert notebook.view(1).get_by_role("button", name="Cancel").count() == 0


@pytest.mark.parametrize("theme", THEMES)
def test_cancel_ends_the_job_and_the_view_menu_opens_the_side_bar(lab, browser, theme):
    name = f"seven-cancel-{theme}.ipynb"
    lab.write(name, [SETUP, slow(60), "print('next', x, job.state)"])
    with opened(lab, browser, name, theme) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        page = notebook.page
        page.get_by_role("menuitem", name="View").click()
        page.locator(".lm-Menu-item", has_text="Right Sidebar").hover()
        page.get_by_role("menuitem", name="Show jmars clusters").click()
        side = page.locator("#jmars-sidebar")
        side.get_by_role("progressbar").first.wait_for()
        side.get_by_text("running").first.wait_for()
        notebook.screenshot(f"seven-{theme}-side-bar")
        click_cancel(notebook, 1, 2)
        side.get_by_text("cancelled").first.wait_for()
        notebook.screenshot(f"seven-{theme}-cancelled")
