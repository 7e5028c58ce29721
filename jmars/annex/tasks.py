"""Task graphs read from a file: functions, their inputs from other tasks, and their costs.

Runs the tasks of a document as a single graph of spawned functions, and partitions them.

Source: docs/explanation/seeds.md, "Graphs" and "Graph partitioning for scheduling".

Runs a partition with a process for each part. `_Manager`, in the client, has a helper fork the processes, connects
parts by sockets, gives a subgraph to each process, and gathers results. A part runs its tasks in topological order. A
thread for each providing part takes values in as they come, so no sender waits for a busy reader, and parts may wait
for each other. A value is a chunk, made and read as in executors. All processes end with the run, or with the client.

Source: docs/explanation/seeds.md, "Basic design": a manager, a read for each providing and a send for each dependent
subgraph.

Parses and checks a document of tasks; an error names the task.

Source: docs/explanation/seeds.md, "Graphs"; cascade's `TaskDefinition` (entry point or pickled function, environment,
schemas, GPU).

Reads documents of tasks: JSON, YAML or a dict, from a file or text; a duplicate name is an error.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import os
import pickle
import platform
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jmars.actors.frames import pack, recv_message
from jmars.client.session import execute, plan_of
from jmars.deploy.control_process import process_environment
from jmars.deploy.memory import usable_cores
from jmars.errors import GraphError, UnsupportedError, WorkerLostError
from jmars.graph import Dag
from jmars.kernels import Pieces
from jmars.kernels.float_errors import describe
from jmars.plan import ANY, CPU, GPU, UNLIMITED, Part, PlanGraph, Workers, as_labels, depth_first, merge
from jmars.processes.zygote import Zygote, serve_forks
from jmars.tensor.operand import SourceLine, source_line
from jmars.tensor.spawn import Spawn, Spawned, call_spawned, spawn
from jmars.units import parse_bytes

if TYPE_CHECKING:
    from jmars.client.plans import PlannedRun

PARTITIONS: dict[str, Callable[..., list[Part]]] = {"merge": merge, "depth-first": depth_first}
DEFAULT_COST = 1.0  # seconds of a task without a cost
Array = np.ndarray[Any, Any]


def load_tasks(
    source: Any, functions: Mapping[str, Callable[..., Any]] | None = None, *, parts: str | None = None
) -> TaskGraph:
    """Loads and checks the tasks of a document; imports modules that the document names, but runs no task.

    A document runs code: load only documents that you would run as a script.

    Parameters
    ----------
    source
        A path, a text (JSON, or YAML with PyYAML), a dict or a list.
    functions
        Functions that tasks may name, besides `module:function`.
    parts
        "processes": `execute` and `fetch` run a process of this machine for each part of a partition, without a
        cluster. None: they run on the cluster.

    Raises
    ------
    GraphError
        If a task is invalid; the message names the task. If `parts` has another value.

    Examples
    --------
    >>> tasks = load_tasks({"tasks": {
    ...     "split": {"function": "builtins:divmod", "args": [17, 5], "outputs": ["whole", "rest"]},
    ...     "power": {"function": "builtins:pow", "inputs": ["split.whole", "split.rest"]},
    ... }})
    >>> tasks.fetch()
    {'power': 9}
    """
    if parts not in (None, "processes"):
        raise GraphError(f"parts is {parts!r}; give 'processes', or leave it out to run tasks on the cluster")
    return TaskGraph(parse_tasks(read_document(source), functions or {}), source_line(), parts is not None)


class TaskGraph(Mapping[str, Spawned]):
    """Tasks by name, as spawned functions; any of them can be fetched or given to other functions.

    Attributes
    ----------
    part_runs
        Parts of the present or last run by processes, in order.
    """

    def __init__(self, tasks: list[Task], line: SourceLine | None = None, by_processes: bool = False) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.part_runs: list[PartRun] = []
        self._by_processes = by_processes
        self._chunks: dict[str, Array] = {}  # values that processes computed
        self._handles: dict[str, Spawned] = {}
        for task in tasks:
            places: list[Any] = []
            named: dict[str, Any] = {}
            for place, read in task.inputs:
                handle = self._handles[read.task]
                value = handle if read.output is None else handle.output[_key(read.output)]
                if isinstance(place, int):
                    places.append(value)
                else:
                    named[place] = value
            twice = sorted(named.keys() & task.params.keys())
            if twice:
                raise GraphError(f"task {task.name!r} has {twice[0]!r} among its inputs and its params; keep one")
            self._handles[task.name] = spawn(
                task.function,
                (*places, *task.args),
                {**named, **task.params},
                outputs=task.outputs,
                name=task.name,
                cost=task.cost,
                memory=task.memory,
                environment=task.env,
                line=line,
            )

    @property
    def results(self) -> list[str]:
        """Tasks that no other task reads, in the order of the graph."""
        read = {one.task for task in self.tasks.values() for one in task.reads}
        return [name for name in self.tasks if name not in read]

    def execute(self, *names: str, **partition: Any) -> TaskGraph:
        """Runs the named tasks and their inputs as a single graph; without names, all results.

        Parameters
        ----------
        names
            Tasks.
        partition
            With `load_tasks(parts="processes")`: `workers`, `how`, `memory` and `quota` of `parts`; by default a worker
            for each usable core.

        Raises
        ------
        UnsupportedError
            If a task asks for a GPU, or processes run the parts and a large array is among a task's arguments.
        WorkerLostError
            If the process of a part ends before its tasks have; the message names the part and the task.
        """
        wanted = names or tuple(self.results)
        needed = self._needed(wanted)
        needs = [name for name in needed if self.tasks[name].device == "gpu"]
        if needs:
            raise UnsupportedError(f"task {needs[0]!r} asks for a GPU, and tasks run on cores; use device: any")
        if not self._by_processes and partition:
            raise GraphError(f"{next(iter(partition))} belongs to a partition; load the tasks with parts='processes'")
        if not self._by_processes:
            if wanted:
                execute(*(self[name] for name in wanted))
        elif not self._chunks.keys() >= set(wanted):
            labels = self.parts(**{"workers": usable_cores(), **partition})
            order = [name for name in self.tasks if name in needed]
            manager = _Manager({name: self[name] for name in order}, labels, frozenset(wanted))
            self.part_runs = manager.parts
            self._chunks.update(manager.run())
        return self

    def fetch(self, *names: str, **partition: Any) -> Any:
        """Fetches the value of a named task; of several tasks, or of all results, a dict by name; see `execute`."""
        self.execute(*names, **partition)
        found = {
            name: self[name].decode(self._chunks[name]) if self._by_processes else self[name].fetch()
            for name in names or self.results
        }
        return found[names[0]] if len(names) == 1 else found

    def report(self) -> str:
        """A table of parts, hosts and processes in the present or last run by processes.

        Raises
        ------
        GraphError
            If processes have run no part.
        """
        if not self.part_runs:
            raise GraphError("no part was run by a process; load the tasks with parts='processes', and fetch them")
        head = ("part", "host", "process", "state", "seconds", "reads from", "bytes", "sends to", "bytes", "tasks")
        rows = [head, *(part.row() for part in self.part_runs)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def plan(self, policy: str | None = None) -> PlannedRun:
        """Predicts the cost of computing all results on the default cluster, or on the cluster that would start."""
        return plan_of(*(self[name] for name in self.results), policy=policy)

    def plan_graph(self) -> PlanGraph:
        """Makes the planner's graph: costs in seconds, sizes in bytes, as the document gives them."""
        number = {name: k for k, name in enumerate(self.tasks)}
        edges = sorted({(number[r.task], number[task.name]) for task in self.tasks.values() for r in task.reads})
        dag = Dag.from_edges(len(number), [a for a, _ in edges], [b for _, b in edges])
        told = list(self.tasks.values())
        return PlanGraph.build(
            dag,
            [DEFAULT_COST if task.cost is None else task.cost for task in told],
            [task.size for task in told],
            work=[task.memory for task in told],
            result=np.isin(list(self.tasks), self.results),
            device=[{"any": ANY, "cpu": CPU, "gpu": GPU}[task.device] for task in told],
        )

    def parts(
        self,
        workers: int | Workers = 2,
        how: str = "merge",
        memory: int | str | None = None,
        quota: float | None = None,
    ) -> dict[str, int]:
        """Partitions the tasks; returns the tasks' parts, numbered in the order of opening.

        Parameters
        ----------
        workers
            Number of equal workers, or `jmars.plan.Workers`.
        how
            "merge" or "depth-first".
        memory
            Bytes of each worker; a part grows until its tasks' sizes fill them.
        quota
            Seconds of cost after which a part stops growing; None means an equal share for each worker.

        Raises
        ------
        GraphError
            If a task fits on no worker, or `how` has another value.

        Examples
        --------
        >>> tasks = load_tasks([{"task": "a", "function": "builtins:int", "size": 10},
        ...                     {"task": "b", "function": "builtins:abs", "inputs": ["a"], "size": 10}])
        >>> tasks.parts(2, quota=10.0)
        {'a': 0, 'b': 0}
        """
        if how not in PARTITIONS:
            raise GraphError(f"there is no partition {how!r}; choose one of {', '.join(PARTITIONS)}")
        if isinstance(workers, int):
            if workers < 1:
                raise GraphError(f"workers is {workers}; give a number from 1 on")
            workers = Workers.build(workers, memory=UNLIMITED if memory is None else parse_bytes(memory))
        graph = self.plan_graph()
        share = float(graph.cost.sum()) / max(len(workers), 1) if quota is None else quota
        found = PARTITIONS[how](graph, workers, quota=share)
        return dict(zip(self.tasks, as_labels(found, graph.dag.n).tolist(), strict=True))

    def _needed(self, names: tuple[str, ...]) -> list[str]:
        seen: dict[str, None] = {}
        stack = list(names)
        while stack:
            name = stack.pop()
            if name not in self.tasks:
                raise GraphError(f"there is no task {name!r}; there are {', '.join(self.tasks)}")
            if name not in seen:
                seen[name] = None
                stack += [read.task for read in self.tasks[name].reads]
        return list(seen)

    def __getitem__(self, name: str) -> Spawned:
        return self._handles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    def __repr__(self) -> str:
        return f"<TaskGraph of {len(self)} tasks: {', '.join(list(self)[:5])}{' …' if len(self) > 5 else ''}>"


