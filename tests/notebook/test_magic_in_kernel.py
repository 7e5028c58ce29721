"""A `%%jmars` cell in a real kernel: seen while it runs, stopped in every way, cells behind it in order."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jmars.model.status import STATE_NAMES
from jmars.notebook.view import MIME_TYPE
from jmars.notebook.widget import STATIC
from tests.notebook.kernels import PROMPT, VERSIONS, Client, running_kernel

SLOW = """%%jmars -w 2 --memory 512MiB -o job {flags}
import pathlib, time
def slow(block):
    time.sleep(0.0 if pathlib.Path({gate!r}).exists() else 0.2)
    return block + 1

x = map_blocks(slow, np.zeros({chunks}, chunk_size=1), dtype=float)
x.sum()
"""


def slow(flags: str = "", gate: str | Path = "/no/gate") -> str:
    """A cell of 300 times 0.2 s on two workers, or until `gate` is there."""
    return SLOW.format(flags=flags, chunks=300, gate=str(gate))


@pytest.fixture(scope="module", params=VERSIONS)
def kernel(request, tmp_path_factory):
    if not (STATIC / "widget.js").exists():
        pytest.skip("the front end is not built: run `jlpm && jlpm build:prod` in labextension/")
    with running_kernel(tmp_path_factory.mktemp("kernel"), request.param, {"JMARS_DISPLAY": "widget"}) as client:
        client.run("%load_ext jmars\nimport numpy as np\nfrom jmars.tensor import map_blocks\nx = 'old'")
        client.run("%%jmars -w 2 --memory 512MiB\nnp.ones(3).sum()")
        yield client
        client.run("%jmars stop")


@pytest.fixture(autouse=True)
def _forget(kernel):
    kernel.iopub.clear()
    kernel.run("x = 'old'")
    kernel.iopub.clear()


def running_view(kernel: Client, finished: int = 1) -> tuple[str, str]:
    """Comm id and job id of the view, once its job runs and has finished an operand, whose chunk may be spilled."""
    comm = kernel.wait_for(lambda m: m["msg_type"] == "comm_open" and "job_id" in m["content"]["data"]["state"])
    name = comm["content"]["comm_id"]

    def runs(message):
        if message["msg_type"] != "comm_msg" or message["content"]["comm_id"] != name:
            return False
        snap = message["content"]["data"].get("state", {}).get("snap") or {}
        return snap.get("state") == "running" and sum(snap.get("counts", [])[3:6]) >= finished

    found = kernel.wait_for(runs)
    return name, found["content"]["data"]["state"]["snap"]["job"]


@pytest.mark.long(beyond=1)
def test_the_view_moves_and_a_static_picture_replaces_it(kernel, tmp_path):
    cell = kernel.send(slow(gate=tmp_path / "gate"))
    running_view(kernel)
    (tmp_path / "gate").touch()
    assert kernel.reply(cell)["status"] == "ok"
    kernel.text(cell)
    mine = [m for m in kernel.iopub if m["parent_header"].get("msg_id") == cell]
    shown = next(m for m in mine if m["msg_type"] == "display_data")
    assert shown["content"]["data"] == {"text/plain": ""}  # the place of the view, above all that the cell prints
    first, last = [m for m in kernel.iopub if m["msg_type"] == "update_display_data"]
    assert {"application/vnd.jupyter.widget-view+json", MIME_TYPE} < first["content"]["data"].keys()
    assert last["content"]["transient"] == shown["content"]["transient"]
    assert last["content"]["data"].keys() == {MIME_TYPE, "text/html", "text/plain"}
    assert last["content"]["data"][MIME_TYPE]["snap"]["state"] == "succeeded"
    kept = last["content"]["data"][MIME_TYPE]["series"]["kernel"]
    assert str(kept) == kernel.run("from jmars.client.local_runs import kept_bytes; kept_bytes()")
    assert kernel.run("float(x.sum())") == "300.0"


STOP = """import jmars, subprocess, sys, threading, time
shared = jmars.Cluster(n_workers=2, memory_limit="512MiB", name="shared")
def stop():
    while not any(job["state"] == "running" and job["progress"] > 0.01 for job in shared.jobs()):
        time.sleep(0.05)
    time.sleep(0.5)
    {how}
