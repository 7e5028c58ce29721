"""Partitions a graph between the workers of several hosts: METIS and mt-KaHyPar.

METIS finds a small edge cut, balanced in seconds, bytes and bands of time. A partition ignores time, so parts may wait
for each other; with `bands` a part gets an equal share of every stretch of the run, by METIS's multiple constraints.
pymetis's Python API has a single constraint, so this file calls the C function in pymetis's library; where the library
does not export the function, METIS is missing. An edge weighs the chunk's bytes divided by the number of readers, since
a chunk is sent once.

mt-KaHyPar partitions a hypergraph. A chunk with its readers is a net, and a net on k workers costs k - 1 times the
chunk's bytes, the bytes that move. The parts move about half the bytes of `assign_bisect`'s and 2 to 15 times fewer
than METIS's, for 30 to 150 µs an operand. The preset is deterministic: the same graph gives the same plan.
Source: docs/explanation/seeds.md, "Multilevel partitioning"; Karypis and Kumar 1998; Gottesbüren, Heuer, Maas, Sanders
and Schlag 2024 (mt-KaHyPar, MIT).
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.errors import GraphError, SettingError
from jmars.plan.order import rows, t_level
from jmars.plan.plan_graph import PlanGraph, Workers, allowed

_FINE = 1000  # weight of the heaviest operand; weights are whole numbers
_FINE_EDGE = 10_000
_EACH = 8  # least operands per part
_SEED = 8  # index of METIS_OPTION_SEED


def has_metis() -> bool:
    """Whether pymetis is installed (`pip install jmars[plan]`) and the library exports METIS's function."""
    if importlib.util.find_spec("pymetis") is None:
        return False
    try:
        _library()
    except SettingError:  # planners do without METIS then
        return False
    return True


def suits_metis(graph: PlanGraph, k: int, *, bands: int = 1, memory: bool = False) -> bool:
    """Whether METIS is installed and can balance k parts. Where an operand outweighs a part METIS cannot, and prints
    a message to standard output.
    """
    if not has_metis() or graph.n < _EACH * k * bands:
        return False
    weights = [graph.cost, graph.nbytes] if memory else [graph.cost]
    return all(float(weight.max()) * k * bands <= float(weight.sum()) for weight in weights)


def assign_metis(
    graph: PlanGraph, workers: Workers, *, bands: int = 1, memory: bool = False, slack: float = 1.03, seed: int = 1
) -> NDArray[np.int16]:
    """Assigns workers to operands: a part per worker with the worker's share of the work.

    Pins and devices are kept: the first allowed worker takes operands that are assigned to a forbidden worker.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    bands
        Stretches of the run, equal in work; every worker gets its share of each stretch.
    memory
        Whether to balance the bytes written as well.
    slack
        Factor by which a part may exceed its share, above 1.
    seed
        For METIS; the same seed gives the same parts.

    Raises
    ------
    SettingError
        If pymetis is not installed.
    """
    rate = workers.cores * workers.speed
    parts = metis_groups(graph, len(workers), bands=bands, memory=memory, slack=slack, seed=seed, share=rate)
    return allowed(graph, workers, parts.astype(np.int16), np.arange(graph.n))


