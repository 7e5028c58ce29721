"""Memory of page, kernel and cluster over many small cells of one notebook, each with its view; JMARS_CELLS of them."""

from __future__ import annotations

import json
import os
import time

import psutil
import pytest

from jmars.deploy.memory import private_bytes

CELLS = int(os.environ.get("JMARS_CELLS", "200"))
FIRST = """import os, jmars
import numpy as np
%load_ext jmars
jmars.config.local_seconds = 0  # each cell is a job of the cluster
base = np.random.default_rng(0).random(20_000)
print("kernel", os.getpid())"""
CELL = "%%jmars -w 1 --memory 300MiB\nkept_{k} = (base + {k}).sum()\nfloat(kept_{k})"
PER_CELL = {"page": 350e3, "kernel": 120e3, "control": 40e3}  # bytes that a cell may leave, 195 KB of JupyterLab itself


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.timeout(3000)
def test_memory_is_flat_over_five_hundred_cells(lab, lab_page):
    lab.write("many.ipynb", [FIRST, *(CELL.format(k=k) for k in range(CELLS))])
    with lab_page.opened("many.ipynb", width=1400, fresh=True) as notebook:
        notebook.command("jmars:show")
        notebook.run(0, wait=True)
        kernel = int(notebook.text(0).split()[1])
        devtools = notebook.page.context.new_cdp_session(notebook.page)
        devtools.send("Performance.enable")
        found, began = {}, time.monotonic()
        print(0, json.dumps(measure(notebook, devtools, kernel)), flush=True)
        for k in range(CELLS):
            notebook.run(1 + k, wait=True)
            if k == 9:
                notebook.command("jmars:timeline")
                notebook.page.locator(".jm-history svg").wait_for()
                notebook.page.evaluate(TO_NOTEBOOK)
            if k + 1 in (CELLS // 5, CELLS // 5 * 2, CELLS // 5 * 3, CELLS // 5 * 4, CELLS):
                found[k + 1] = measure(notebook, devtools, kernel)
                print(k + 1, f"cells after {time.monotonic() - began:.0f} s:", json.dumps(found[k + 1]), flush=True)
        notebook.screenshot("many-cells")
        assert "succeeded" in json.dumps(notebook.outputs(CELLS))
    start, end = found[CELLS // 5], found[CELLS]
    for name, per_cell in PER_CELL.items():
        assert end[name] - start[name] < 0.2 * start[name] + per_cell * (CELLS - CELLS // 5), (name, found)
    assert end["time line"] < 80_000 and end["pieces"] <= 330


PIECES = """[...document.querySelectorAll('.jm-history path.jm-t2')]
  .reduce((n, it) => n + it.getAttribute('d').split('M').length - 1, 0)"""
TO_NOTEBOOK = """() => {
  const { shell } = window.jupyterapp;
  shell.activateById([...shell.widgets('main')].find(it => it.context).id);
}"""


def measure(notebook, devtools, kernel):
    """Bytes of page, kernel and control process, nodes of the page, and the size of the time line."""
    devtools.send("HeapProfiler.collectGarbage")
    metrics = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
    control = [p for p in psutil.Process(kernel).children() if "host" in p.cmdline()]
    return {
        "page": int(metrics["JSHeapUsedSize"]),
        "nodes": int(metrics["Nodes"]),
        "listeners": int(metrics["JSEventListeners"]),
        "kernel": private_bytes(kernel),
        "control": sum(private_bytes(one.pid) for one in control),
        "time line": notebook.page.evaluate("document.querySelector('.jm-history')?.outerHTML.length ?? 0"),
        "pieces": notebook.page.evaluate(PIECES),
    }
