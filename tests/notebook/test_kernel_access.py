"""While a cell waits in the kernel's main thread, other requests are answered, kept in order, and can stop it."""

from __future__ import annotations

import queue
import time

import pytest

from tests.notebook.kernels import PROMPT, VERSIONS, Client, running_kernel

SETUP = """
import threading, time
from jmars.notebook import kernel_access

class Flag:  # an interrupt may leave the lock of an Event locked
    is_set = False

    def set(self):
        self.is_set = True

    def clear(self):
        self.is_set = False

    def wait(self, seconds):
        if not self.is_set:
            time.sleep(seconds)
        return self.is_set

done, heard = Flag(), []

def on_open(comm, message):
    comm.on_msg(lambda message: (heard.append(message["content"]["data"]), done.set()))

get_ipython().kernel.comm_manager.register_target("jmars-test", on_open)

def answer(content):
    heard.append(content)
    done.set()
    return {"thread": threading.current_thread().name}

kernel_access.serve_control(answer)

def wait(pump=True):
    done.clear()
    server = kernel_access.Pump.here() if pump else None
    print("waiting", flush=True)
    while not done.wait(0.05):
        if server: server.serve()
    print("waited", heard, flush=True)
"""


@pytest.fixture(scope="module", params=VERSIONS)
def kernel(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernel")
    with running_kernel(folder, request.param) as client:
        client.run("import ipykernel")
        client.version = client.run("print(ipykernel.__version__)")
        client.run(SETUP)
        yield client


@pytest.fixture(autouse=True)
def _forget(kernel):
    kernel.iopub.clear()
    yield
    kernel.run("done.set(); heard.clear()")


def open_comm(kernel: Client, name: str, subshell: str | None = None) -> None:
    kernel.shell("comm_open", {"comm_id": name, "target_name": "jmars-test", "data": {}}, subshell)


def test_nothing_is_missing_here(kernel):
    assert kernel.run("print(kernel_access.missing())") == "[]"


def test_the_control_channel_answers_while_a_cell_blocks(kernel):
    cell = kernel.send("wait(pump=False)")
    kernel.printed("waiting")
    begun = time.monotonic()
    answer = kernel.control("jmars_request", {"op": "cancel", "job": "j1"})
    assert answer["status"] == "ok"
    assert "ontrol" in answer["thread"]
    assert kernel.reply(cell)["status"] == "ok"
    assert time.monotonic() - begun < PROMPT
    assert "{'op': 'cancel', 'job': 'j1'}" in kernel.text(cell)


def test_a_failing_answer_says_so_and_the_kernel_lives(kernel):
    kernel.run("kernel_access.serve_control(lambda content: 1 / 0)")
    answer = kernel.control("jmars_request", {})
    kernel.run("kernel_access.serve_control(answer)")
    assert (answer["status"], answer["ename"]) == ("error", "ZeroDivisionError")


def test_the_pump_hands_a_comm_message_to_its_widget(kernel):
    cell = kernel.send("wait()")
    kernel.printed("waiting")
    open_comm(kernel, "c1")
    kernel.shell("comm_msg", {"comm_id": "c1", "data": {"type": "cancel"}})
    assert kernel.reply(cell)["status"] == "ok"
    assert "[{'type': 'cancel'}]" in kernel.text(cell)


def test_a_reloaded_page_gets_its_answers_while_the_cell_waits(kernel):
    cell = kernel.send("wait()")
    kernel.printed("waiting")
    open_comm(kernel, "c2")
    asked = kernel.shell("comm_info_request", {"target_name": "jmars-test"})
    assert "c2" in kernel.reply(asked)["comms"]
    assert kernel.reply(kernel.shell("kernel_info_request", {}))["implementation"] == "ipython"
    kernel.control("jmars_request", {})
    kernel.reply(cell)


def test_what_the_pump_does_not_serve_runs_afterwards_in_order(kernel):
    cell = kernel.send("wait(); order = ['first']")
    kernel.printed("waiting")
    cells = []
    for i in range(5):
        cells.append(kernel.send(f"order.append({i})"))
        kernel.shell("comm_info_request", {})  # served at once, between the cells
    completion = kernel.client.complete("orde")
    cells.append(kernel.send("print(order)"))
    time.sleep(0.3)  # let the pump read them all; the test holds without, it then only tests less
    kernel.control("jmars_request", {})
    assert kernel.reply(cell)["status"] == "ok"
    order = []
    while len(order) < len(cells) + 1:
        message = kernel.client.get_shell_msg(timeout=60)  # the first completion imports jedi
        if message["parent_header"]["msg_id"] in [*cells, completion]:
            order.append(message["parent_header"]["msg_id"])
    assert order == [*cells[:5], completion, cells[5]]
    assert kernel.text(cells[-1]) == "['first', 0, 1, 2, 3, 4]"


@pytest.mark.parametrize("kind", ["comm_info_request", "comm_msg"])
def test_a_kernel_that_served_a_request_within_a_cell_says_that_it_is_busy(kernel, kind):
    cell = kernel.send("with kernel_access.stays_busy(): wait()")
    kernel.printed("waiting")
    open_comm(kernel, "c3")
    asked = kernel.shell(kind, {"target_name": "jmars-test", "comm_id": "c3", "data": {}})
    idle = {"execution_state": "idle"}
    kernel.wait_for(lambda m: m["content"] == idle and m["parent_header"]["msg_id"] == asked)
    kernel.control("jmars_request", {})
    kernel.reply(cell)
    kernel.text(cell)
    said = [m for m in kernel.iopub if m["msg_type"] == "status"]
    states = [(m["parent_header"]["msg_id"], m["content"]["execution_state"]) for m in said]
    assert states[states.index((asked, "idle")) + 1] == (cell, "busy")
    assert [state for parent, state in states if parent == cell][-1] == "idle"


def test_output_after_a_served_request_still_belongs_to_the_cell(kernel):
    cell = kernel.send("wait()")
    kernel.printed("waiting")
    kernel.reply(kernel.shell("kernel_info_request", {}))
    kernel.control("jmars_request", {})
    kernel.reply(cell)
    assert "waited" in kernel.text(cell)


def test_the_stop_button_raises_and_aborts_what_is_queued(kernel):
    cell = kernel.send("wait()")
    kernel.printed("waiting")
    queued = kernel.send("print('must not run')")
    time.sleep(0.2)  # the pump has put it back
    kernel.manager.interrupt_kernel()
    assert kernel.reply(cell)["ename"] == "KeyboardInterrupt"
    assert kernel.reply(queued)["status"] == "aborted"
    assert kernel.run("print('alive')") == "alive"


def test_an_untied_comm_is_served_by_a_subshell(kernel):
    if kernel.version.startswith("6"):
        pytest.skip("ipykernel 6 has no subshells; the pump and the control channel serve there")
    subshell = kernel.control("create_subshell_request", {})["subshell_id"]
    kernel.run(
        "from comm import create_comm; comm = create_comm(target_name='front'); comm.on_msg(lambda m: done.set());"
        "tied = kernel_access.unpin(comm); print(tied)"
    )
    cell = kernel.send("print(comm.comm_id); wait(pump=False)")
    kernel.printed("waiting")
    name = next(m for m in kernel.iopub if m["msg_type"] == "comm_open")["content"]["comm_id"]
    kernel.shell("comm_msg", {"comm_id": name, "data": {}}, subshell)
    try:
        assert kernel.reply(cell, 30)["status"] == "ok"
    except queue.Empty:
        pytest.fail("the message was not served while the cell blocked")
    finally:
        kernel.control("jmars_request", {})
        kernel.control("delete_subshell_request", {"subshell_id": subshell})


def test_await_inside_a_cell_runs_in_a_loop_of_its_own(kernel):
    code = """
import asyncio
async def later():
    await asyncio.sleep(0.01)
    return await asyncio.gather(asyncio.sleep(0, 'a'), asyncio.sleep(0, 'b'))
print(kernel_access.run_coroutine(later()))
"""
    assert kernel.run(code) == "['a', 'b']"
    assert kernel.run("print(await later())") == "['a', 'b']"  # the kernel's own loop is as it was


HOLD = """
import os
def say(text): print(text + "\\n", end="", flush=True)  # one message, whatever comes beside it

held = kernel_access.HeldOutputs()
say("first")
display("dropped")
if not (child := os.fork()):
    say("of a fork")
    os._exit(0)
os.waitpid(child, 0)
inner = kernel_access.HeldOutputs()
say("second")
inner.release()
held.release(without="dropped")
held.release()
say("third")
"""


def test_held_outputs_are_released_in_order_without_dropped_ones(kernel):
    cell = kernel.send(HOLD)
    assert kernel.reply(cell)["status"] == "ok"
    kernel.printed("of a fork")  # it has a connection of its own: it comes anywhere among the others, or after them
    lines = kernel.text(cell).splitlines()
    assert [line for line in lines if line != "of a fork"] == ["first", "second", "third"]
    assert kernel.run("print('send_multipart' in vars(get_ipython().kernel.iopub_thread))") == "False"


FINALIZER = """
class Held(list):
    def append(self, message):
        super().append(message)
        if len(self) == 1:  # a finalizer may run anywhere
            print("by a finalizer")
            display("of a finalizer")  # waits until what was printed is on its way
            finalized.set()

finalized = threading.Event()
held = kernel_access.HeldOutputs()
held._held = Held()
display("first")
finalized.wait()
print("second", flush=True)
held.release()
"""


def test_a_finalizer_that_displays_does_not_stop_the_held_outputs(kernel):
    shown = ["'first'", "by a finalizer", "'of a finalizer'", "second"]
    assert kernel.run(FINALIZER).splitlines() == shown


INTERRUPTED = """
import signal
held = kernel_access.HeldOutputs()
print("first", flush=True)
display("second")
schedule = held._schedule
def interrupted(send):
    signal.raise_signal(signal.SIGINT)
    schedule(send)
held._schedule = interrupted
try:
    held.release()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_during_the_release_loses_no_message(kernel):
    assert kernel.run(INTERRUPTED).splitlines() == ["first", "'second'", "interrupted"]
    assert kernel.run("print('send_multipart' in vars(get_ipython().kernel.iopub_thread))") == "False"


INTERRUPT = """
import signal
from jmars.notebook import display
own = {0}
def interrupted(*args, **kwargs):
    {0} = own
    {1}own(*args, **kwargs)
    signal.raise_signal(signal.SIGINT)
    {2}own(*args, **kwargs)
{0} = interrupted"""
RELEASE, BEGIN = "display.kernel_access.HeldOutputs.release", "display.WidgetDisplay.__init__"


@pytest.mark.parametrize(("name", "first", "then"), [(RELEASE, "# ", ""), (RELEASE, "", "# "), (BEGIN, "", "# ")])
def test_an_interrupt_as_a_cell_begins_or_ends_leaves_the_kernel_whole(kernel, name, first, then):
    kernel.run("%load_ext jmars\nimport numpy as np")
    kernel.run("%%jmars -w 1 --memory 300MiB\nx = 0")
    kernel.run(INTERRUPT.format(name, first, then))
    assert kernel.reply(kernel.send("%%jmars\nx = 1"))["ename"] == "KeyboardInterrupt"
    state = (
        "'send_multipart' in vars(get_ipython().kernel.iopub_thread), '_publish_status' in vars(get_ipython().kernel)"
    )
    assert kernel.run(f"print({state})") == "False False"
    assert "3.0" in kernel.run("%%jmars\nprint(float(np.ones(3).sum()))").splitlines()
    kernel.run("%jmars stop")
