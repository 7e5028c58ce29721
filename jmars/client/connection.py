"""Connection: a channel to a cluster, for use from any thread.

All clusters of a process share one daemon thread with an event loop apart from the kernel's.

Warns while a caller waits for a control process that does not answer; the caller goes on waiting.

The process may be suspended (SIGSTOP, a debugger, a frozen container) or starved, and then goes on later. A call to a
suspended peer would otherwise hang without a word.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

from jmars.actors import ActorChannel, Mailbox, connect
from jmars.deploy.control_process import ClusterProcess, ended_within, is_stopped
from jmars.errors import ClusterClosedError, ClusterError, ClusterLostError
from jmars.model.collector import free_in_child
from jmars.units import format_seconds

_loops: dict[int, tuple[asyncio.AbstractEventLoop, int]] = {}  # process: its loop and how many use it
_lock = free_in_child(threading.Lock())


def _acquire_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process's jmars thread, started on first use."""
    with _lock:
        loop, users = _loops.get(os.getpid(), (None, 0))
        if loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(loop,), name="jmars", daemon=True).start()
        _loops[os.getpid()] = loop, users + 1
        return loop


def _release_loop() -> None:
    """The last user stops the thread."""
    with _lock:
        loop, users = _loops[os.getpid()]
        if users > 1:
            _loops[os.getpid()] = loop, users - 1
            return
        del _loops[os.getpid()]
    loop.call_soon_threadsafe(loop.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_end_tasks())
    finally:
        loop.close()


async def _end_tasks() -> None:
    """Cancel all tasks, so that no thread waits for an answer for ever."""
    for _ in range(3):  # what was scheduled before the end becomes a task, then ends, then tells its thread
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)


def refuse_forked(pid: int, cluster: str) -> None:
    """Raise ClusterClosedError unless this process, `pid`, made the connection to a cluster.

    Threads do not survive a fork, so a forked child would wait for answers for ever.
    """
    if os.getpid() != pid:
        raise ClusterClosedError(
            f"the connection to cluster {cluster} belongs to process {pid}, and this process was forked from that one; "
            f"connect anew here by jmars.connect({cluster!r}), or start a cluster with jmars.Cluster()"
        )


