"""A `%%jmars` cell on two hosts in JupyterLab: lanes by host, a host that is lost while one looks, and Cancel."""

from __future__ import annotations

import json
import os
import signal

import pytest

from jmars.notebook.view import MIME_TYPE
from tests.browser.harness import THEMES, NotebookPage
from tests.notebook.kernels import PROMPT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SETUP = """%load_ext jmars
import json, pathlib, time, jmars, numpy as np
from jmars.tensor import map_blocks
def slow(block):
    time.sleep(0.0 if pathlib.Path({gate!r}).exists() else 0.4)
    return block * 2
total = 'old'
cluster = jmars.Cluster.hosts(['local', 'local'], n_workers=2, memory_limit='512MiB')
print(json.dumps({{host['name']: host['pid'] for host in cluster.info()['hosts']}}))"""
CELL = """%%jmars -o job
x = np.arange({side} * {side}, dtype=float, chunk_size=10**6).reshape({side}, {side}).rechunk(20)
y = map_blocks(slow, x, dtype=float)
total = (y + y.T).sum()
total
"""


def _pids(notebook: NotebookPage) -> dict[str, int]:
    found: dict[str, int] = json.loads(notebook.text(0))
    return found


def _open(notebook: NotebookPage, tab: str) -> None:
    notebook.tab(1, tab)


def _names(notebook: NotebookPage, place: str) -> list[str]:
    """Texts of an element of the view."""
    return [text.strip("▾▸ ") for text in notebook.view(1).locator(place).all_text_contents()]


@pytest.mark.parametrize("theme", THEMES)
def test_lanes_stand_by_host_and_a_host_lost_while_one_looks_is_told(lab, lab_page, theme, tmp_path):
    name, side, gate = f"hosts-{theme}.ipynb", 300, tmp_path / "gate"
    lab.write(name, [SETUP.format(gate=str(gate)), CELL.format(side=side), "print('next', float(total))"])
    with lab_page.opened(name, height=1000) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1)
        assert len(notebook.moved(1)) == 3, "the view stood still"
        view = notebook.view(1)
        assert view.locator(".jm-place").inner_text() == "on 2 hosts"
        notebook.screenshot(f"hosts-{theme}-graph")
        _open(notebook, "Workers")
        view.get_by_text("came from other hosts").wait_for()
        pids = _pids(notebook)
        first, second = sorted(pids)
        rows = [first, "worker-0", "worker-1", second, "worker-0", "worker-1"]
        assert _names(notebook, ".jm-workers tbody th") == rows
        view.locator(".jm-lanes text").first.wait_for()  # the first operand has begun
        assert [text for text in _names(notebook, ".jm-lanes text") if not text[0].isdigit()] == rows
        notebook.screenshot(f"hosts-{theme}-workers")
        os.kill(pids[second], signal.SIGKILL)
        view.get_by_text(f"{second} was lost after").wait_for()
        gate.touch()
        assert view.locator(".jm-place").inner_text() == "on 1 of 2 hosts"
        assert view.locator("tr.jm-host[data-state=lost]").get_attribute("title").startswith(f"{second}: lost after")
        notebook.screenshot(f"hosts-{theme}-lost")
        notebook.run(2, wait=True)
        assert notebook.text(2).strip() == f"next {2.0 * side**2 * (side**2 - 1)}"
        notebook.wait_for_text(1, MIME_TYPE)
        view.get_by_text("succeeded").first.wait_for()
        notebook.screenshot(f"hosts-{theme}-ended")
        _open(notebook, "Memory & spill")
        notebook.screenshot(f"hosts-{theme}-memory")
        notebook.save()
        assert notebook.console == []
    outputs = lab.read(name).cells[1].outputs
    assert outputs[0].data["text/plain"].startswith("jmars succeeded on 1 of 2 hosts: ")
    with lab_page.opened(name, kernel=False) as notebook:
        notebook.theme(theme)
        _open(notebook, "Workers")
        assert f"{second} was lost after" in notebook.view(1).first.inner_text()
        notebook.screenshot(f"hosts-{theme}-saved")


@pytest.mark.long
def test_cancel_ends_a_cell_on_two_hosts_and_the_side_bar_knows_them(lab, lab_page):
    lab.write(
        "hosts-cancel.ipynb",
        [
            SETUP.format(gate="/no/gate"),
            CELL.format(side=2000),
            "print('next', total, job.state)",
            "print(cluster.info()['hosts'][1]['state'])",
        ],
    )
    with lab_page.opened("hosts-cancel.ipynb", width=1600) as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        assert len(notebook.moved(1)) == 3, "the view stood still"
        notebook.command("jmars:show")
        side = notebook.page.locator("#jmars-sidebar")
        side.get_by_text("4 workers on 2 hosts, limit 1.0 GiB, 1 running job").wait_for()
        side.get_by_role("tab", name="Workers").click()
        side.locator(".jm-fold").first.wait_for()
        notebook.screenshot("hosts-side-bar")
        notebook.view(1).get_by_role("button", name="Cancel").click()
        notebook.wait_for_text(1, "was cancelled; names keep their old values", timeout=PROMPT)
        notebook.wait_until_idle()  # until then, the kernel refuses the cells that come: Cancel ends the queue
        notebook.run(2)
        notebook.wait_for_text(2, "next old cancelled")
        notebook.run(3, wait=True)
        assert notebook.text(3).strip() == "here"
        assert notebook.console == []