def _key(output: str) -> int | str:
    return int(output) if output.isdecimal() else output


@dataclass
class PartRun:
    """A part that a process runs.

    Attributes
    ----------
    reads, sends
        Parts that give values to this part; parts that get values from this part.
    process
        The process; 0 before the start.
    state
        "starting", "running", "done", "failed", "lost" (the process ended early), or "stopped" (after a failure
        elsewhere or an interrupt).
    task
        The task that runs, or ran last.
    seconds
        Since the first task began, until the end of the last.
    received, sent
        Bytes of values from and to other parts.
    """

    part: int
    tasks: tuple[str, ...]
    reads: tuple[int, ...]
    sends: tuple[int, ...]
    host: str = field(default_factory=platform.node)
    process: int = 0
    state: str = "starting"
    task: str = ""
    seconds: float = 0.0
    received: int = 0
    sent: int = 0

    def row(self) -> tuple[str, ...]:
        """Texts of a row of `TaskGraph.report`."""
        state = (
            f"{self.state}: {self.task}" if self.state in ("running", "failed", "lost") and self.task else self.state
        )
        reads, sends = (", ".join(map(str, parts)) or "-" for parts in (self.reads, self.sends))
        numbers = f"{self.seconds:.3f}", reads, str(self.received), sends, str(self.sent)
        return str(self.part), self.host, str(self.process or "-"), state, *numbers, ", ".join(self.tasks)