threading.Thread(target=stop).start()"""
STOPS = {"": "shared.stop()", " from a terminal": "subprocess.run([sys.executable, '-m', 'jmars', 'stop', 'shared'])"}


@pytest.mark.parametrize("by", STOPS)
def test_a_cell_whose_cluster_is_stopped_says_so_and_its_view_ends(kernel, by):
    kernel.run(STOP.format(how=STOPS[by]))
    kernel.iopub.clear()
    cell = kernel.send(slow())
    reply = kernel.reply(cell)
    told = f"shared was stopped{by} before the job ended"
    assert reply["ename"] == "ClusterStoppedError" and told in reply["evalue"]
    assert len(reply["traceback"]) == 1 and "names keep their old values" in reply["traceback"][0]
    kernel.text(cell)
    last = [m["content"]["data"] for m in kernel.iopub if m["msg_type"] == "update_display_data"][-1]
    snap = last[MIME_TYPE]["snap"]
    assert (snap["state"], snap["live"]) == (snap["parts"][0]["state"], False) == ("cancelled", False)
    assert f"shared was stopped{by}" in snap["error"] or "shared is closed" in snap["error"]
    counts = dict(zip(STATE_NAMES, snap["counts"], strict=True))
    assert [counts[name] for name in ("unscheduled", "ready", "running")] == [0, 0, 0] and counts["cancelled"] > 0
    assert kernel.run("x") == "'old'"


OUTPUTS = ("stream", "display_data", "execute_result", "error", "update_display_data", "clear_output", "comm_open")
SHORT = {
    "x = 1": [],
    "print('a', end=' ', flush=True); print('b')": ["stream", "stream"],
    "print('a'); display('b'); print('c')\n2": ["stream", "display_data", "stream", "execute_result"],
    "print('a'); 1 / 0": ["stream", "error"],
}


@pytest.fixture
def _late_view(kernel):
    """A cell without a job is shown so late that it has ended before, however busy the machine is."""
    kernel.run(
        "import jmars.notebook.sampler as sampler; first, sampler._REVEAL_SECONDS = sampler._REVEAL_SECONDS, 60.0"
    )
    kernel.iopub.clear()
    yield
    kernel.run("sampler._REVEAL_SECONDS = first")


@pytest.mark.usefixtures("_late_view")
@pytest.mark.parametrize("text", SHORT)
def test_a_cell_of_milliseconds_puts_out_nothing_for_a_view(kernel, text):
    cell = kernel.send(f"%%jmars\n{text}")
    failed = kernel.reply(cell)["status"] == "error"
    kernel.text(cell)
    if failed:
        kernel.settle()
    mine = [m for m in kernel.iopub if m["parent_header"].get("msg_id") == cell and m["msg_type"] in OUTPUTS]
    assert [m["msg_type"] for m in mine] == SHORT[text]
    assert "".join(m["content"]["text"] for m in mine if m["msg_type"] == "stream") in ("", "a b\n", "a\nc\n", "a\n")


@pytest.mark.parametrize("way", ["control", "comm"])
def test_cancel_while_the_cell_blocks_ends_it_and_what_is_queued(kernel, way):
    cell = kernel.send(slow())
    queued = kernel.send("x = 'must not run'")
    comm, job = running_view(kernel)
    begun = time.monotonic()
    if way == "control":
        assert kernel.control("jmars_request", {"op": "cancel", "job": job})["status"] == "ok"
    else:
        kernel.shell(
            "comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": {"type": "cancel", "job": job}}}
        )
    reply = kernel.reply(cell)
    assert time.monotonic() - begun < PROMPT
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert "was cancelled; names keep their old values" in "\n".join(reply["traceback"])
    assert kernel.reply(queued)["status"] == "aborted"
    assert kernel.run("print(x, job.state)") == "old cancelled"
    assert kernel.run("%%jmars\nfloat(np.ones(4).sum())").endswith("4.0")


PYTHON = """%%jmars
print("above", flush=True)
import time
x = 'new'
for second in range(60):
    time.sleep(1)
