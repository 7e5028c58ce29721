"""The only file that uses ipykernel's internals.

While a cell waits for a job, the kernel's main thread is busy and ipykernel serves no shell request: a Cancel click, a
reloaded page and a slider all wait until the cell ends. This file works around that for cell_engine.py:

- `Pump`: the waiting main thread answers cheap requests itself and puts other requests back in order;
- `HeldOutputs`: outputs of a cell's first moment wait until the cell has a view above them, or gets none;
- `end_of_sender`: ipykernel closes a thread's pipe soon after the thread's end, not ten seconds later;
- `unpin`: ipykernel 7.4 ties a widget to the shell of origin; `unpin` unties the widget for subshells;
- `stays_busy`: the kernel reports "busy" again after each request that was served beside the cell;
- `serve_control`: our own request type on the control channel, which has a thread of its own since ipykernel 6;
- `publish`: an output of a cell from the thread that hears of the cluster, also after the cell;
- `run_coroutine`: top-level `await` inside a cell that runs within the kernel's running loop.

Every private name is looked up with a guard. `missing()` names the guards that failed, and the view then says "use the
Stop button". Tested on ipykernel 6.31, 7.3 and 7.4 by tests/notebook/test_kernel_access.py.
Source: ipykernel 6.31 and 7.x `kernelbase.py`, `comm/comm.py`, `subshell_manager.py`; `jupyter-ui-poll` for the idea.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import FrameType
from typing import Any

import zmq
from IPython.core.getipython import get_ipython

# Requests that the main thread may answer while it waits: none runs user code, except a widget's own callbacks.
SERVED = frozenset({"comm_open", "comm_msg", "comm_close", "comm_info_request", "kernel_info_request"})
CONTROL_REQUEST = "jmars_request"
_SENDER_ENDS = 0.1  # seconds for a thread to end


def current_kernel() -> Any | None:
    """The ipykernel of this process, or None (terminal IPython, plain Python)."""
    return getattr(get_ipython(), "kernel", None)


def request_id() -> str:
    """Id of the message that runs this cell; "" without a kernel."""
    kernel: Any = current_kernel()
    parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
    return str(parent.get("header", {}).get("msg_id", ""))


def publish(header: dict[str, Any], display: str, data: dict[str, str], update: bool) -> None:
    """Shows or replaces data below the cell of a message with `header`, from any thread, also after the cell's end."""
    publisher: Any = getattr(get_ipython(), "display_pub", None)
    if getattr(publisher, "session", None) is None:
        return
    kind = "update_display_data" if update else "display_data"
    content = {"data": data, "metadata": {}, "transient": {"display_id": display}}
    publisher.session.send(publisher.pub_socket, kind, content, parent={"header": header}, ident=publisher.topic)