class _Manager:
    """Starts a process for each part, connects the parts, gives out subgraphs, and gathers the wanted values."""

    def __init__(self, tasks: Mapping[str, Spawned], labels: Mapping[str, int], wanted: frozenset[str]) -> None:
        names = {handle.data: name for name, handle in tasks.items()}
        inputs: dict[str, list[str]] = {}
        for name, handle in tasks.items():
            strange = [data for data in handle.data.op.inputs if data not in names]
            if strange:
                raise UnsupportedError(
                    f"task {name!r} has a tensor or an array above 64 KiB among its arguments, and processes of parts "
                    "read values of tasks only; make it by a task"
                )
            inputs[name] = [names[data] for data in handle.data.op.inputs]
        links = {
            (labels[read], labels[name]) for name in tasks for read in inputs[name] if labels[read] != labels[name]
        }
        self._links = sorted(links)
        self._values: dict[str, Array] = {}
        self.parts: list[PartRun] = []
        self._subgraphs: dict[int, list[tuple[Any, ...]]] = {}
        for part in sorted({labels[name] for name in tasks}):
            members = tuple(name for name in tasks if labels[name] == part)
            reads, sends = tuple(a for a, b in self._links if b == part), tuple(b for a, b in self._links if a == part)
            self.parts.append(PartRun(part, members, reads, sends))
            self._subgraphs[part] = []
            for name in members:
                op = tasks[name].data.op
                assert isinstance(op, Spawn)
                readers = sorted({labels[other] for other in tasks if name in inputs[other]} - {part})
                call = (op.function, op.blob, op.objects, op.outputs, op.environment), op.call
                self._subgraphs[part].append((name, *call, tuple(inputs[name]), tuple(readers), name in wanted))

    def run(self) -> dict[str, Array]:
        """Runs all parts; returns the chunks of the wanted tasks."""
        try:
            with _Forks() as forks, ExitStack() as sockets:
                try:
                    controls = {part.part: sockets.enter_context(forks.fork(part)) for part in self.parts}
                    self._connect(controls)
                    self._watch(forks, controls)
                finally:
                    forks.kill()
        finally:
            for part in self.parts:
                part.state = "stopped" if part.state in ("starting", "running") else part.state
        return self._values

    def _connect(self, controls: Mapping[int, socket.socket]) -> None:
        """Gives out subgraphs and sockets between parts."""
        with ExitStack() as sockets:
            reads: dict[int, list[socket.socket]] = {part: [] for part in controls}
            sends: dict[int, list[socket.socket]] = {part: [] for part in controls}
            for source, reader in self._links:
                pair = socket.socketpair()
                for one, end in zip((sends[source], reads[reader]), pair, strict=True):
                    one.append(sockets.enter_context(end))
            for part in self.parts:
                control, ends = controls[part.part], [*reads[part.part], *sends[part.part]]
                with suppress(ConnectionError):  # the process ended; `_watch` hears of the end
                    control.sendall(pack((part.reads, part.sends, self._subgraphs[part.part])))
                    for end in ends:
                        socket.send_fds(control, [b"."], [end.fileno()])

    def _watch(self, forks: _Forks, controls: Mapping[int, socket.socket]) -> None:
        """Takes reports of the parts until all have ended.

        Raises
        ------
        WorkerLostError
            If a process ends early.
        Exception
            The error of a task.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(forks.link, selectors.EVENT_READ)
            for part in self.parts:
                selector.register(controls[part.part], selectors.EVENT_READ, part)
            while forks.alive:
                for part, status in forks.ended():
                    self._check_end(part, status, controls[part.part])
                for key, _ in selector.select() if forks.alive else ():
                    if key.data is None:
                        forks.read()
                    elif not self._told(key.data, controls[key.data.part]):
                        selector.unregister(key.fileobj)  # hung up; the helper reports the end

    def _told(self, part: PartRun, control: socket.socket) -> bool:
        """Takes a report of a part; False if the part hung up."""
        try:
            kind, *report = recv_message(partial(_taken, control))
            if kind == "value":
                self._values[report[0]] = np.frombuffer(_taken(control, report[1]), np.uint8)
        except (EOFError, ConnectionError):
            return False
        if kind == "began":
            part.state, (part.task, part.seconds) = "running", report
        elif kind == "done":
            part.state, (part.seconds, part.received, part.sent) = "done", report
        elif kind == "failed":
            part.state, (part.task, failure) = "failed", report
            raise failure.at(f"task {part.task!r} of part {part.part}, process {part.process}").exception()
        return True

    def _check_end(self, part: PartRun, status: int, control: socket.socket) -> None:
        """Raises unless the ended process of a part had reported that all is done."""
        with selectors.DefaultSelector() as left:
            left.register(control, selectors.EVENT_READ)
            while left.select(0) and self._told(part, control):
                pass
        if part.state != "done":
            part.state = "lost"
            code = os.waitstatus_to_exitcode(status)
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            at = f"while it ran task {part.task!r}" if part.task else "before its first task"
            raise WorkerLostError(
                f"the process {part.process} of part {part.part} (tasks {', '.join(part.tasks)}) {how} {at}; the other "
                "parts were stopped. If memory ran out, give the partition less: memory=, or more workers"
            )


class _Forks:
    """The helper process that forks the parts, from a single thread; a context manager."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            code = f"import sys; from {__name__} import {fork_parts.__name__}; fork_parts(int(sys.argv[1]))"
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=process_environment(1) | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )
        self._zygote = Zygote(self._process.pid, ours)
        self.link = ours
        self.alive: dict[int, PartRun] = {}  # by process
        self._messages: list[Any] = []  # of the helper

    def fork(self, part: PartRun) -> socket.socket:
        """Forks the process of a part; returns the socket to the process."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._zygote.fork(str(part.part), "part", [theirs.fileno()])
            while not (told := self._told("forked", "failed")):
                self.read()
        ((kind, _, number),) = told
        if kind == "failed":
            ours.close()
            raise OSError(number, f"no process for part {part.part}: {os.strerror(number)}")
        part.process = number
        self.alive[number] = part
        return ours

    def ended(self) -> list[tuple[PartRun, int]]:
        """Parts that ended, as far as read, with statuses; a part is told once."""
        return [(self.alive.pop(process), status) for _, process, status, _ in self._told("exited")]

    def kill(self) -> None:
        """Ends all processes of parts, and waits until they are gone."""
        for process in self.alive:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with suppress(WorkerLostError):  # without the helper no end is reported
            while self.ended() or self.alive:
                if self.alive:
                    self.read()

    def read(self) -> None:
        """Waits for messages of the helper."""
        poll = select.poll()
        poll.register(self.link, select.POLLIN)
        poll.poll()
        try:
            self._messages += self._zygote.read()
        except EOFError:
            raise WorkerLostError("the helper process that forks the parts ended; was it killed?") from None

    def _told(self, *kinds: str) -> list[Any]:
        """Takes out messages of some kinds."""
        found = [message for message in self._messages if message[0] in kinds]
        self._messages = [message for message in self._messages if message[0] not in kinds]
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.link.close()
        self._process.wait()


def fork_parts(link: int) -> None:
    """Forks the processes of parts for a manager, until the manager hangs up: the helper's program."""
    serve_forks(socket.socket(fileno=link), lambda role, fds, args: _run_part(socket.socket(fileno=fds[0])))