def metis_groups(
    graph: PlanGraph,
    k: int,
    *,
    bands: int = 1,
    memory: bool = False,
    slack: float = 1.03,
    seed: int = 1,
    share: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Parts of the operands, 0..k-1, shape (n,); parts may be empty. `share`: weights of parts, shape (k,), None:
    equal.

    Raises
    ------
    GraphError
        If METIS cannot divide the graph.
    SettingError
        If pymetis is not installed.
    """
    if k < 2 or graph.n <= k:
        return np.arange(graph.n) % max(k, 1)
    library, integer = _library()
    src, dst = graph.dag.edges()
    key = np.unique(src * graph.n + dst)
    src, dst = np.divmod(key, graph.n)
    readers = np.bincount(src, minlength=graph.n)
    weight = _whole(graph.nbytes[src] / readers[src], _FINE_EDGE)
    at, to, heavy = np.concatenate([src, dst]), np.concatenate([dst, src]), np.concatenate([weight, weight])
    order = np.argsort(at, kind="stable")
    pointer = np.zeros(graph.n + 1, integer)
    np.cumsum(np.bincount(at, minlength=graph.n), out=pointer[1:])
    loads = _loads(graph, bands, memory)
    constraints = loads.shape[1]
    goal = np.full(k, 1 / k) if share is None else np.asarray(share, np.float64) / np.sum(share)
    part = np.zeros(graph.n, integer)
    options = np.full(40, -1, integer)
    options[_SEED] = seed
    arrays = {
        "pointer": pointer,
        "to": to[order].astype(integer),
        "loads": np.ascontiguousarray(loads, integer),
        "heavy": heavy[order].astype(integer),
        "goal": np.ascontiguousarray(np.repeat(goal, constraints), np.float32),
        "slack": np.full(constraints, slack, np.float32),
        "options": options,
    }
    address = {name: array.ctypes.data_as(ctypes.c_void_p) for name, array in arrays.items()}
    number = ctypes.c_int64 if integer == np.int64 else ctypes.c_int32
    numbers = [ctypes.byref(number(value)) for value in (graph.n, constraints, k, 0)]
    vertices, ncon, nparts, cut = numbers
    answer = library.METIS_PartGraphKway(
        *(vertices, ncon, address["pointer"], address["to"], address["loads"], None, address["heavy"], nparts),
        *(address["goal"], address["slack"], address["options"], cut, part.ctypes.data_as(ctypes.c_void_p)),
    )
    if answer != 1:
        raise GraphError(f"METIS gave {answer} for {graph.n} operands in {k} parts; try another assignment")
    return part.astype(np.int64)


def _loads(graph: PlanGraph, bands: int, memory: bool) -> NDArray[np.int64]:
    """Loads to balance: seconds per band of time, and bytes; shape (n, bands + memory)."""
    loads = np.zeros((graph.n, bands + memory), np.int64)
    order = np.argsort(t_level(graph), kind="stable")
    cost = graph.cost[order] + (graph.cost.max() or 1.0) * 1e-9
    total = np.cumsum(cost)
    band = np.empty(graph.n, np.int64)
    band[order] = np.minimum((total - cost / 2) / total[-1] * bands, bands - 1).astype(np.int64)
    loads[np.arange(graph.n), band] = _whole(graph.cost, _FINE)
    if memory:
        loads[:, bands] = _whole(graph.nbytes, _FINE)
    return loads


def _whole(values: NDArray[Any], fine: int) -> NDArray[np.int64]:
    """Scales values to whole numbers from 1 to `fine`."""
    most = float(values.max(initial=0)) or 1.0
    return np.maximum(1, np.rint(values / most * fine)).astype(np.int64)


@cache
def _library() -> tuple[ctypes.CDLL, np.dtype[Any]]:
    """METIS's C functions in pymetis's library, and METIS's integer type."""
    try:
        import pymetis
        import pymetis._internal
    except ImportError as error:
        raise SettingError(
            "a METIS partition needs pymetis, which is not installed; pip install jmars[plan], or choose another"
        ) from error
    library = ctypes.CDLL(pymetis._internal.__file__)
    if not hasattr(library, "METIS_PartGraphKway"):
        raise SettingError(
            "this build of pymetis does not export METIS_PartGraphKway; install another, or choose another assignment"
        )
    return library, np.dtype(pymetis.zero_copy_dtype())


def has_km1() -> bool:
    """Whether mtkahypar is installed (`pip install jmars[plan]`)."""
    return importlib.util.find_spec("mtkahypar") is not None


def assign_km1(
    graph: PlanGraph, workers: Workers, *, slack: float = 0.03, seed: int = 1, cycles: int = 0
) -> NDArray[np.int16]:
    """Assigns workers to operands: parts with their share of the work that cut fewest bytes.

    Pins and devices are kept: the first allowed worker takes operands that are assigned to a forbidden worker.

    Parameters
    ----------
    graph, workers
        The operands and the workers.
    slack
        Part by which a worker may exceed its share.
    seed
        For mt-KaHyPar; the same seed gives the same parts.
    cycles
        V-cycles that improve the parts afterwards, for plans that are reused.

    Raises
    ------
    SettingError
        If mtkahypar is not installed.
    """
    p = len(workers)
    readers = rows(graph.dag.succ_ptr, graph.dag.succ_idx)
    nets = [[v, *dict.fromkeys(read)] for v, read in enumerate(readers) if read]
    if p == 1 or graph.n <= p or not nets:
        return allowed(graph, workers, (np.arange(graph.n) % p).astype(np.int16), np.arange(graph.n))
    package, at_work = _package()
    package.set_seed(seed)
    context = at_work.context_from_preset(package.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(p, slack, package.Objective.KM1)
    context.logging = False
    load = np.maximum(1, np.rint(graph.cost / (graph.cost.max() or 1.0) * _FINE)).astype(np.int64)
    rate = workers.cores * workers.speed
    if np.any(rate != rate[0]):
        most = load.sum() * rate / rate.sum() * (1 + slack)
        context.set_individual_target_block_weights(np.ceil(most).astype(np.int64).tolist())
    sent = graph.nbytes[[net[0] for net in nets]]
    weights = np.maximum(1, np.rint(sent / (sent.max() or 1) * _FINE)).astype(np.int64)
    whole = at_work.create_hypergraph(context, graph.n, len(nets), nets, load.tolist(), weights.tolist())
    parts = whole.partition(context)
    if cycles:
        parts.improve_partition(context, cycles)
    return allowed(graph, workers, np.array(parts.get_partition(), np.int16), np.arange(graph.n))


@cache
def _package() -> tuple[Any, Any]:
    """Imports mtkahypar and starts the library with a single thread."""
    try:
        import mtkahypar
    except ImportError as error:
        raise SettingError(
            "a partition by bytes moved needs mtkahypar, which is not installed; "
            "pip install jmars[plan], or choose another"
        ) from error
    return mtkahypar, mtkahypar.initialize(1)
