"""The head of a view, with Cancel, stays in sight above a tall graph, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import pytest

from tests.browser.harness import THEMES, NotebookPage
from tests.browser.test_cell_in_lab import SETUP, slow
from tests.browser.test_notebook_7 import opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

# Scrolls the notebook so that the middle of the view's graph is at the top, then tells where the head is, and what is
# hit in the middle of Cancel.
SCROLLED = """async () => {
  const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  await drawn(); // at the new width
  const view = document.querySelectorAll('.jp-Notebook .jp-Cell')[1];
  const [head, graph, cancel] = ['.jm-head', '.jm-graph', '.jm-cancel'].map(name => view.querySelector(name));
  let scroller = head.parentElement;
  while (!(scroller.scrollHeight > scroller.clientHeight + 50 && getComputedStyle(scroller).overflowY === 'auto'))
    scroller = scroller.parentElement;
  const top = scroller.getBoundingClientRect().top;
  scroller.scrollTop += graph.getBoundingClientRect().top + 60 - top;
  await drawn();
  const box = cancel.getBoundingClientRect();
  const toolbar = document.querySelector('.jp-NotebookPanel-toolbar')?.getBoundingClientRect();
  return {
    top: Math.round(head.getBoundingClientRect().top - top),
    hit: document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2) === cancel,
    below: !toolbar || box.top >= toolbar.bottom,
    inside: box.left >= 0 && box.right <= innerWidth && graph.getBoundingClientRect().top < top,
    page: getComputedStyle(head).backgroundColor !== 'rgba(0, 0, 0, 0)',
  };
}"""
IN_SIGHT = {"top": 0, "hit": True, "below": True, "inside": True, "page": True}


def cancelled_below_the_fold(notebook: NotebookPage, name: str, widths: tuple[int, ...]) -> None:
    """Scroll down a running cell at each width, and click Cancel there."""
    notebook.run(0, wait=True)
    notebook.run(1)
    notebook.view(1).get_by_role("tab", name="Graph").click()
    notebook.view(1).locator(".jm-graph canvas").first.wait_for()
    found = {}
    for width in widths:
        notebook.page.set_viewport_size({"width": width, "height": 400})
        found[width] = notebook.page.evaluate(SCROLLED)
        notebook.screenshot(f"head-{name}-{width}")
    assert found == dict.fromkeys(widths, IN_SIGHT)
    notebook.page.mouse.move(0, 0)
    notebook.view(1).get_by_role("button", name="Cancel").click()
    notebook.wait_for_text(1, "was cancelled; names keep their old values")


@pytest.mark.parametrize("theme", THEMES)
def test_cancel_stays_in_sight_in_jupyterlab(lab, lab_page, theme):
    lab.write(f"head-{theme}.ipynb", [SETUP, slow(60).replace("%%jmars", "%%jmars --view full"), "1"])
    with lab_page.opened(f"head-{theme}.ipynb", width=1250) as notebook:
        notebook.theme(theme)
        notebook.page.evaluate("window.jupyterapp.shell.collapseLeft()")
        cancelled_below_the_fold(notebook, f"lab-{theme}", (1440, 900, 640))


@pytest.mark.parametrize("theme", THEMES)
def test_cancel_stays_in_sight_in_notebook_7(lab, browser, theme):
    lab.write(f"head-seven-{theme}.ipynb", [SETUP, slow(60).replace("%%jmars", "%%jmars --view full"), "1"])
    with opened(lab, browser, f"head-seven-{theme}.ipynb", theme) as notebook:
        cancelled_below_the_fold(notebook, f"seven-{theme}", (1440, 700, 320))
