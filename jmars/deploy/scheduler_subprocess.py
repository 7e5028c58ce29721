"""SchedulerSubprocess: starts a scheduler in a separate process, watches it, and starts the next after a death.

Clients stay connected to the host; the host relays their calls, and sends calls without an answer at a scheduler's
death to the next. The workers go on meanwhile. A suspended scheduler is waited for, and ended after some seconds.
Source: docs/decisions/0027-scheduler-apart.md.

ShardHolders: the scheduler processes of a cluster that hold shards of jobs, beside the scheduler that leads.

Each is `python -m jmars scheduler` with a socket in the cluster's private folder. One that ends is started again; until
then the leader has its shards (scheduler/shards.py). All end with the standard input that the host holds.
Source: docs/decisions/0050-schedulers-by-replay.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from jmars.actors import ActorChannel, Mailbox, TurnBatch, UnixGreeting, actor_proxy, new_token, remote_method
from jmars.deploy.control_process import ended_within, is_stopped
from jmars.errors import ClusterLostError
from jmars.model import events
from jmars.model.messages import JobClosed, Report, WorkerMoved
from jmars.scheduler import Machine, SessionActor, TaskManagerActor, WhyActor
from jmars.worker import ExecutionActor
from jmars.worker.remote_scheduler import Orders, RecoverySnapshot, RemoteScheduler

if TYPE_CHECKING:
    from jmars.scheduler.hosts import Hosts

log = logging.getLogger("jmars.host")

RESTARTS, WITHIN = 5, 60.0  # so many ends of a scheduler in so many seconds are one too many
PAUSE_SECONDS, PAUSE_FACTOR = 0.1, 4.0  # before the third one, and how much longer before each later one
PING_SECONDS = 1.0
FENCE_SECONDS = 10.0  # for which a scheduler may stand still, stopped by a signal, before it is ended
MACHINE_SECONDS = 2.0  # between two tellings of what operands cost here


class SchedulerSubprocess:
    """A scheduler in a separate process, with the attributes and methods of `InProcessScheduler`.

    Parameters
    ----------
    orders
        Of the host: limit, workers, path, schedulers.
    journal
        Path of the file that a next scheduler reads.
    workers
        Workers of this host, or of all hosts of the cluster.
    besides
        Gives (first, count) of the chunks that clients are bringing.
    resumed
        Called when a scheduler is up, which has heard of no event yet.
    hopeless
        Called with the reason when schedulers die one after the other.
    """

    def __init__(
        self,
        orders: dict[str, Any],
        journal: str,
        workers: ExecutionActor | Hosts,
        plan_bytes: int,
        job_ended: Callable[[dict[str, Any]], None],
        machine: Callable[[], Machine],
        read_chunk: Callable[[int, int], Awaitable[bytes]],
        besides: Callable[[], list[tuple[int, int]]],
        hopeless: Callable[[str], None],
        resumed: Callable[[], None] = lambda: None,
    ) -> None:
        self._orders = {
            "limit": orders["limit"],
            "workers": orders["workers"],
            "path": orders["path"],
            "journal": journal,
            "plan_bytes": plan_bytes,
        }
        self._holders: ShardHolders | None = None
        if orders["schedulers"] > 1:
            folder = os.path.dirname(journal)
            self._holders = ShardHolders(orders["schedulers"] - 1, folder, orders["path"], self._holder_moved)
            self._orders["holders"] = self._holders.orders
        self._job_ended, self._machine, self._besides, self._hopeless = job_ended, machine, besides, hopeless
        self._resumed, self._read_chunk = resumed, read_chunk
        self._printed: Callable[[dict[str, Any]], None] = lambda told: None
        self.submitted = asyncio.Event()
        self.session = actor_proxy(SessionActor, "session", self._ask_session, self._tell)
        self.tasks = actor_proxy(TaskManagerActor, "tasks", self.ask, self._tell)
        self.reasons = actor_proxy(WhyActor, "why", self.ask, self._tell)
        self._workers = workers
        self._known = RecoverySnapshot(workers.held)
        self._reports = RemoteScheduler(self._report, self._known)
        workers.connect(self._reports)
        self._mailbox = Mailbox()
        self._orders_taken = Orders(workers, self._reports, self._known)
        self._mailbox.add("workers", self._orders_taken)
        self._mailbox.add("host", self)
        self.break_jobs = self._orders_taken.break_jobs
        self._process: subprocess.Popen[bytes] | None = None
        self._hearing: ActorChannel | None = None  # takes reports
        self._channel: ActorChannel | None = None  # takes all
        self._up = asyncio.Event()
        self._ends: deque[float] = deque(maxlen=RESTARTS)
        self._incarnation = 0
        self._told_machine = 0.0
        self._batch: TurnBatch[Report]  # of reports to the scheduler that hears
        self._machine_changed = False
        self._running: set[str] = set()  # jobs that have not ended
        self._over: deque[str] = deque(maxlen=100)  # that have
        self._submitting = 0
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    # -- for the host
    def start(self) -> None:
        """Start the process."""
        if self._holders is not None:
            self._holders.start()
        self._task = asyncio.ensure_future(self._live())

    def _holder_moved(self, name: str, pid: int, state: str) -> None:
        self.note(events.SCHEDULER_MOVED, "", {"state": state, "pid": pid, "name": name})

    def close(self) -> None:
        """End the process."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._holders is not None:
            self._holders.close()

    @property
    def pid(self) -> int:
        """The process that schedules, 0 between two."""
        return self._process.pid if self._process is not None else 0

    @property
    def pids(self) -> dict[str, int]:
        """The scheduler's own processes."""
        return ({"scheduler": self.pid} if self.pid else {}) | (self._holders.pids if self._holders is not None else {})

    @property
    def state(self) -> str:
        """For `Cluster.info`."""
        return "running" if self._up.is_set() else "starting"

    @property
    def active(self) -> bool:
        """Whether a job has not ended."""
        return bool(self._running or self._submitting)

    def note(self, kind: str, job: str, data: dict[str, Any]) -> None:
        """Log an event of the host."""
        if self._hearing is not None:
            if kind in (events.HOST_MOVED, events.LINK_MEASURED):
                self._tell_machine()
            self._hearing.tell("scheduler", "note", kind, job, data)

    async def plans(self) -> dict[str, int]:
        """Counts of kept structures, and how often they served."""
        return dict(await self.ask("scheduler", "plans"))

    async def ask(self, actor: str, method: str, *args: Any) -> Any:
        """Answer of the scheduler, or of the next if the scheduler dies before; in the order of the calls.

        Raises
        ------
        ClusterLostError
            If there will be none.
        """
        while True:
            while not self._up.is_set():  # a scheduler may end before those who waited for it go on
                await self._up.wait()
            if self._closed or self._channel is None:
                raise ClusterLostError("the scheduler ended again and again; start a new cluster")
            channel = self._channel
            try:
                return await channel.ask(actor, method, *args)
            except ClusterLostError:
                if not channel.closed:
                    raise  # the scheduler's own answer
                await asyncio.sleep(0)  # its end is acted on first

    async def _ask_session(self, actor: str, method: str, *args: Any) -> Any:
        """`ask`; from the submission of a job to the job's end the cluster is in use."""
        if method != "submit":
            return await self.ask(actor, method, *args)
        self._submitting += 1
        self.submitted.set()
        try:
            job: str = await self.ask(actor, method, *args)
        finally:
            self._submitting -= 1
        if job and job not in self._over:
            self._running.add(job)
        return job

    def _tell(self, actor: str, method: str, *args: Any) -> None:
        """`ask`, for calls whose answer is not needed."""
        asyncio.ensure_future(self.ask(actor, method, *args)).add_done_callback(_heard)

    # -- for the scheduler
    @remote_method
    def job_ended(self, report: dict[str, Any]) -> None:
        """A job has ended; told twice perhaps, by two schedulers."""
        self._running.discard(report["job"])
        if report["job"] not in self._over:
            self._over.append(report["job"])
            self._job_ended(report)

    @remote_method
    def printed(self, told: dict[str, Any]) -> None:
        """Functions of a job printed lines."""
        self._printed(told)

    def tell_printed(self, tell: Callable[[dict[str, Any]], None]) -> None:
        """Call `tell` with lines that functions print."""
        self._printed = tell

    @remote_method
    def read_chunk(self, chunk: int, size: int) -> Awaitable[bytes]:
        """The first bytes of a chunk, for decisions by value."""
        return self._read_chunk(chunk, size)

    # -- the life of the process
    async def _live(self) -> None:
        while not self._closed:
            gone = asyncio.Event()
            watching: asyncio.Task[None] | None = None
            try:
                self._process, channel = await self._started(gone)
                watching = asyncio.ensure_future(self._watch(channel))  # one may be stopped while it reads the journal
                await self._resume(channel)
                log.info("scheduler %d is up, process %d", self._incarnation, self.pid)
                await gone.wait()
            except Exception as error:  # whatever it is, another one is tried, and nobody waits for ever
                log.warning("the scheduler did not come up: %s: %s", type(error).__name__, error)
            finally:
                if watching is not None:
                    watching.cancel()
            await self._bury()
            self._ends.append(time.monotonic())
            if len(self._ends) == RESTARTS and self._ends[-1] - self._ends[0] < WITHIN:
                self._closed = True
                self._up.set()
                self._hopeless(f"its scheduler ended {RESTARTS} times within {WITHIN:g} s")
                return
            recent = sum(self._ends[-1] - end < WITHIN for end in self._ends)
            if recent > 1:  # a full disk, or no descriptors: that may pass
                await asyncio.sleep(PAUSE_SECONDS * PAUSE_FACTOR ** (recent - 2))

    async def _started(self, gone: asyncio.Event) -> tuple[subprocess.Popen[bytes], ActorChannel]:
        self._incarnation += 1
        token = new_token()
        ours, theirs = socket.socketpair()
        with theirs:
            orders = {**self._orders, "incarnation": self._incarnation, "socket": theirs.fileno(), "token": token}
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "jmars", "scheduler"],
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONHASHSEED": "0"},  # what is compiled again is the same, sets and all
            )
        self._process = process
        assert process.stdin is not None
        process.stdin.write(json.dumps(orders).encode() + b"\n")
        process.stdin.close()
        ours.setblocking(False)
        greeting = UnixGreeting(token, server=False)
        _, channel = await asyncio.get_running_loop().create_unix_connection(
            lambda: ActorChannel(self._mailbox, greeting, lambda _: self._lost(gone)), sock=ours
        )
        await channel.ready
        return process, channel

    async def _resume(self, channel: ActorChannel) -> None:
        """Send the new scheduler the recovery snapshot of this host; later reports go to the new scheduler."""
        self._batch = TurnBatch(partial(self._send_reports, channel))  # what waits is in the announcement
        self._hearing = channel  # with no turn of the loop between: what is reported now is not in the announcement
        channel.tell("scheduler", "workers", *self._workers.standing())  # before any event tells of workers
        self._tell_machine()
        asked = asyncio.ensure_future(channel.ask("scheduler", "resume", self._known.as_data(self._besides())))
        for report in await asked:
            self.job_ended(report)
        self._channel = channel
        self._up.set()
        self._resumed()

    def _lost(self, gone: asyncio.Event) -> None:
        self._hearing = self._channel = None
        self._up.clear()
        gone.set()

    async def _bury(self) -> None:
        """Wait for the end of the process; end a process that only hung up."""
        self._hearing = self._channel = None
        self._up.clear()
        process = self._process
        if process is not None:
            process.kill()
            await asyncio.to_thread(ended_within, process.pid, 5.0)
            log.warning("scheduler %d has ended: %s", self._incarnation, process.poll())
            self._process = None

    async def _watch(self, channel: ActorChannel) -> None:
        """End a scheduler that stays suspended; a busy scheduler is waited for."""
        heard = time.monotonic()
        while not channel.closed:
            await asyncio.sleep(PING_SECONDS)
            asked = asyncio.ensure_future(channel.ask("scheduler", "ping"))
            asked.add_done_callback(_heard)  # when the watch is called off nobody else asks how it ended
            while not asked.done():
                await asyncio.wait([asked], timeout=PING_SECONDS)
                if not asked.done() and time.monotonic() - heard > FENCE_SECONDS and is_stopped(self.pid):
                    log.warning("the scheduler has been stopped for %g s: it is ended and started again", FENCE_SECONDS)
                    os.kill(self.pid, signal.SIGKILL)
            if asked.cancelled() or asked.exception() is not None:
                return
            heard = time.monotonic()

    # -- to the process
    def _report(self, report: Report) -> None:
        if self._hearing is None:
            return
        is_late = time.monotonic() - self._told_machine > MACHINE_SECONDS
        self._machine_changed |= isinstance(report, WorkerMoved) or (isinstance(report, JobClosed) and is_late)
        self._batch.add([report])

    def _send_reports(self, hearing: ActorChannel, reports: list[Report]) -> None:
        if self._hearing is hearing:  # else they are part of what the next one is told
            if self._machine_changed:
                self._tell_machine()
            hearing.tell("reports", "take", reports)

    def _tell_machine(self) -> None:
        self._told_machine, self._machine_changed = time.monotonic(), False
        if self._hearing is not None:
            self._hearing.tell("scheduler", "machine", *machine_as_data(self._machine()))


