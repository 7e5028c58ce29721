"""Task graphs read from a file: functions, their inputs from other tasks, and their costs.

Runs the tasks of a document as a single graph of spawned functions, and partitions them.

Source: docs/explanation/seeds.md, "Graphs" and "Graph partitioning for scheduling".

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.client.session import execute, plan_of
from jmars.errors import GraphError, UnsupportedError
from jmars.graph import Dag
from jmars.plan import ANY, CPU, GPU, UNLIMITED, Part, PlanGraph, Workers, as_labels, depth_first, merge
from jmars.tensor.operand import SourceLine, source_line
from jmars.tensor.spawn import Spawned, spawn
from jmars.units import parse_bytes

if TYPE_CHECKING:
    from jmars.client.plans import PlannedRun

PARTITIONS: dict[str, Callable[..., list[Part]]] = {"merge": merge, "depth-first": depth_first}
DEFAULT_COST = 1.0  # seconds of a task without a cost


def load_tasks(source: Any, functions: Mapping[str, Callable[..., Any]] | None = None) -> TaskGraph:
    """Loads and checks the tasks of a document; imports modules that the document names, but runs no task.

    A document runs code: load only documents that you would run as a script.

    Parameters
    ----------
    source
        A path, a text (JSON, or YAML with PyYAML), a dict or a list.
    functions
        Functions that tasks may name, besides `module:function`.

    Raises
    ------
    GraphError
        If a task is invalid; the message names the task.

    Examples
    --------
    >>> tasks = load_tasks({"tasks": {
    ...     "split": {"function": "builtins:divmod", "args": [17, 5], "outputs": ["whole", "rest"]},
    ...     "power": {"function": "builtins:pow", "inputs": ["split.whole", "split.rest"]},
    ... }})
    >>> tasks.fetch()
    {'power': 9}
    """
    return TaskGraph(parse_tasks(read_document(source), functions or {}), source_line())


class TaskGraph(Mapping[str, Spawned]):
    """Tasks by name, as spawned functions; any of them can be fetched or given to other functions."""

    def __init__(self, tasks: list[Task], line: SourceLine | None = None) -> None:
        self.tasks = {task.name: task for task in tasks}
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

    def execute(self, *names: str) -> TaskGraph:
        """Runs the named tasks and their inputs as a single graph; without names, all results.

        Raises
        ------
        UnsupportedError
            If a task asks for a GPU.
        """
        wanted = names or tuple(self.results)
        needs = [name for name in self._needed(wanted) if self.tasks[name].device == "gpu"]
        if needs:
            raise UnsupportedError(f"task {needs[0]!r} asks for a GPU, and tasks run on cores; use device: any")
        if wanted:
            execute(*(self[name] for name in wanted))
        return self

    def fetch(self, *names: str) -> Any:
        """Fetches the value of a named task; of several tasks, or of all results, a dict by name."""
        self.execute(*names)
        if len(names) == 1:
            return self[names[0]].fetch()
        return {name: self[name].fetch() for name in names or self.results}

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