"""


@pytest.mark.parametrize("way", ["control", "comm"])
def test_cancel_while_python_of_the_cell_runs_interrupts_it(kernel, way):
    cell = kernel.send(PYTHON)
    comm = kernel.wait_for(lambda m: m["msg_type"] == "comm_open" and "job_id" in m["content"]["data"]["state"])
    state, name = comm["content"]["data"]["state"], comm["content"]["comm_id"]
    assert (state["snap"]["line"], state["snap"]["lines"], state["snap"]["state"]) == (6, 6, "running")
    if way == "control":
        kernel.control("jmars_request", {"op": "cancel", "job": state["job_id"]})
    else:  # without a control channel the kernel reads the click when the cell has ended
        kernel.shell("comm_msg", {"comm_id": name, "data": {"method": "custom", "content": {"type": "cancel"}}})
        time.sleep(0.2)
        kernel.manager.interrupt_kernel()
    reply = kernel.reply(cell)
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert ("was cancelled; names keep" in "".join(reply["traceback"])) is (way == "control")
    kernel.settle()
    assert kernel.run("print(x)") == "old"
    kinds = [m["msg_type"] for m in kernel.iopub if m["parent_header"].get("msg_id") == cell]
    assert kinds.index("display_data") < kinds.index("stream")
    last = [m for m in kernel.iopub if m["msg_type"] == "update_display_data"][-1]["content"]["data"]
    assert (last[MIME_TYPE]["snap"]["state"], last[MIME_TYPE]["snap"]["live"]) == ("cancelled", False)


def test_cancel_ends_a_function_that_is_tried_for_its_dtype(kernel):
    cell = kernel.send("%%jmars\nimport time\ny = map_blocks(lambda block: time.sleep(60) or block, np.arange(8.0))")
    _, job = running_view(kernel, finished=0)
    kernel.control("jmars_request", {"op": "cancel", "job": job})
    assert "was cancelled; names keep" in "".join(kernel.reply(cell)["traceback"])
    kernel.settle()


def test_the_stop_button_cancels_the_job_and_what_is_queued(kernel):
    cell = kernel.send(slow())
    queued = kernel.send("x = 'must not run'")
    running_view(kernel)
    begun = time.monotonic()
    kernel.manager.interrupt_kernel()
    reply = kernel.reply(cell)
    assert time.monotonic() - begun < PROMPT
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert "\n".join(reply["traceback"]).count("\n") < 3
    assert kernel.reply(queued)["status"] == "aborted"
    assert kernel.run("print(x, job.state)") == "old cancelled"
    assert kernel.run("%%jmars\nfloat(np.ones(4).sum())").endswith("4.0")


def test_a_reloaded_page_finds_its_widget_while_the_cell_waits(kernel):
    cell = kernel.send(slow())
    comm, job = running_view(kernel)
    assert comm in kernel.reply(kernel.shell("comm_info_request", {"target_name": "jupyter.widget"}))["comms"]
    kernel.shell("comm_msg", {"comm_id": comm, "data": {"method": "request_state"}})
    kernel.wait_for(
        lambda m: "workers" in m["content"].get("data", {}).get("state", {}) and "snap" in m["content"]["data"]["state"]
    )
    kernel.control("jmars_request", {"op": "cancel", "job": job})
    kernel.reply(cell)


@pytest.mark.long(beyond=1)
def test_to_background_gives_the_prompt_back_and_the_job_goes_on(kernel, tmp_path):
    cell = kernel.send(slow(gate=tmp_path / "gate"))
    _, job = running_view(kernel)
    assert kernel.control("jmars_request", {"op": "background", "job": job})["status"] == "ok"
    assert kernel.reply(cell)["status"] == "ok"
    assert kernel.run("print(job.state)") == "running"
    (tmp_path / "gate").touch()
    assert "300.0" in kernel.run("float(x.sum())").splitlines()  # the line that tells of its end may come first or last
    assert "succeeded" in kernel.run("job.wait(60); print(job.state)").splitlines()  # that line may come here, too


@pytest.mark.long(beyond=1)
def test_a_background_cell_returns_at_once(kernel, tmp_path):
    gate = tmp_path / "gate"
    kernel.run(f"""%%jmars -b -o job
def waits(block):
    import os, time
    while not os.path.exists({str(gate)!r}):
        time.sleep(0.05)
    return block + 1

x = map_blocks(waits, np.zeros(20, chunk_size=10), dtype=float)
x.sum()
""")
    seen = kernel.run("print(job.state in ('preparing', 'running'))")
    assert "True" in seen.splitlines()  # an earlier background job may tell of its end here, too
    gate.touch()
    assert "20.0" in kernel.run("float(x.sum())").splitlines()  # the line that tells of its end may come first or last
