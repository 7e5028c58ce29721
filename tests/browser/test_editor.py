"""The editor of a cell colours the line of `%%jmars`, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import pytest

from tests.browser.harness import THEMES
from tests.browser.test_notebook_7 import opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

CELLS = ["%%jmars -w 2 --memory=2GiB --on dask://head:8786  # at night\nx = 7 % 2\n%jmars why", "x = 1\n%%jmars -b"]
PARTS = """cell => [...document.querySelectorAll('.jp-CodeCell')[cell].querySelectorAll('[class^=jm-magic]')]
  .map(it => [it.textContent, it.className.replace('jm-magic-', '')])"""
COLOURS = """() => {
  const colour = it => getComputedStyle(it.querySelector('span') ?? it).color;
  const cell = document.querySelector('.jp-Notebook .jp-CodeCell');
  const plain = getComputedStyle(cell.querySelector('.cm-line')).color;
  return [plain, ...['magic', 'flag', 'number', 'comment'].map(it => colour(cell.querySelector('.jm-magic-' + it)))];
}"""
LINE = [
    ["%%", "sign"], ["jmars", "magic"], ["-w", "flag"], ["2", "number"], ["--memory", "flag"], ["2GiB", "number"],
    ["--on", "flag"], ["dask://head:8786", "word"], ["# at night", "comment"], ["%", "sign"], ["jmars", "magic"],
    ["why", "word"],
]  # fmt: skip


@pytest.mark.parametrize("theme", THEMES)
def test_the_editor_knows_the_magic(lab, lab_page, theme):
    name = f"editor-{theme}.ipynb"
    lab.write(name, CELLS)
    with lab_page.opened(name, height=600) as notebook:
        notebook.theme(theme)
        page = notebook.page
        assert page.evaluate(PARTS, 0) == LINE
        assert page.evaluate(PARTS, 1) == []  # it is no magic there
        assert len(set(page.evaluate(COLOURS))) == 5
        notebook.screenshot(f"editor-{theme}")
        page.locator(".jp-CodeCell .cm-content").nth(1).click()
        page.keyboard.press("Control+Home")
        page.keyboard.type("%%jmars --lazy\n")
        assert page.evaluate(PARTS, 1) == [["%%", "sign"], ["jmars", "magic"], ["--lazy", "flag"]]
        assert notebook.console == []


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("theme", THEMES)
def test_the_editor_of_notebook_7_knows_the_magic(lab, browser, theme):
    name = f"seven-editor-{theme}.ipynb"
    lab.write(name, CELLS)
    with opened(lab, browser, name, theme) as notebook:
        assert notebook.page.evaluate(PARTS, 0) == LINE
        notebook.screenshot(f"seven-editor-{theme}")


@pytest.mark.long
def test_the_tab_key_completes_flags_and_words(lab, lab_page):
    lab.write("completed.ipynb", ["%load_ext jmars", "%%jmars --me", "%jmars st"])
    with lab_page.opened("completed.ipynb", height=600) as notebook:
        page = notebook.page
        notebook.run(0, wait=True)
        for cell in (1, 2):
            page.locator(".jp-CodeCell .cm-content").nth(cell).click()
            page.keyboard.press("Control+End")
            page.keyboard.press("Tab")
            page.locator(".jp-Completer-item", has_text=("--memory", "stop")[cell - 1]).wait_for()
            notebook.screenshot(f"completed-{cell}")
            page.keyboard.press("Enter")
            page.locator(".jp-CodeCell .cm-line", has_text=("%%jmars --memory", "%jmars status")[cell - 1]).wait_for()
        assert notebook.console == []
