"""Runs Dask's graphs on a jmars cluster: any Dask collection, planned and shown like a tensor.

`get` is a scheduler as Dask knows them; each of Dask's tasks becomes a spawned function. Needs Dask 2024.12 or later
(extra `dask`), imported when a graph comes. Source: https://docs.dask.org/en/stable/scheduler-overview.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from jmars.client.session import fetch
from jmars.errors import GraphError, UnsupportedError
from jmars.tensor.operand import source_line
from jmars.tensor.spawn import Spawned, spawn


@contextmanager
def dask_scheduler() -> Iterator[None]:
    """Within, Dask's collections (array, dataframe, bag, delayed) are computed on the default jmars cluster.

    Data frames are shuffled from task to task, not through files, where Dask's settings do not say otherwise.

    Raises
    ------
    ModuleNotFoundError
        If Dask is not installed; `pip install "jmars[dask]"`.

    Examples
    --------
    >>> import dask
    >>> import jmars
    >>> with jmars.Cluster(n_workers=1), dask_scheduler():
    ...     dask.delayed(sum)([dask.delayed(pow)(n, 2) for n in range(4)]).compute()
    14
    """
    import dask

    shuffle = dask.config.get("dataframe.shuffle.method", None) or "tasks"  # Dask's default leaves files behind
    with dask.config.set({"scheduler": get, "dataframe.shuffle.method": shuffle}):
        yield


def get(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Compute keys of a Dask graph on the default cluster: `dask.config.set(scheduler=get)`.

    Parameters
    ----------
    dsk
        A graph as Dask gives it to schedulers.
    keys
        A key, or lists of keys, of lists and so on.
    **kwargs
        Of other schedulers; no meaning here.

    Returns
    -------
    The values, in lists as the keys are.

    Raises
    ------
    GraphError
        If the graph names a key that it does not have.
    UnsupportedError
        If it is to write into a NumPy array, which only this process has.

    What a task raises ends the job and comes back as it is; an interrupt cancels the job.
    """
    from dask._task_spec import Alias, convert_legacy_graph

    graph = dsk.__dask_graph__() if hasattr(dsk, "__dask_graph__") else dsk  # newer Dask hands over expressions
    nodes = convert_legacy_graph(dict(graph))
    _refuse_lost_writes(nodes)
    handles: dict[Any, Spawned] = {}
    line = source_line()
    for key in _in_order(nodes, keys):
        node = nodes[key]
        if type(node) is Alias:
            handles[key] = handles[node.target]
            continue
        called = _function_of(node, handles)
        if called is None:
            needs = sorted(node.dependencies, key=str)
            called = _call, (node, needs, [handles[one] for one in needs]), {}
        handles[key] = spawn(*called, name=_name(key), line=line)
    wanted = list(dict.fromkeys(_flat(keys)))
    found = fetch(*(handles[key] for key in wanted))
    return _like(keys, {wanted[0]: found} if len(wanted) == 1 else dict(zip(wanted, found)))


def _function_of(node: Any, handles: Mapping[Any, Spawned]) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """Function and arguments of a task, faster to pickle than the task; None for a task that holds further tasks."""
    from dask._task_spec import GraphNode, Task, TaskRef

    if type(node) is not Task or any(isinstance(one, GraphNode) for one in (*node.args, *node.kwargs.values())):
        return None

    def given(one: Any) -> Any:
        return handles[one.key] if isinstance(one, TaskRef) else one

    return node.func, tuple(map(given, node.args)), {name: given(one) for name, one in node.kwargs.items()}


def _call(node: Any, needs: list[Any], values: list[Any]) -> Any:
    """Run one of Dask's tasks."""
    return node(dict(zip(needs, values)))


def _refuse_lost_writes(nodes: Mapping[Any, Any]) -> None:
    """`da.store` into a NumPy array would write to the copies that worker processes have."""
    for node in nodes.values():
        for task, known in _calls(node):
            if getattr(task.func, "__name__", "") == "load_store_chunk":
                target = task.args[1]
                named = getattr(target, "key", None)
                target = known.get(named, nodes.get(named, target))
                if isinstance(getattr(target, "value", target), np.ndarray):
                    raise UnsupportedError(
                        "da.store writes into a NumPy array of this process, and tasks run in other processes, which "
                        "have copies of it; take the value, x.compute(), or store into a Zarr array"
                    )


def _calls(node: Any) -> Iterator[tuple[Any, Mapping[Any, Any]]]:
    """The tasks that a node calls, each with the nodes that only this task can name: several where Dask has fused
    them.
    """
    if getattr(getattr(node, "func", None), "__name__", "") == "_execute_subgraph":
        inner, _, names, *values = node.args
        known = {**inner, **dict(zip(names, values))}
        yield from ((task, known) for task in inner.values() if hasattr(task, "func"))
    elif hasattr(node, "func"):
        yield node, {}


def _in_order(nodes: Mapping[Any, Any], keys: Any) -> list[Any]:
    """Needed keys, in topological order."""
    order: dict[Any, None] = {}
    todo = [(key, False) for key in _flat(keys)]
    while todo:
        key, is_done = todo.pop()
        if key in order:
            continue
        if key not in nodes:
            raise GraphError(f"Dask's graph asks for {key!r} and has no such key; compute what it comes from")
        if is_done:
            order[key] = None
        else:
            todo.append((key, True))
            todo += [(one, False) for one in nodes[key].dependencies if one not in order]
    return list(order)


def _flat(keys: Any) -> Iterator[Any]:
    """Keys within lists."""
    if isinstance(keys, list):
        for one in keys:
            yield from _flat(one)
    else:
        yield keys


def _like(keys: Any, values: Mapping[Any, Any]) -> Any:
    """Values in lists as their keys are."""
    return [_like(one, values) for one in keys] if isinstance(keys, list) else values[keys]


def _name(key: Any) -> str:
    """Name of a key for the view, without the token at the end."""
    from dask.utils import key_split

    first = key[0] if isinstance(key, tuple) else key
    return str(key_split(first)) if isinstance(first, str) else str(first)