def machine_as_data(machine: Machine) -> tuple[Any, ...]:
    """Arguments of `SchedulerProcess.machine`."""
    hosts = machine.rows, list(machine.numbers), list(machine.row_of_worker)
    told = machine.profile.as_data(), machine.memory, machine.fresh, list(machine.gpus)
    return *told, b"" if machine.rows is None else pickle.dumps(hosts)


def _heard(asked: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a call whose channel ended."""
    if not asked.cancelled():
        asked.exception()


EXIT_LOOK_SECONDS = 0.2  # between two looks whether a process has ended
HOLDER_PAUSE_SECONDS = 1.0  # before one is started again


class ShardHolders:
    """Processes that hold shards.

    Parameters
    ----------
    count
        How many; their names are scheduler-1 and so on.
    folder
        Private folder of the cluster, for the sockets.
    path
        `sys.path` of the processes.
    moved
        Called with name, process id and state ("running", "lost") of a process.
    """

    def __init__(self, count: int, folder: str, path: list[str], moved: Callable[[str, int, str], None]) -> None:
        self._path, self._moved = path, moved
        self._key = secrets.token_hex(32)
        self._sockets = {f"scheduler-{number}": os.path.join(folder, f"s{number}") for number in range(1, count + 1)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._watching: asyncio.Task[None] | None = None

    @property
    def orders(self) -> dict[str, Any]:
        """What a leader needs to reach the processes."""
        return {"key": self._key, "sockets": self._sockets}

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of those that live, by name."""
        return {name: process.pid for name, process in self._processes.items() if process.poll() is None}

    def start(self) -> None:
        """Start the processes."""
        for name in self._sockets:
            self._start(name)
        self._watching = asyncio.ensure_future(self._watch())

    def close(self) -> None:
        """End the processes."""
        if self._watching is not None:
            self._watching.cancel()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def _start(self, name: str) -> None:
        process = subprocess.Popen([sys.executable, "-P", "-m", "jmars", "scheduler"], stdin=subprocess.PIPE)
        assert process.stdin is not None
        orders = {"holds": self._sockets[name], "key": self._key, "path": self._path}
        process.stdin.write(json.dumps(orders).encode() + b"\n")
        process.stdin.flush()  # and open as long as this process lives
        self._processes[name] = process

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EXIT_LOOK_SECONDS)
            for name, process in list(self._processes.items()):
                if process.poll() is None:
                    continue
                log.warning("%s, process %d, has ended: %s", name, process.pid, process.returncode)
                assert process.stdin is not None
                process.stdin.close()
                self._moved(name, process.pid, "lost")
                await asyncio.sleep(HOLDER_PAUSE_SECONDS)
                self._start(name)
                self._moved(name, self._processes[name].pid, "restarted")
