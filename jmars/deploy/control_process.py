"""ClusterProcess: a cluster in the hands of a client program: address, life and end of the cluster's processes.

A cluster that another program started is a plain ClusterProcess (`attached`). `ControlProcess` starts a control process
on this machine, in 20 ms: of workers here (`local`), of several hosts, or of hosts in the workers of an engine
(hosts_host.py). `ClusterThread` is a thread of this process: the head of a cluster on an engine (engine_head.py), or
the way to a cluster on another machine (far_host.py).

FaultIsolation: an unexpected exception in a control process ends the jobs that run, and not the process.

Reports and orders of a job are isolated where they are taken. All other faults reach the exception handler of the loop:
timers, messages without a job, messages of child processes. Such a fault may belong to any job, so all running jobs end
with an InternalError, and no client waits for ever. A process that fails again and again ends.
Source: docs/explanation/reliability.md, "Faults of jmars itself".

Waits for processes of a cluster that are no children of this process.

Environment of a process that computes: how freed memory is kept, and how many threads libraries may use.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jmars.actors import new_token
from jmars.actors.channel import received
from jmars.actors.registry import Entry
from jmars.deploy.folders import Folders, sweep
from jmars.deploy.memory import chosen_limit
from jmars.errors import ClusterStartError, MemoryLimitError, fault_of, text_of
from jmars.model.versions import refuse_other_versions

log = logging.getLogger("jmars.host")

START_SECONDS = 30.0
END_SECONDS = 5.0
MOST_FAULTS, FAULT_SECONDS = 20, 60.0  # faults in so many seconds after which the process ends
THREAD_SECONDS = 30.0  # for an engine to free our results, or a connection to end


class ClusterProcess:
    """A running cluster; the class itself stands for a cluster of another program, which outlives this process.

    Attributes
    ----------
    token
        The cluster's secret.
    socket
        Where the cluster listens.
    arena
        Descriptor of the shared memory, ours to close; -1 for none.
    limit, pid, janitor
        Bytes of memory, and process ids, as reported by the cluster; 0 before.
    detached
        Whether the cluster outlives this process.
    far
        Whether the cluster is on another machine, whose process ids mean nothing here.
    words
        Last output of an ended cluster; "" for a cluster of another program.
    """

    far = False
    words = ""

    def __init__(self, id: str, name: str, token: str, socket: Path, detached: bool = True) -> None:
        self.id, self.name, self.token, self.socket, self.detached = id, name, token, socket, detached
        self.arena = -1
        self.limit = self.pid = self.janitor = 0

    def is_alive(self) -> bool:
        """Whether another attempt to connect may succeed."""
        return False

    def hang_up(self) -> None:
        """Let go of the cluster, which runs on."""
        if self.arena >= 0:
            os.close(self.arena)
            self.arena = -1

    def close(self) -> None:
        """Wait until all processes of a cluster that was told to end have ended."""
        try:
            if self.pid:
                end_control(self.pid, self.janitor, END_SECONDS)
        finally:
            self.hang_up()


def attached(entry: Entry) -> ClusterProcess:
    """A cluster that the registry names; its shared memory comes over the authenticated socket.

    Raises
    ------
    ClusterLostError
        If it does not answer, or has other versions of jmars, NumPy or Python than this process.
    AuthenticationError
        If it has another token than its registry file says.
    """
    refuse_other_versions(f"the cluster {entry.id}", entry.versions)
    found = ClusterProcess(entry.id, entry.name, entry.token, Path(entry.socket))
    found.far = entry.far
    if not entry.engine:
        found.arena = received(entry.socket, entry.token, "host", "descriptor")
    return found


class ControlProcess(ClusterProcess):
    """A cluster whose control process on this machine is started here.

    Parameters
    ----------
    command
        Words of `python -m jmars`.
    kind
        Begins the name of a cluster without one.
    orders
        For the process, beside what all control processes are told.
    threads
        That libraries in the process may use.
    memory_limit, shares_memory
        Of the cluster, as of `Cluster`, where the processes share memory with this one.
    seconds
        For its first word.
    meanwhile
        Called while the process starts.
    ended
        Called once when the cluster has ended, or did not come up.
    """

    def __init__(
        self,
        command: Sequence[str],
        kind: str,
        orders: dict[str, Any],
        name: str = "",
        *,
        threads: int = 1,
        shares_memory: bool = False,
        memory_limit: str | int | None = None,
        spill_dir: str | None = None,
        detached: bool = False,
        seconds: float = START_SECONDS,
        meanwhile: Callable[[], None] | None = None,
        ended: Callable[[], None] | None = None,
    ) -> None:
        with contextlib.ExitStack() as undo:
            if ended is not None:
                undo.callback(ended)
            if sys.platform != "linux":
                raise ClusterStartError(
                    f"clusters run on Linux only so far, and this is {sys.platform}: they need memfd, pidfd and /proc; "
                    'use the cluster of a Linux machine: jmars.connect("ssh://user@machine/name")'
                )
            sweep()
            number = secrets.token_hex(4)
            self.folders = Folders.make(number, spill_dir)
            undo.callback(self.folders.remove)
            super().__init__(number, name or f"{kind}-{number}", new_token(), self.folders.socket, detached)
            self._log = -1
            undo.callback(self.hang_up)
            if shares_memory:
                self.limit = chosen_limit(memory_limit)
                self.arena = os.memfd_create(f"jmars-{number}", os.MFD_CLOEXEC)
                orders = {**orders, "limit": self.limit, "arena": self.arena}
            self._log = os.open(self.folders.log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._process = self._start(command, orders, threads, seconds, meanwhile)
            undo.pop_all()
        self._ended = ended

    def _start(
        self,
        command: Sequence[str],
        orders: dict[str, Any],
        threads: int,
        seconds: float,
        meanwhile: Callable[[], None] | None,
    ) -> subprocess.Popen[bytes]:
        orders = {
            "id": self.id,
            "name": self.name,
            "token": self.token,
            "kernel": 0 if self.detached else os.getpid(),
            "detach": self.detached,
            "path": sys.path,
            "folders": {"registry": self.folders.registry, "folder": self.folders.folder, "spill": self.folders.spill},
            **orders,
        }
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jmars", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            pass_fds=[self.arena] if self.arena >= 0 else [],
            start_new_session=True,
            env=process_environment(threads) | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(orders).encode() + b"\n")
            process.stdin.flush()
            if meanwhile is not None:
                meanwhile()
            answer = json.loads(_first_line(process, seconds))
        except (OSError, ValueError) as error:
            _kill(process)
            raise ClusterStartError(
                f"the control process did not come up ({error}); its last words:\n{self.last_words()}"
            ) from error
        except BaseException:
            _kill(process)
            raise
        if "error" in answer:
            _kill(process)
            raise (MemoryLimitError if answer.get("kind") != "start" else ClusterStartError)(answer["error"])
        self.pid, self.janitor = answer["pid"], answer["janitor"]
        if self.detached:  # what we started has made the control process and ended; that one is nobody's child
            process.stdin.close()
            process.wait()
        return process

    def last_words(self) -> str:
        """The end of the cluster's log."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, 2000, max(0, size - 2000)).decode(errors="replace") or "(none)"

    def is_alive(self) -> bool:
        """Whether the control process runs."""
        return not ended_within(self.pid, 0) if self.detached else self._process.poll() is None

    def hang_up(self) -> None:
        """Close the descriptors of a detached cluster, which runs on."""
        super().hang_up()
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def close(self) -> None:
        """Wait until all processes of the cluster have ended, by force if need be, with their files and memory
        removed.
        """
        try:
            if self.detached:
                end_control(self.pid, self.janitor, END_SECONDS)
            else:
                self._end_child()
            self.words = self.last_words()
            self.folders.remove()
        finally:  # who is interrupted here has let go of the memory all the same
            self.hang_up()
            ended, self._ended = self._ended, None
            if ended is not None:
                ended()

    def _end_child(self) -> None:
        process = self._process
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()  # the kernel's end, to the control process
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            _kill(process)
        ended_within(self.janitor, END_SECONDS)  # it ends last, when the whole process group is gone