class Connection:
    """Calls to the actors of a cluster, from threads that may block."""

    def __init__(self, path: Path, token: str, mailbox: Mailbox, lost: Callable[[], None], cluster: str = "") -> None:
        self._loop = _acquire_loop()
        self._cluster = cluster
        self._pid = os.getpid()  # of the only process whose loop runs
        self._closed = False
        self._beating: asyncio.Task[None] | None = None
        self._scheduling = threading.RLock()  # between the look at `_closed` and the call nobody closes
        self._batch: tuple[str, str, list[Any]] | None = None  # items of the newest message, while it is not sent
        try:
            self._channel: ActorChannel = self._await(connect(path, token, mailbox, lambda _: lost()))
        except BaseException:
            _release_loop()
            raise

    def watch(self, name: str, pid: int, busy: Callable[[], bool]) -> None:
        """Warn when the cluster does not answer while a call waits: `beat`."""

        def begin() -> None:
            self._beating = asyncio.ensure_future(beat(self._channel, name, pid, busy))

        self._loop.call_soon_threadsafe(begin)

    def ask(self, actor: str, method: str, *args: Any, timeout: float | None = None) -> Any:
        """The value that `actor.method(*args)` returns on the cluster.

        Raises
        ------
        ClusterLostError
            If the cluster is gone, or does not answer within `timeout` seconds.
        """
        return self._await(self._channel.ask(actor, method, *args), timeout)

    def ask_each(self, calls: Iterable[tuple[int, tuple[Any, ...]]], most: int) -> Iterator[Any]:
        """Answers to several calls, in their order; calls are begun before earlier ones are answered.

        Parameters
        ----------
        calls
            (Bytes that the call moves, (actor, method, *args)), taken as there is room.
        most
            Bytes of calls that are under way, but at least a single call is.
        """
        under_way: deque[tuple[int, Future[Any]]] = deque()
        moving = 0
        try:
            for size, call in calls:
                while under_way and moving + size > most:
                    done, future = under_way.popleft()
                    moving -= done
                    yield self._result(future, None)
                under_way.append((size, self._begin(self._channel.ask(*call))))
                moving += size
            while under_way:
                yield self._result(under_way.popleft()[1], None)
        finally:
            for _, future in under_way:
                future.cancel()

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call without waiting; from any thread, a finalizer too. No effect in a forked child."""
        if os.getpid() != self._pid:  # a thread that the child lacks may have held the lock
            return
        with self._scheduling:
            self._batch = None
            if self._closed:
                return
            try:
                self._loop.call_soon_threadsafe(self._channel.tell, actor, method, *args)
            except RuntimeError:
                pass  # the loop is closed: the cluster is gone, and with it what this was about

    def tell_together(self, actor: str, method: str, item: Any) -> None:
        """Call `actor.method(items)` without waiting: items that are told one after the other travel in one message.

        From any thread, a finalizer too. An item goes after all that was told before it and all that was answered
        before it, and before all that is told or asked after it. No effect in a forked child.
        """
        if os.getpid() != self._pid:
            return
        with self._scheduling:
            batch = self._batch
            if batch is not None and batch[:2] == (actor, method):
                batch[2].append(item)
                return
            if self._closed:
                return
            batch = self._batch = actor, method, [item]
            try:
                self._loop.call_soon_threadsafe(self._send_batch, batch)
            except RuntimeError:
                self._batch = None  # the loop is closed, as for `tell`

    def _send_batch(self, batch: tuple[str, str, list[Any]]) -> None:
        with self._scheduling:
            if self._batch is batch:
                self._batch = None
        self._channel.tell(*batch)

    def close(self) -> None:
        """Hang up."""
        with self._scheduling:
            if self._closed:
                return
            self._closed = True
        done = threading.Event()

        async def hang_up() -> None:
            if self._beating is not None:
                self._beating.cancel()
            self._channel.close()
            await asyncio.sleep(0)  # the transport closes its socket in the loop's next round
            await asyncio.sleep(0)
            done.set()

        asyncio.run_coroutine_threadsafe(hang_up(), self._loop)
        if not self._in_loop():  # a job's callback may close its cluster
            done.wait(5)
        _release_loop()

    def _await(self, call: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        return self._result(self._begin(call), timeout)

    def _begin(self, call: Coroutine[Any, Any, Any]) -> Future[Any]:
        if self._in_loop():
            call.close()
            raise ClusterError("a job's callback runs in the thread that brings answers; ask from another one")
        try:
            refuse_forked(self._pid, self._cluster)
        except ClusterClosedError:
            call.close()
            raise
        with self._scheduling:
            if self._closed:
                call.close()
                raise ClusterLostError("the cluster was closed; start a new one with jmars.Cluster()")
            return asyncio.run_coroutine_threadsafe(call, self._loop)

    def _result(self, future: Future[Any], timeout: float | None) -> Any:
        try:
            return future.result(timeout)
        except CancelledError as error:
            raise ClusterLostError("the cluster was closed before it answered; start a new one") from error
        except TimeoutError as error:
            if not future.done():
                future.cancel()
                raise ClusterLostError(
                    f"the cluster did not answer within {timeout} s; close it and start a new one"
                ) from error
            raise
        except BaseException:
            future.cancel()
            raise

    def _in_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:  # no loop runs in this thread
            return False


def patient_connection(host: ClusterProcess, mailbox: Mailbox, lost: Callable[[], None]) -> Connection:
    """Connect as soon as the control process listens."""
    while True:
        try:
            return Connection(host.socket, host.token, mailbox, lost, host.id)
        except ClusterLostError:
            if not host.is_alive():
                raise
            select.poll().poll(2)  # ms; it listens as soon as its children are forked


log = logging.getLogger("jmars.client")

BEAT = 1.0  # seconds between two questions
WHY_SECONDS = 2.0  # for an answer to why nothing moves: what does not answer is the reason
SILENT = 3.0  # seconds without an answer after which the first word is said; each next one after twice as long


class Silence:
    """Decides when and what to report of a control process that does not answer.

    Examples
    --------
    >>> silence = Silence("mine", 17)
    >>> silence.waited(2.0, stopped=True)
    ''
    >>> silence.waited(3.0, stopped=True)
    'the control process of mine (process 17) is stopped, for 3.00 s now; it goes on after `kill -CONT 17`'
    >>> silence.waited(4.0, stopped=True), silence.over(5.0)
    ('', 'mine answers again after 5.00 s')
    """

    def __init__(self, name: str, pid: int) -> None:
        self._name, self._pid = name, pid
        self._next = SILENT

    def waited(self, seconds: float, stopped: bool) -> str:
        """Text after so many seconds of waiting; "" where it is not time to speak."""
        if seconds < self._next:
            return ""
        self._next *= 2
        return unanswered(self._name, self._pid, seconds, stopped)

    def over(self, seconds: float) -> str:
        """Text after the answer; "" where nothing was said before."""
        said, self._next = self._next > SILENT, SILENT
        return f"{self._name} answers again after {format_seconds(seconds)}" if said else ""


def unanswered(name: str, pid: int, seconds: float, stopped: bool) -> str:
    """Text: a control process has not answered for so long, and what the user can do; `pid` is 0 on another machine."""
    if not pid:
        return (
            f"the control process of {name} has not answered for {format_seconds(seconds)}; that machine or the "
            "network may be busy"
        )
    who = f"the control process of {name} (process {pid})"
    if stopped:
        return f"{who} is stopped, for {format_seconds(seconds)} now; it goes on after `kill -CONT {pid}`"
    return f"{who} has not answered for {format_seconds(seconds)}; the machine may be busy, or the process frozen"


def reason(ask: Callable[..., Any], name: str, pid: int, *question: Any) -> str:
    """The cluster's answer to a question why; without an answer in time, a text about the silent control process.

    Raises
    ------
    ClusterLostError
        If the control process is gone.
    """
    began = time.monotonic()
    try:
        found = ask("why", *question, timeout=WHY_SECONDS)
    except ClusterLostError:
        waited = time.monotonic() - began
        if waited < WHY_SECONDS or (pid and ended_within(pid, 0)):
            raise
        return unanswered(name, pid, waited, is_stopped(pid))
    return str(found["text"] if isinstance(found, dict) else found)


async def beat(channel: ActorChannel, name: str, pid: int, busy: Callable[[], bool]) -> None:
    """Ping the control process each second in which a caller waits, until the connection ends.

    Parameters
    ----------
    channel
        To the cluster.
    name, pid
        What the cluster is called, and its control process.
    busy
        Whether somebody waits.
    """
    loop, silence = asyncio.get_running_loop(), Silence(name, pid)
    while not channel.closed:
        await asyncio.sleep(BEAT)
        if not (busy() or channel.waiting):
            continue
        began = loop.time()
        asked = asyncio.ensure_future(channel.ask("host", "ping"))
        try:
            while not (await asyncio.wait([asked], timeout=BEAT))[0]:
                text = silence.waited(loop.time() - began, is_stopped(pid))
                if text:
                    log.warning("%s", text)
            asked.result()
        except ClusterLostError:
            return  # told otherwise
        finally:
            asked.cancel()
        text = silence.over(loop.time() - began)
        if text:
            log.warning("%s", text)
