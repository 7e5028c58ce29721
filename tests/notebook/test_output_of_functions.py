"""Lines that functions print on the cluster, in a real kernel: one output below the cell that submitted the job."""

from __future__ import annotations

import pytest

from tests.notebook.kernels import running_kernel

FUNCTIONS = """
import os, signal, sys, warnings
import numpy as np
from jmars.remote import spawn

def tell(k):
    print("<b>turn</b>", k)
    warnings.warn(f"odd turn {k}")

def flood():
    for k in range(100_000):
        print(k)

def die():
    print("last words", end="")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with running_kernel(tmp_path_factory.mktemp("kernel"), "newest") as client:
        client.run("%load_ext jmars\nimport jmars\ncluster = jmars.Cluster(n_workers=2, memory_limit='512MiB')")
        client.run(FUNCTIONS)
        yield client
        client.run("cluster.close()")


def outputs(kernel, cell):
    """The newest text and HTML of each output of functions below a cell."""
    kernel.text(cell)
    found = {}
    for message in kernel.iopub:
        if message["parent_header"].get("msg_id") == cell and "display_data" in message["msg_type"]:
            data = message["content"]["data"]
            if "(worker-" in data.get("text/plain", ""):
                found[message["content"]["transient"]["display_id"]] = data["text/plain"], data["text/html"]
    return list(found.values())


def run(kernel, code):
    cell = kernel.send(code)
    assert kernel.reply(cell)["status"] == "ok"
    return outputs(kernel, cell)


@pytest.mark.parametrize("magic", ["", "%%jmars\n"])
def test_the_jobs_of_a_cell_share_an_output_with_places(kernel, magic):
    turns = [10 * len(magic) + k for k in range(3)]
    ((text, html),) = run(kernel, f"{magic}for k in {turns}:\n    spawn(tell, (k,)).fetch()")
    told = [row.partition("worker-")[2][1:] for row in text.splitlines()]
    assert [one for one in told if "odd" not in one] == [f") <b>turn</b> {k}" for k in turns]
    assert [one for one in told if "odd" in one] == [f", line 7) UserWarning: odd turn {k}" for k in turns]
    assert "<b>" not in html and f"&lt;b&gt;turn&lt;/b&gt; {turns[2]}" in html


def test_many_lines_are_bounded(kernel):
    ((text, _),) = run(kernel, "spawn(flood).fetch()")
    words = [row.partition(") ")[2] or row for row in text.splitlines()]
    assert words[:50] == [*map(str, range(50))] and words[-20:] == [*map(str, range(99_980, 100_000))]
    assert words[50] == f"… {100_000 - len(words) + 1:,} lines left out …" and len(words) <= 151


def test_text_of_a_killed_worker_and_of_a_job_without_a_waiting_cell(kernel):
    cell = kernel.send("spawn(die).fetch()")
    assert kernel.reply(cell)["ename"] == "WorkerLostError"
    ((text, _),) = outputs(kernel, cell)
    assert [row.partition(") ")[2] for row in text.splitlines()] == ["last words"] * 3
    kernel.settle()
    cell = kernel.send("job = cluster.submit(spawn(tell, (7,)))")
    assert kernel.reply(cell)["status"] == "ok"
    kernel.run("job.result()")
    ((text, _),) = outputs(kernel, cell)
    assert "<b>turn</b> 7" in text


def test_output_is_off_by_a_setting(kernel):
    assert run(kernel, "jmars.config.output = 'off'\nspawn(tell, (1,)).fetch()\njmars.config.output = 'show'") == []


def test_a_bar_is_one_line_that_changes(kernel):
    code = """
def bar():
    for k in range(0, 101, 25):
        sys.stderr.write(f"\\r{k}%"); time.sleep(0.15)
    sys.stderr.write("\\n")
import time
spawn(bar).fetch()"""
    cell = kernel.send(code)
    assert kernel.reply(cell)["status"] == "ok"
    ((text, _),) = outputs(kernel, cell)
    assert text.partition(") ")[2] == "100%"
    seen = [m["content"]["data"]["text/plain"] for m in kernel.iopub if "display_data" in m["msg_type"]]
    assert len({one for one in seen if one.endswith("%")}) >= 2


def test_batches_in_a_cell_are_computed_ahead_and_shown(kernel):
    code = """%%jmars
x = map_blocks(lambda block: block + 1, np.arange(40_000.0).reshape(1000, 40), dtype=float)
rows = [batch[:, 0].copy() for batch in x.rechunk((100, 40)).batches(64, shuffle=True)]"""
    kernel.run("from jmars.tensor import map_blocks")
    kernel.run(code)
    assert kernel.run("print((np.sort(np.concatenate(rows)) == np.arange(1000) * 40 + 1).all())") == "True"
