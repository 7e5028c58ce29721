"""Parses and checks a document of tasks; an error names the task.

Source: docs/explanation/seeds.md, "Graphs"; cascade's `TaskDefinition` (entry point or pickled function, environment,
schemas, GPU).
"""

from __future__ import annotations

import base64
import binascii
import importlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jmars.errors import GraphError
from jmars.units import parse_bytes

__all__ = ["Task", "TaskInput", "parse_tasks"]

KEYS = (
    "task", "function", "pickled", "inputs", "args", "params", "outputs", "cost", "memory", "size", "device", "env",
)  # fmt: skip
DEVICES = ("any", "cpu", "gpu")


@dataclass(frozen=True)
class TaskInput:
    """An input of a task: the value, or a named output, of another task."""

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