def _run_part(control: socket.socket) -> None:
    """Runs a subgraph: the program of a part's process."""
    reads, sends, subgraph = recv_message(partial(_taken, control))
    ends = [socket.socket(fileno=socket.recv_fds(control, 1, 1)[1][0]) for _ in (*reads, *sends)]
    links = dict(zip(sends, ends[len(reads) :], strict=True))
    inbox = _Inbox()
    for end in ends[: len(reads)]:
        threading.Thread(target=inbox.fill, args=(end,), daemon=True).start()
    threading.Thread(target=_end_with, args=(control,), daemon=True).start()
    left = Counter(read for *_, inputs, _, _ in subgraph for read in set(inputs))
    start, sent = time.monotonic(), 0
    for name, params, call, inputs, readers, is_wanted in subgraph:
        control.sendall(pack(("began", name, time.monotonic() - start)))
        try:
            pieces = call_spawned(None, [inbox.wait(read) for read in inputs], params, call)
        except BaseException as error:
            control.sendall(pack(("failed", name, describe(error))))
            return
        for read in set(inputs):
            left[read] -= 1
            if not left[read]:
                inbox.drop(read)
        for end in [links[reader] for reader in readers]:
            _send(end, (name, pieces.nbytes), pieces)
            sent += pieces.nbytes
        if is_wanted:
            _send(control, ("value", name, pieces.nbytes), pieces)
        if left[name]:
            inbox.put(name, np.concatenate(pieces.parts))
    control.sendall(pack(("done", time.monotonic() - start, inbox.received, sent)))