def take_orders() -> tuple[dict[str, Any], int, int]:
    """Be a control process: the orders of `ControlProcess`, and descriptors of the client's end and for the answer.

    What users print goes to the log from now on. A detached process outlives the client that started it.
    """
    orders: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    kernel_end, answer = os.dup(0), os.dup(1)  # nobody else reads the first or writes the second
    if orders["detach"] and os.fork():
        os._exit(0)  # the client waits for this process, and is no parent of the child, which stays
    if orders["detach"]:
        os.setsid()
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.path[:] = orders["path"]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    return orders, kernel_end, answer


class FaultIsolation:
    """Acts on contexts of `loop.call_exception_handler`.

    Parameters
    ----------
    break_jobs
        Ends the running jobs for a reason.
    give_up
        Ends the process for a reason.
    """

    def __init__(self, break_jobs: Callable[[str], None], give_up: Callable[[str], None]) -> None:
        self._break_jobs, self._give_up = break_jobs, give_up
        self._times: deque[float] = deque(maxlen=MOST_FAULTS)

    def handle(self, context: dict[str, Any]) -> None:
        """Log a fault and end the running jobs."""
        error = context.get("exception")
        log.error("%s", context["message"], exc_info=error)
        if error is None or context["message"].startswith("socket.accept"):
            return  # out of files: the loop accepts again in a second
        what, now = fault_of(error), time.monotonic()
        self._times.append(now)
        if len(self._times) == MOST_FAULTS and now - self._times[0] < FAULT_SECONDS:
            self._give_up(f"its control process failed {MOST_FAULTS} times, last with {what}; please report that")
            return
        try:
            self._break_jobs(what)
        except Exception as second:
            log.exception("the running jobs could not be ended")
            self._give_up(f"its control process failed with {what}, and then {fault_of(second)}; please report that")