class Pump:
    """Answers cheap shell requests from the main thread while a cell waits; made by `Pump.here()`.

    Peeking must not deserialise the content: `Session` records the signature of a fully read message and would then
    refuse the message that was put back as a duplicate.
    """

    def __init__(self, kernel: Any, socket: Any, reply: Any, put_back: Callable[[Any], None]) -> None:
        self.kernel = kernel
        self._socket = socket
        self._reply = reply
        self._put_back = put_back

    @classmethod
    def here(cls) -> Pump | None:
        """The pump of this kernel, or None without a supported kernel or outside its main thread."""
        kernel = current_kernel()
        if kernel is None or threading.current_thread() is not threading.main_thread():
            return None
        try:
            if getattr(kernel, "_supports_kernel_subshells", False):  # ipykernel 7: a thread reads the shell socket
                manager = kernel.shell_channel_thread.manager
                socket = manager.get_shell_channel_to_subshell_pair(None).to_socket
                reply = manager.get_subshell_to_shell_channel_socket(None)
                put_back = partial(kernel.io_loop.add_callback, kernel.shell_main, None)

            else:  # ipykernel 6: the main thread reads the socket
                socket, reply = kernel.shell_stream.socket, kernel.shell_stream
                put_back = partial(kernel.schedule_dispatch, kernel.dispatch_shell)
            used = ("shell_handlers", "session", "set_parent", "get_parent", "_publish_status")
            well = all(hasattr(kernel, name) for name in used) and "shell" in kernel._parent_ident
            return cls(kernel, socket, reply, put_back) if well and hasattr(socket, "recv_multipart") else None
        except (AttributeError, TypeError):
            return None

    def serve(self) -> None:
        """Answers all requests that have arrived, without blocking; an unread message would not wake the kernel's loop
        again.
        """
        with _interrupt_later():  # a message read and not yet put back must not be lost to the Stop button
            while True:
                try:
                    message = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
                except zmq.Again:
                    return
                try:
                    idents, frames = self.kernel.session.feed_identities(message, copy=False)
                    header = self.kernel.session.deserialize(frames, content=False, copy=False)["header"]
                except Exception:  # not a Jupyter message (ipykernel 7.4's "stop aborting"): left to ipykernel
                    self._put_back(message)
                    continue
                if header["msg_type"] in SERVED:
                    self._answer(header["msg_type"], idents, frames)
                else:
                    self._put_back(message)

    def _answer(self, kind: str, idents: Any, frames: Any) -> None:
        """Calls the kernel's own handler with the request as parent, then restores the cell as parent."""
        kernel = self.kernel
        parent, ident = kernel.get_parent("shell"), kernel._parent_ident["shell"]
        try:
            message = kernel.session.deserialize(frames, content=True, copy=False)
            kernel.set_parent(idents, message, channel="shell")
            kernel._publish_status("busy", "shell")
            answer = kernel.shell_handlers[kind](self._reply, idents, message)
            if inspect.iscoroutine(answer):
                _finish(answer)
            kernel._publish_status("idle", "shell")
            if hasattr(self._reply, "flush"):  # ipykernel 6: the stream sends in the event loop, which does not run now
                self._reply.flush(zmq.POLLOUT)
        except Exception:  # a bad request must not end the user's cell
            kernel.log.exception("jmars: %s failed while a cell was waiting", kind)
        finally:
            kernel.set_parent(ident, parent, channel="shell")