class _Inbox:
    """Chunks that tasks of a part read, made in the part or received."""

    def __init__(self) -> None:
        self.received = 0
        self._chunks: dict[str, Array] = {}
        self._changed = threading.Condition()

    def fill(self, end: socket.socket) -> None:
        """Takes in all values of a providing part."""
        while True:
            try:
                name, size = recv_message(partial(_taken, end))
                chunk = np.frombuffer(_taken(end, size), np.uint8)
            except (EOFError, ConnectionError):
                return  # all is sent, or the part was lost and the manager ends this part
            self.received += size
            self.put(name, chunk)

    def put(self, name: str, chunk: Array) -> None:
        """Adds the chunk of a task, read-only as in executors."""
        chunk.flags.writeable = False
        with self._changed:
            self._chunks[name] = chunk
            self._changed.notify_all()

    def wait(self, name: str) -> Array:
        """The chunk of a task, as soon as made or received."""
        with self._changed:
            self._changed.wait_for(lambda: name in self._chunks)
            return self._chunks[name]

    def drop(self, name: str) -> None:
        """Frees the chunk of a task."""
        with self._changed:
            del self._chunks[name]


def _taken(end: socket.socket, size: int) -> bytearray:
    """The next bytes of a socket; EOFError at an earlier end."""
    found = bytearray(size)
    view = memoryview(found)
    while view:
        count = end.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return found