def _first_line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    assert process.stdout is not None
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    if not poll.poll(seconds * 1000):
        raise TimeoutError(f"no word for {seconds:.0f} s")
    line = process.stdout.readline()
    process.stdout.close()
    return line


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def local(
    workers: int,
    threads: int,
    memory_limit: str | int | None,
    spill_dir: str | None,
    name: str,
    detached: bool = False,
    lease: float = math.inf,
    meanwhile: Callable[[], None] | None = None,
    schedulers: int = 0,
    gpus: Sequence[str] = (),
) -> ControlProcess:
    """Start a cluster on this machine, which shares memory with this process.

    Parameters
    ----------
    lease
        Seconds that a detached cluster lives on when nobody uses it.
    schedulers
        Processes that schedule; 0: the control process does.
    gpus
        Names of the GPUs to use (`devices.find`).
    meanwhile
        Called while the process starts.
    """
    orders: dict[str, Any] = {"workers": workers, "threads": threads, "lease": lease, "schedulers": schedulers}
    if gpus:
        orders["gpus"] = list(gpus)
    return ControlProcess(
        ("host",),
        "local",
        orders,
        name,
        threads=threads,
        shares_memory=True,
        memory_limit=memory_limit,
        spill_dir=spill_dir,
        detached=detached,
        meanwhile=meanwhile,
    )


class ClusterThread(ClusterProcess):
    """A cluster with a head, or a connection to the head, in a thread of this process; the thread has an event loop.

    Parameters
    ----------
    kind
        Ends the thread's name.
    name
        What lists of clusters show; "" for one of its id.
    token
        The cluster's secret; "" where the thread learns it.
    """

    def __init__(self, kind: str, name: str, token: str) -> None:
        sweep()
        number = secrets.token_hex(4)
        self.folders = Folders.make(number, None)
        super().__init__(number, name or f"{kind}-{number}", token, self.folders.socket)
        self._lock = self.folders.lock()  # others see by it that the cluster lives
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"jmars-{kind}", daemon=True)

    def _begin(self, seconds: float | None, late: str = "") -> None:
        """Start the thread and wait until it listens; raises the thread's error, ClusterStartError after `seconds`."""
        self._thread.start()
        try:
            if not self._listening.wait(seconds):
                raise ClusterStartError(late)
            if self._error is not None:
                raise self._error
        except BaseException:
            self.hang_up()
            raise

    @abstractmethod
    async def _serve(self) -> None:
        """Serve in the thread; sets `_listening`."""

    def _stop(self) -> None:
        """Have `_serve` end; called in its loop."""
        assert self._task is not None
        self._task.cancel()

    def _failure(self, error: BaseException) -> Exception:
        """The error of a start that failed."""
        return error if isinstance(error, Exception) else ClusterStartError(f"{type(error).__name__} ended it")

    def _run(self) -> None:
        try:
            asyncio.run(self._run_loop())
        except BaseException as error:
            log.debug("the thread of %s ended", self.name, exc_info=error)
            if not isinstance(error, asyncio.CancelledError):
                self.words = f"{type(error).__name__}: {text_of(error)}"
            if not self._listening.is_set():
                self._error = self._failure(error)
        finally:
            self.folders.remove()  # nobody finds it any more, whether or not its owner hears of the end
            self._listening.set()

    async def _run_loop(self) -> None:
        self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        await self._serve()

    def hang_up(self) -> None:
        """End the thread."""
        if self._loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # its loop has just closed
                self._loop.call_soon_threadsafe(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(THREAD_SECONDS)
        self.folders.remove()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def close(self) -> None:
        """End the cluster."""
        self.hang_up()


def ended_within(pid: int, seconds: float) -> bool:
    """Whether a process has ended, or does so within `seconds`."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(watch)


def end_control(pid: int, janitor: int, seconds: float) -> None:
    """Wait until the control process has ended, by force after `seconds`, and then the janitor, the last process.

    No effect without a janitor: then the head is a part of a program of the user's, which goes on.
    """
    if not janitor:
        return
    if not ended_within(pid, seconds):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    ended_within(janitor, seconds)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by a signal or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b") ")[2][:1] in (b"T", b"t")
    except (FileNotFoundError, ProcessLookupError):
        return False


# Freed memory stays with the process instead of being faulted anew for every temporary: 2 to 7 times faster.
_MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_TOP_PAD_": str(16 * 2**20),
    "MALLOC_ARENA_MAX": "1",
}
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS")


def process_settings(threads: int) -> dict[str, str]:
    """Variables that a process which computes has beside those of its user."""
    return {**_MALLOC, **dict.fromkeys(_THREADS, str(threads))}


def process_environment(threads: int) -> dict[str, str]:
    """Environment of a process whose libraries may use so many threads."""
    return {**os.environ, **process_settings(threads)}
