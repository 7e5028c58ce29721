"""Lines that functions print on four workers, below their cells in JupyterLab."""

from __future__ import annotations

import pytest

from tests.browser.harness import THEMES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

FUNCTIONS = """%load_ext jmars
import os, signal, sys, time, warnings
import numpy as np
import jmars
from jmars.remote import spawn
cluster = jmars.Cluster(n_workers=4, memory_limit="512MiB")

def turns(k):
    for turn in range(5):
        print(f"<i>task {k}</i> turn {turn}")
        time.sleep(0.02)
    warnings.warn(f"task {k} is done")

def bar(gate, steps=40):
    for step in range(steps + 1):
        part = step * 10 // steps
        sys.stderr.write(f"\\r{100 * step // steps:3d}%|{'█' * part}{' ' * (10 - part)}| {step}/{steps}")
        sys.stderr.flush()
        while step == steps // 2 and not os.path.exists(gate):
            time.sleep(0.02)
    sys.stderr.write("\\n")

def flood():
    for k in range(100_000):
        print(k)

def die():
    print("last words", end="")
    os.kill(os.getpid(), signal.SIGKILL)"""
CELLS = [
    FUNCTIONS,
    "jmars.execute(*[spawn(turns, (k,)) for k in range(8)]); None",
    "%%jmars\nbars = [spawn(bar, ('gate',)) for _ in range(4)]\njmars.execute(*bars); None",
    "%%jmars\nspawn(flood).fetch()",
    "spawn(die).fetch()",
    "cluster.close()",
]


def rows(notebook, cell):
    """Text of the lines below a cell, by worker; "" for lines of none."""
    found: dict[str, list[str]] = {}
    for line in notebook.view(cell).locator("pre").filter(has_text="(worker-").inner_text().splitlines():
        label, _, words = line.partition(") ")
        found.setdefault(label.partition(",")[0].strip("(") if words else "", []).append(words or line)
    return found


@pytest.mark.parametrize("theme", THEMES)
def test_lines_of_four_workers_below_their_cells(lab, lab_page, theme):
    name = f"output-{theme}.ipynb"
    lab.write(name, CELLS)
    (lab.folder / "gate").unlink(missing_ok=True)
    with lab_page.opened(name, height=1000) as notebook:
        notebook.theme(theme)
        notebook.run(0, wait=True)
        notebook.run(1, wait=True)
        notebook.wait_for_text(1, "task 7 is done")
        told = rows(notebook, 1)
        assert sum(map(len, told.values())) == 8 * 6
        for lines in told.values():  # a worker runs task after task
            tasks = list(dict.fromkeys(line.partition("task ")[2][0] for line in lines))
            expected = [[f"<i>task {k}</i> turn {turn}" for turn in range(5)] for k in tasks]
            done = [f"UserWarning: task {k} is done" for k in tasks]
            assert lines == [line for k, _ in enumerate(tasks) for line in (*expected[k], done[k])]
        notebook.run(2)
        notebook.wait_for_text(2, "(worker-3)")
        notebook.page.wait_for_function("() => document.body.innerText.split(' 50%|█████     | 20/40').length === 5")
        assert sorted(rows(notebook, 2)) == [f"worker-{k}" for k in range(4)]
        notebook.view(2).last.scroll_into_view_if_needed()
        notebook.screenshot(f"output-{theme}-bars")
        (lab.folder / "gate").touch()
        notebook.wait_until_idle()
        assert rows(notebook, 2) == {f"worker-{k}": ["100%|██████████| 40/40"] for k in range(4)}
        notebook.run(3, wait=True)
        (lines,), (note,) = [one for name, one in rows(notebook, 3).items() if name], rows(notebook, 3)[""]
        assert note == f"… {100_000 - len(lines):,} lines left out …" and len(lines) <= 150
        assert lines[:50] == [*map(str, range(50))] and lines[-20:] == [*map(str, range(99_980, 100_000))]
        notebook.run(4)
        notebook.wait_for_text(4, "WorkerLostError")
        assert [line for one in rows(notebook, 4).values() for line in one] == ["last words"] * 3
        notebook.screenshot(f"output-{theme}")
        notebook.save()
        assert "last words" in str(lab.read(name).cells[4].outputs)
        assert notebook.console == []