def _send(end: socket.socket, head: tuple[Any, ...], pieces: Pieces) -> None:
    """Sends a chunk; if the receiver is lost, waits for the manager to end this process."""
    try:
        end.sendall(pack(head))
        for piece in pieces.parts:
            end.sendall(piece.data)
    except ConnectionError:
        signal.pause()


def _end_with(control: socket.socket) -> None:
    """Ends this process when the manager hangs up."""
    with suppress(ConnectionError):  # a reset, where reports were left unread
        control.recv(1)
    os._exit(1)


KEYS = (
    "task", "function", "pickled", "inputs", "args", "params", "outputs", "cost", "memory", "size", "device", "env",
)  # fmt: skip
DEVICES = ("any", "cpu", "gpu")


@dataclass(frozen=True)
class TaskInput:
    """An input of a task: the value, or a named output, of a task."""

    task: str
    output: str | None = None


@dataclass(frozen=True)
class Task:
    """A task of a document.

    Attributes
    ----------
    inputs
        Inputs by the parameter's position or name.
    cost, memory, size
        Expected seconds; bytes of working memory; bytes of the output.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[tuple[int | str, TaskInput], ...] = ()
    args: tuple[Any, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = None
    cost: float | None = None
    memory: int = 0
    size: int = 0
    device: str = "any"
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def reads(self) -> list[TaskInput]:
        """The task's inputs."""
        return [read for _, read in self.inputs]


def parse_tasks(document: Any, functions: Mapping[str, Callable[..., Any]]) -> list[Task]:
    """Parses the tasks of a document; returns them in topological order.

    Parameters
    ----------
    document
        `{"tasks": {name: …}}`, or a list of tasks that name themselves, `{"task": name, …}`.
    functions
        Functions that tasks may name, besides `module:function`.

    Raises
    ------
    GraphError
        If a task is malformed or duplicated, reads an unknown output, or is part of a cycle.

    Examples
    --------
    >>> found = parse_tasks({"tasks": {"b": {"function": "math:sqrt", "inputs": ["a"]}, "a": {"function": "math:floor",
    ...                             "args": [4.5]}}}, {})
    >>> [task.name for task in found]
    ['a', 'b']
    """
    if isinstance(document, Mapping):
        if "tasks" not in document:
            raise GraphError("a document of tasks has an entry 'tasks': names and what each does, or a list of them")
        document = document["tasks"]
    tasks: dict[str, Task] = {}
    for name, entry in _entries(document):
        if name in tasks:
            raise GraphError(f"task {name!r} is there twice; give each task a name of its own")
        tasks[name] = _task(name, entry, functions)
    for task in tasks.values():
        for read in task.reads:
            _check_read(task, read, tasks)
    return _in_order(tasks)