def _finish(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Runs a coroutine that awaits nothing, such as ipykernel's handlers of the served requests."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("the handler waits for something and cannot be run inside a cell")


@contextmanager
def _interrupt_later() -> Iterator[None]:
    """Delays KeyboardInterrupt until the block has ended; outside of the main thread none comes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught and callable(before):
        before(*caught[0])


class Whole:
    """Contexts that are entered whole and left whole: an interrupt meanwhile is raised afterwards.

    A cell that was interrupted halfway would leave the kernel with the state of a cell that runs.
    """

    def __init__(self, *contexts: AbstractContextManager[Any]) -> None:
        self._contexts, self._stack = contexts, ExitStack()

    def __enter__(self) -> None:
        try:
            with _interrupt_later(), ExitStack() as stack:
                for one in self._contexts:
                    stack.enter_context(one)
                self._stack = stack.pop_all()
        except KeyboardInterrupt as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, *error: Any) -> bool | None:
        with _interrupt_later():
            return self._stack.__exit__(*error)


@contextmanager
def stays_busy() -> Iterator[None]:
    """Within the block, the kernel reports "busy" for the running cell after each "idle" of another request.

    JupyterLab shows the newest status, of any request: after a comm message that the pump, a subshell
    or the control thread answered, its indicator said Idle while the cell ran.
    """
    kernel = current_kernel()
    own = getattr(kernel, "_publish_status", None)
    if kernel is None or own is None:
        yield
        return
    cell, lock, before = kernel.get_parent("shell"), threading.Lock(), vars(kernel).get("_publish_status")

    def publish(status: str, *args: Any, **kwargs: Any) -> None:
        with lock:
            own(status, *args, **kwargs)
            if status == "idle" and running:
                own("busy", "shell", parent=cell)

    running = True
    kernel._publish_status = publish
    try:
        yield
    finally:
        with lock:  # "busy" from another thread must not follow the cell's own "idle"
            running = False
        if before is None:
            del kernel._publish_status
        else:
            kernel._publish_status = before


def unpin(comm: Any) -> bool:
    """Lets the front end choose the subshell that serves this comm; True if ipykernel had tied the comm (7.4 and
    later).
    """
    if not hasattr(comm, "_reply_subshell_for"):
        return False
    comm._reply_subshell_for = lambda data, default: default
    return True


def end_of_sender() -> None:
    """Has ipykernel close this thread's pipe for messages to the pages; the thread sends no more, and ends."""
    thread: Any = getattr(current_kernel(), "iopub_thread", None)
    if threading.current_thread() in getattr(thread, "_event_pipes", ()):
        thread.schedule(partial(thread.io_loop.call_later, _SENDER_ENDS, thread._event_pipe_gc))


class HeldOutputs:
    """Holds back messages of this kernel to the pages, from now until `release`.

    A cell holds its outputs until it is known whether it gets a view, whose place stands above them. Held messages keep
    their order. Without ipykernel's thread that sends, or within another hold, no message is held.

    Messages are held and released in that thread alone, in the order in which they come to it. So nobody waits for
    a sender: a finalizer that displays waits in its thread for the thread that sends, which must not wait for it.
    """

    def __init__(self) -> None:
        self._held: list[tuple[Any, dict[str, Any]]] | None = []  # None once released; of the thread that sends
        self._lock = threading.Lock()  # serialises releases
        self._process = os.getpid()
        thread: Any = getattr(current_kernel(), "iopub_thread", None)
        self._send: Any = getattr(thread, "send_multipart", None)
        self._schedule: Any = getattr(thread, "schedule", None)
        self._send_now: Any = getattr(thread, "_really_send", None)
        known = None not in (self._send, self._schedule, self._send_now)
        self._names = vars(thread) if known else {}
        self._holds = known and "send_multipart" not in self._names
        if self._holds:
            self._names["send_multipart"] = self._take

    def _take(self, frames: Any, **options: Any) -> None:
        """Holds a message until the release; later messages, and messages of a forked process, are sent at once."""
        if os.getpid() == self._process:
            self._schedule(partial(self._arrive, frames, options))
        else:
            self._send(frames, **options)

    def _arrive(self, frames: Any, options: dict[str, Any]) -> None:
        if self._held is None:
            self._send_now(frames, **options)
        else:
            self._held.append((frames, options))

    def release(self, without: str = "") -> None:
        """Sends the held messages, except the messages that contain `without`; the kernel sends as before.

        An interrupt is raised afterwards: no message is lost, and the kernel is left as it was.
        """
        with _interrupt_later(), self._lock:
            if not self._holds:
                return
            self._holds = False
            self._schedule(partial(self._send_held, without))
            del self._names["send_multipart"]

    def _send_held(self, without: str) -> None:
        held, self._held = self._held or [], None
        for frames, options in held:
            if not (without and any(without.encode() in bytes(frame) for frame in frames)):
                self._send_now(frames, **options)


def serve_control(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
    """Answers `jmars_request` on the control channel with `answer(content)`; False without such a channel.

    `answer` runs in the control thread, also while a cell blocks the main thread: it must return at once.
    """
    kernel = current_kernel()
    handlers = getattr(kernel, "control_handlers", None)
    if kernel is None or handlers is None:
        return False

    def handle(stream: Any, ident: Any, message: dict[str, Any]) -> None:
        try:
            content = {"status": "ok", **answer(message["content"])}
        except Exception as error:
            content = {"status": "error", "ename": type(error).__name__, "evalue": str(error)}
        kernel.session.send(stream, CONTROL_REQUEST.replace("request", "reply"), content, parent=message, ident=ident)

    handlers[CONTROL_REQUEST] = handle
    return True


def missing() -> list[str]:
    """Names the parts that this kernel lacks for a Cancel button that works during a cell; empty if complete."""
    kernel = current_kernel()
    if kernel is None:
        return ["kernel"]
    lacks = []
    if threading.current_thread() is threading.main_thread() and Pump.here() is None:
        lacks.append("pump")
    if getattr(kernel, "control_handlers", None) is None:
        lacks.append("control channel")
    return lacks


def run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine to its end, also inside a running loop, which stands still meanwhile.

    The coroutine gets a loop of its own, so it cannot await tasks of the kernel's loop, such as a task of an earlier
    cell.
    """
    try:
        outer = asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    task = asyncio.current_task(outer)
    asyncio.events._set_running_loop(None)
    if task is not None:
        asyncio.tasks._leave_task(outer, task)
    try:
        return asyncio.run(coroutine)
    finally:
        asyncio.events._set_running_loop(outer)
        if task is not None:
            asyncio.tasks._enter_task(outer, task)
