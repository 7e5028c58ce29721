"""Dask's collections in a `%%jmars` cell of a real kernel: seen under the cell while they run, and cancelled there."""

from __future__ import annotations

import pytest

from jmars.notebook.view import MIME_TYPE
from jmars.notebook.widget import STATIC
from tests.notebook.kernels import Client, running_kernel
from tests.notebook.test_magic_in_kernel import running_view

pytest.importorskip("dask.array", reason="dask is not installed (extra jmars[dask])")

# with less memory a worker that has imported Dask is replaced
CELL = """%%jmars -w 2 --memory 1GiB
x = da.zeros({chunks}, chunks=1).map_blocks(slow, dtype=float)
with jmars.dask_scheduler():
    total = x.sum().compute()
float(total)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    if not (STATIC / "widget.js").exists():
        pytest.skip("the front end is not built: run `jlpm && jlpm build:prod` in labextension/")
    with running_kernel(tmp_path_factory.mktemp("kernel"), "newest", {"JMARS_DISPLAY": "widget"}) as client:
        client.run("%load_ext jmars\nimport time\nimport dask.array as da\nimport jmars\ntotal = 'old'")
        client.run("def slow(block):\n    time.sleep(0.2)\n    return block + 1")
        client.run("%%jmars -w 2 --memory 1GiB\nimport numpy as np\nnp.ones(3).sum()")
        client.iopub.clear()
        yield client
        client.run("%jmars stop")


def state_of(kernel: Client, comm: str, trait: str) -> dict:
    """A trait of the widget, as it was sent."""

    def has(message):
        content = message["content"]
        return content.get("comm_id") == comm and bool(content["data"].get("state", {}).get(trait))

    return kernel.wait_for(has)["content"]["data"]["state"][trait]


@pytest.mark.long
def test_a_collection_is_shown_under_its_cell_while_it_runs(kernel):
    cell = kernel.send(CELL.format(chunks=10))
    comm, _ = running_view(kernel)
    rows = state_of(kernel, comm, "graph")["stages"]
    assert {(row["line"], row["text"]) for row in rows} == {(4, "total = x.sum().compute()")}
    assert sum(row["n"] for row in rows) > 10  # chunks, and what sums them up
    assert len(rows) < 10  # by name, not one for each of Dask's tasks
    assert kernel.reply(cell)["status"] == "ok"
    assert kernel.text(cell).splitlines()[-1] == "10.0"
    last = [m for m in kernel.iopub if m["msg_type"] == "update_display_data"][-1]
    snap = last["content"]["data"][MIME_TYPE]["snap"]
    assert (snap["state"], sum(snap["counts"][3:6])) == ("succeeded", snap["n"])


def test_cancel_ends_the_collection_and_its_cell(kernel):
    kernel.run("total = 10.0")
    kernel.iopub.clear()
    cell = kernel.send(CELL.format(chunks=300))
    _, job = running_view(kernel)
    assert kernel.control("jmars_request", {"op": "cancel", "job": job})["status"] == "ok"
    assert "was cancelled; names keep their old values" in kernel.reply(cell)["evalue"]
    assert kernel.run("float(total)") == "10.0"


def test_an_error_comes_back_at_the_line_that_computed(kernel):
    cell = CELL.format(chunks=4).replace("slow, dtype", "lambda block: 1 / len(block[:0]), dtype")
    reply = kernel.reply(kernel.send(cell))
    assert (reply["status"], reply["ename"]) == ("error", "ZeroDivisionError")
    assert "total = x.sum().compute()" in "\n".join(reply["traceback"])
    kernel.settle()