def _entries(document: Any) -> list[tuple[str, Mapping[str, Any]]]:
    if isinstance(document, Mapping):
        pairs = list(document.items())
    elif isinstance(document, Sequence) and not isinstance(document, str):
        for number, entry in enumerate(document):
            if not isinstance(entry, Mapping) or "task" not in entry:
                raise GraphError(f"entry {number} of the tasks is {entry!r}; give a mapping with 'task', its name")
        pairs = [(entry["task"], entry) for entry in document]
    else:
        raise GraphError(f"tasks is a {type(document).__name__}; give names and what each does, or a list of them")
    for name, entry in pairs:
        if not isinstance(name, str) or not name or "." in name:
            raise GraphError(f"task {name!r}: a name is a text without a dot, which stands between task and output")
        if not isinstance(entry, Mapping):
            raise GraphError(f"task {name!r} is {entry!r}; give a mapping with 'function', 'inputs' and so on")
    return pairs


def _task(name: str, entry: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Task:
    unknown = [key for key in entry if key not in KEYS]
    if unknown:
        raise GraphError(f"task {name!r} has {unknown[0]!r}, which no task has; it may have {', '.join(KEYS)}")
    try:
        return Task(
            name,
            _function(entry, functions),
            _inputs(entry.get("inputs", ())),
            tuple(_sequence("args", entry.get("args", ()))),
            {str(key): value for key, value in _mapping("params", entry.get("params", {})).items()},
            _outputs(entry.get("outputs")),
            _number("cost", entry["cost"], "seconds") if entry.get("cost") is not None else None,
            _bytes("memory", entry.get("memory", 0)),
            _bytes("size", entry.get("size", 0)),
            _device(entry.get("device", "any")),
            {str(key): str(value) for key, value in _mapping("env", entry.get("env", {})).items()},
        )
    except ValueError as error:
        raise GraphError(f"task {name!r}: {error}") from error


def _function(entry: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Finds the function of a task: a given function, an entry point or a base64 pickle; the last two run the file's
    code.
    """
    given, blob = entry.get("function"), entry.get("pickled")
    if (given is None) == (blob is None):
        raise ValueError("give its function either as 'function' (module:function) or as 'pickled' (base64)")
    found: Any
    if blob is not None:
        try:
            found = pickle.loads(base64.b64decode(blob, validate=True))
        except (binascii.Error, TypeError, pickle.UnpicklingError, EOFError, AttributeError, ImportError) as error:
            raise ValueError(f"its pickled function cannot be opened ({error}); pickle it with cloudpickle") from error
    elif callable(given):
        found = given
    elif str(given) in functions:
        found = functions[str(given)]
    else:
        module, _, path = str(given).partition(":")
        if not module or not path:
            raise ValueError(
                f"its function is {given!r}; give module:function, or the name of one handed to load_tasks"
            )
        try:
            found = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"its function {given!r} is not there ({error}); is its module on the path?") from error
    if not callable(found):
        raise ValueError(f"its function {given or 'pickled'!r} is a {type(found).__name__} and cannot be called")
    called: Callable[..., Any] = found
    return called


def _inputs(given: Any) -> tuple[tuple[int | str, TaskInput], ...]:
    """Parses inputs: `[task.output, …]` by position, `{parameter: task.output}` by name."""
    if isinstance(given, str):
        given = [given]
    pairs = list(given.items()) if isinstance(given, Mapping) else list(enumerate(_sequence("inputs", given)))
    found: list[tuple[int | str, TaskInput]] = []
    for place, text in pairs:
        if not isinstance(text, str):
            raise ValueError(f"its input {place!r} is {text!r}; name a task, or task.output")
        task, dot, output = text.partition(".")
        found.append((place if isinstance(place, int) else str(place), TaskInput(task, output if dot else None)))
    return tuple(found)


def _outputs(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = tuple(str(one) for one in ([given] if isinstance(given, str) else _sequence("outputs", given)))
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"its outputs are {list(names)}; give each a name of its own")
    return names


def _device(given: Any) -> str:
    if given not in DEVICES:
        raise ValueError(f"its device is {given!r}; choose one of {', '.join(DEVICES)}")
    return str(given)


def _number(what: str, given: Any, unit: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise ValueError(f"its {what} is {given!r}; give {unit}, 0 or more")
    return float(given)


def _bytes(what: str, given: Any) -> int:
    return parse_bytes(given) if isinstance(given, str) else int(_number(what, given, "bytes"))


def _sequence(what: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(f"its {what} are {given!r}; give a list")
    return given


def _mapping(what: str, given: Any) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"its {what} are {given!r}; give names and values")
    return given


def _check_read(task: Task, read: TaskInput, tasks: Mapping[str, Task]) -> None:
    source = tasks.get(read.task)
    if source is None:
        raise GraphError(f"task {task.name!r} reads {read.task!r}, which is no task; there are {', '.join(tasks)}")
    if read.output is not None and read.output not in (source.outputs or ()):
        has = f"its outputs are {', '.join(source.outputs)}" if source.outputs else "it names no outputs"
        raise GraphError(
            f"task {task.name!r} reads {read.task}.{read.output}, and {read.task!r} gives no {read.output!r}: {has}"
        )


def _in_order(tasks: Mapping[str, Task]) -> list[Task]:
    """Sorts tasks topologically; raises GraphError with the cycle, if there is one."""
    order: list[Task] = []
    done: set[str] = set()
    path: dict[str, Any] = {}  # tasks from the root to the present task, with their remaining inputs
    for root in tasks:
        if root in done:
            continue
        path[root] = iter(tasks[root].reads)
        while path:
            name = next(reversed(path))
            read = next(path[name], None)
            if read is None:
                del path[name]
                done.add(name)
                order.append(tasks[name])
            elif read.task in path:
                names = list(path)
                way = [*names[names.index(read.task) :], read.task]
                raise GraphError(
                    f"task {read.task!r} waits for itself: {' reads '.join(way)}; take one of these reads out"
                )
            elif read.task not in done:
                path[read.task] = iter(tasks[read.task].reads)
    return order


def read_document(source: Any) -> Any:
    """Reads a document from a path or text; returns a dict or list unchanged.

    Raises
    ------
    GraphError
        If the text is neither JSON nor YAML, or has a duplicate name.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> read_document('{"tasks": {}}')
    {'tasks': {}}
    """
    if isinstance(source, Mapping) or (isinstance(source, Sequence) and not isinstance(source, str | bytes)):
        return source
    if isinstance(source, os.PathLike) or (isinstance(source, str) and _is_path(source)):
        path = Path(source)
        return _parsed(path.read_text(encoding="utf-8"), str(path))
    if isinstance(source, str):
        return _parsed(source, "the text")
    raise GraphError(f"tasks come as a path, a text, a dict or a list, not as a {type(source).__name__}")


def _is_path(text: str) -> bool:
    """Whether a text is a path rather than a document with lines or braces."""
    return "\n" not in text and "{" not in text and "[" not in text and ":" not in text.replace(":\\", "", 1)


def _parsed(text: str, what: str) -> Any:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text, object_pairs_hook=_no_name_twice)
        except json.JSONDecodeError as error:
            wrong = error
            if what.endswith(".json"):
                raise GraphError(f"{what} is not JSON: {error}") from error
    else:
        wrong = None
    try:
        import yaml  # not needed for JSON
    except ImportError as error:
        if wrong is not None:
            raise GraphError(f"{what} is not JSON: {wrong}") from error
        raise GraphError(f"{what} is not JSON, and YAML needs PyYAML: pip install jmars[yaml]") from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # it carries no types
        """Plain data only, no name twice."""

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        loader.flatten_mapping(node)
        return _no_name_twice(loader.construct_pairs(node, deep=True))

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader)  # a SafeLoader makes plain data
    except yaml.YAMLError as error:
        raise GraphError(f"{what} is not YAML: {error}") from error


def _no_name_twice(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise GraphError(f"{key!r} is there twice; give each task a name of its own, and each task one {key!r}")
        found[key] = value
    return found
