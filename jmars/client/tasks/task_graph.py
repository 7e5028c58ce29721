"""Runs the tasks of a document as one graph of spawned functions, and partitions them.

Source: docs/explanation/seeds.md, "Graphs" and "Graph partitioning for scheduling".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.client.session import execute, plan_of
from jmars.client.tasks.definition import Task, parse_tasks
from jmars.client.tasks.documents import read_document
from jmars.errors import GraphError, UnsupportedError
from jmars.graph.dag import Dag
from jmars.plan import ANY, CPU, GPU, UNLIMITED, Part, PlanGraph, Workers, as_labels, depth_first, merge
from jmars.tensor.source_line import SourceLine, source_line
from jmars.tensor.spawn import Spawned, spawn
from jmars.units import parse_bytes

if TYPE_CHECKING:
    from jmars.client.plans import PlannedRun

__all__ = ["PARTITIONS", "TaskGraph", "load_tasks"]

PARTITIONS: dict[str, Callable[..., list[Part]]] = {"merge": merge, "depth-first": depth_first}
DEFAULT_COST = 1.0  # seconds of a task without a cost


def load_tasks(source: Any, functions: Mapping[str, Callable[..., Any]] | None = None) -> TaskGraph:
    """Loads and checks the tasks of a document; imports modules that the document names, but runs no task.

    A document runs code: load only those that you would run as a script.

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
        """Runs the named tasks and their inputs as one graph; without names, all results.

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
        """Partitions the tasks; returns the part of each task, numbered in the order of opening.

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
