"""Costs of operands: seconds and bytes, measured in runs, kept between sessions and given to planners.

`annotate` builds the planners' input from a compiled graph: it asks the profile for seconds, and the roofline for
programs that the profile does not know. `one_host` describes the workers to plan for.

`Profile` smooths the measurements. The control process of a host owns the profile, and the host's jobs update it.
Errors of past predictions (`Accuracy`) are kept too, so that predictions can be shown with the error seen so far.

The file is `<cache_dir>/costs-<machine>.json`, mode 0600, readable by this user alone. The name of a machine has
processor, cores and operating system, so several machines may share a home folder. The file holds names of functions,
sizes and seconds, no values of arrays. A save writes a new file under a lock and renames the new file over the old
file, so a reader sees either; a damaged file counts as missing. A cost file has thousands of keys and a session needs
some dozens, so keys are parsed on first use. The sizes of a key are a text, `"size seconds when first, …"`; older files
have lists of the four numbers. The cost signature of a program has a key of the steps without shapes, the size of the
work, and an estimate of seconds. A `Profile` keeps costs under the key, which is the same in every session, and scales
them with the size. A key names functions and dtypes and never values, so no data of an array is in a key.

The estimate of an operand that was never measured is bytes over memory bandwidth plus operations over core speed
(roofline). `annotate` multiplies the estimate by `Profile.scale`, the error of the estimate for programs that were
measured. The seconds per element were measured on an AMD EPYC.
Source: docs/explanation/seeds.md, "Graph thoughts"; Williams, Waterman and Patterson 2009 (roofline).
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, TypeGuard

import numpy as np
import xxhash

from jmars.config import cache_dir
from jmars.errors import ClusterError
from jmars.graph import Dag
from jmars.kernels.elementwise import facts, is_exact
from jmars.kernels.expression import CONSTANT
from jmars.kernels.program import Call, Combine, Elementwise, Generate, Program, Reduce, Step
from jmars.model.limits import REMEMBERED_PROGRAMS
from jmars.plan.plan_graph import PlanGraph, Workers
from jmars.tensor.chunk import ChunkGraph

_NAME = 60  # characters of a program's name that a key shows
_PRODUCTS = "sum_products"  # matrix_operands.py: its work grows with all axes at once, not with its bytes


@dataclass(frozen=True)
class Signature:
    """Key and size of a program's cost.

    Attributes
    ----------
    key
        Equal for programs that differ in shapes and values only.
    family
        Equal also for functions of one name, as when a cell was edited.
    size
        Bytes of the inputs and of each step's value, fused or not; for sums of products 8 bytes for each product.
    """

    key: str
    family: str
    size: int


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def signature(program: Program) -> Signature:
    """The signature of a program.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.expression import Expression, Node
    >>> from jmars.kernels.program import ChunkType, single
    >>> f8 = np.dtype("f8")
    >>> def negative(n):
    ...     chunk = ChunkType((n,), f8)
    ...     return single("neg", (chunk,), Elementwise(Expression((f8,), (Node("negative", (0,), f8),)), (0,), chunk))
    >>> small, large = signature(negative(10)), signature(negative(1000))
    >>> small.key == large.key, small.family, small.size, large.size
    (True, 'cpu neg float64', 160, 16000)
    """
    types = [*program.inputs, program.output]
    dtypes = dict.fromkeys(str(one.dtype) for one in reversed(types))
    family = f"cpu {program.name[:_NAME]} {','.join(dtypes)}"
    digest = xxhash.xxh3_64()
    for one in types:
        digest.update(f"{one.dtype}{len(one.shape)};".encode())
    for step in program.steps:
        digest.update(_step_text(step).encode())
    if program.backend != "numpy":
        digest.update(program.backend.encode())
    size = sum(one.nbytes for one in program.inputs) + sum(step.output.nbytes for step in program.steps)
    return Signature(f"{family} {digest.hexdigest()}", family, _products(program) or size)


def gpu_key(key: str) -> str:
    """Key of a program's seconds on a GPU, from `Signature.key` or `Signature.family`.

    Examples
    --------
    >>> gpu_key("cpu sin float64")
    'gpu sin float64'
    """
    return f"gpu {key.removeprefix('cpu ')}"


def is_gpu_key(key: str) -> bool:
    """Whether a key is of seconds on a GPU."""
    return key.startswith("gpu ")


def _step_text(step: Step) -> str:
    """Text of a step without shapes and values."""
    reads = f"{step.inputs}{step.output.dtype}{len(step.output.shape)}"
    if isinstance(step, Elementwise):
        nodes = [f"{node.op}{node.args}{node.dtype}" for node in step.expression.nodes if node.op != CONSTANT]
        return f"elementwise{reads}{nodes}"
    if isinstance(step, Generate):
        return f"generate{reads}{_named(step.open)}{_words(step.params)}"
    if isinstance(step, Reduce | Combine):
        axes = step.axes if isinstance(step, Reduce) else ()
        reducer = step.reducer
        return f"reduce{reads}{type(reducer).__name__}{getattr(reducer, 'ufunc', '')}{reducer.state}{axes}{step.last}"
    if isinstance(step, Call):
        return f"call{reads}{_named(step.function)}{_words(step.params)}"
    return f"{type(step).__name__}{reads}"


def _named(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"


def _words(params: Any) -> list[str]:
    """Parameters of a step that name a function; numbers are positions and values, and left out."""
    found = []
    for one in params if isinstance(params, tuple) else ():
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, bytes):
            found.append(xxhash.xxh3_64_hexdigest(one))
    return found


def _products(program: Program) -> int:
    """8 bytes per product of a contraction of pairs; 0 for other programs."""
    types = [*program.inputs, *(step.output for step in program.steps)]
    total = 0
    for step in program.steps:
        if isinstance(step, Call) and getattr(step.function, "__name__", "") == _PRODUCTS and step.params[1] == 2:
            read = [types[slot].size for slot in step.inputs]
            # a, b and c elements of factors and product: ik, kj and ij, so that their product is ijk squared
            total += sum(math.isqrt(a * b * step.output.size) for a, b in zip(read[::2], read[1::2], strict=True))
    return 8 * total


KERNEL_CALL_SECONDS = 10e-6  # seconds: arrays made, a kernel called
_CORE_BANDWIDTH = 8e9  # bytes a second of a core while the other cores run too
# ns an element
_CHEAP = 0.3  # a plain operation
_SPECIAL = 20  # a ufunc of another library: erf of SciPy takes 8 ns, gammaln 25 ns
_NATIVE, _FORMULA = 0.03, 0.4  # in machine code, between registers
_RANDOM = 4
_CALLED = 1  # a function, for each element read or written
_PRODUCT = 0.1  # a product of a matrix multiplication and its addition


def prior(program: Program, size: int) -> float:
    """Estimated seconds of an operand of `program`; `size` is the size of the program's signature.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.expression import Expression, Node
    >>> from jmars.kernels.program import ChunkType, single
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((1_000_000,), f8)
    >>> sine = single("sin", (chunk,), Elementwise(Expression((f8,), (Node("sin", (0,), f8),)), (0,), chunk))
    >>> f"{prior(sine, 16_000_000):.3f} s"
    '0.018 s'
    """
    moved = sum(one.nbytes for one in program.inputs) + program.output.nbytes
    return KERNEL_CALL_SECONDS + moved / _CORE_BANDWIDTH + sum(_ns(step, program, size) for step in program.steps) / 1e9


def _ns(step: Step, program: Program, size: int) -> float:
    elements = step.output.size
    if isinstance(step, Elementwise):
        nodes = [node for node in step.expression.nodes if node.op != CONSTANT]
        if program.backend == "llvm-fast" or (program.backend == "llvm" and is_exact(step.expression)):
            return elements * math.fsum(_FORMULA if facts(node.op).ns > _CHEAP else _NATIVE for node in nodes)
        return elements * math.fsum(facts(node.op).ns if node.ufunc is None else _SPECIAL for node in nodes)
    if isinstance(step, Generate):
        return elements * (_RANDOM if step.takes_args and "random" in step.open.__module__ else _CHEAP)
    types = [*program.inputs, *(one.output for one in program.steps)]
    read = sum(types[slot].size for slot in step.inputs)
    if isinstance(step, Reduce | Combine):
        return read * (_CHEAP if step.reducer.state.names is None else 5 * _CHEAP)
    assert isinstance(step, Call)
    if getattr(step.function, "__name__", "") == "sum_products":
        return size / 8 * _PRODUCT
    return (read + elements) * _CALLED


def annotate(graph: ChunkGraph, dag: Dag, profile: Profile) -> PlanGraph:
    """Builds the `PlanGraph` of a compiled graph.

    Parameters
    ----------
    graph, dag
        `Compiled.after` and `Compiled.dag`.
    profile
        Measured costs of programs.

    Returns
    -------
    PlanGraph
        Chunks that are stored already cost nothing; give the planner their worker as `placed`. Inputs of an operand
        that `gathers` count as scratch: they need not lie in memory, so the graph has no edges to that operand.
        Chunks of unknown size count as their expected bytes (`ChunkType.expected_nbytes`).
    """
    seconds = [program_seconds(program, profile) * profile.busy + profile.dispatch for program in graph.programs]
    kept = np.zeros(graph.n, np.bool_)
    for ids in graph.results.values():
        kept[ids.ravel()] = True
    # -1, a stored chunk, reads the last row
    cost = np.array([*seconds, 0.0])[graph.program]
    gathers = np.array([*(program.gathers for program in graph.programs), False])[graph.program]
    if gathers.any():
        degree = np.diff(graph.input_ptr)
        reads = np.repeat(~gathers, degree)
        pointers = np.concatenate([[0], np.cumsum(np.where(gathers, 0, degree))]).astype(np.int64)
        dag = Dag.from_inputs(pointers, graph.input_idx[reads])
    fewer = np.array([*(program.output.nbytes - program.output.expected_nbytes for program in graph.programs), 0])
    return PlanGraph.build(
        dag, cost, graph.nbytes - fewer[graph.program], work=graph.work, result=kept, op=graph.program
    )


def program_seconds(program: Program, profile: Profile) -> float:
    """Seconds that an operand of a program computes: measured, or measured of functions of the same name, or given
    by the user, or from the roofline.
    """
    known, calls = signature(program), [step for step in program.steps if isinstance(step, Call)]
    roofline = prior(program, known.size)
    users = any(step.runs_user_code for step in calls)
    per_byte = 0.0 if users or not known.size else (roofline - KERNEL_CALL_SECONDS) / known.size
    for key in (known.key, known.family):
        seconds = profile.seconds(key, known.size, per_byte)
        if seconds is not None:
            return seconds
    return sum(step.cost for step in calls) or roofline * profile.scale


def one_host(profile: Profile, executors: int, memory: int) -> Workers:
    """Describes this host as a single worker: executors share a memory, so they are cores of the same worker.

    Parameters
    ----------
    executors
        Processes that compute.
    memory
        Bytes that chunks and scratch may take.

    Examples
    --------
    >>> host = one_host(Profile(), 2, 10**9)
    >>> len(host), host.cores.tolist(), host.memory.tolist()
    (1, [2], [1000000000])
    """
    return Workers.build(1, cores=executors, memory=memory, disk=profile.disk)


STEPS = 4  # size classes to a doubling


@dataclass
class KnownCost:
    """Measured cost of a program at a size class."""

    size: float  # bytes
    seconds: float
    when: int  # seconds since 1970, of the last job that measured this cost
    first: bool = True  # seen in a single job, or only in memory that was touched for the first time


class CostTable:
    """Measured costs by key and size class.

    Attributes
    ----------
    known
        The keys that were looked up or measured in this session.
    stored
        The other keys, unparsed.

    Examples
    --------
    >>> costs = CostTable()
    >>> costs.take({"add": "8000.0 0.5 7 0", "sin": "8.0 0.25 7 0"})
    >>> costs.of("add"), costs.of("cos")
    ({52: KnownCost(size=8000.0, seconds=0.5, when=7, first=False)}, {})
    >>> costs.stored, costs.as_data(["add"])
    ({'sin': '8.0 0.25 7 0'}, {'add': '8000.0 0.5 7 0'})
    """

    def __init__(self) -> None:
        self.known: dict[str, dict[int, KnownCost]] = {}
        self.stored: dict[str, Any] = {}

    def of(self, key: str) -> dict[int, KnownCost]:
        """Measured costs of a key by size class; empty for an unknown key."""
        found, rows = self.known.get(key), self.stored.get(key)
        if found is None and rows is not None:
            found = self.known.setdefault(key, _read(rows))  # atomic: two threads may parse the key
            self.stored.pop(key, None)
        return {} if found is None else found

    def made(self, key: str) -> dict[int, KnownCost]:
        """Measured costs of a key as a mutable mapping, made if missing."""
        return self.known.setdefault(key, self.of(key))

    def take(self, data: Any) -> None:
        """Adds the costs of a file, replacing costs in memory; skips damaged rows."""
        for key, rows in data.items() if isinstance(data, dict) else ():
            if key in self.known:
                self.known[key] |= _read(rows)
            else:
                self.stored[key] = rows

    def as_data(self, keys: Iterable[str] | None = None) -> dict[str, Any]:
        """Given keys, or all keys, in the file's form; safe while other threads observe costs."""
        found = {}
        for key in list(self) if keys is None else keys:
            if key in self.known:
                found[key] = _text(self.known[key])
            elif key in self.stored:
                found[key] = self.stored[key]
        return found

    def forget_oldest(self, most: int) -> list[str]:
        """Drops the keys that were measured longest ago, beyond `most` keys; returns the dropped keys."""
        if len(self) <= most:
            return []
        stored = [(key, list(_read(rows).values())) for key, rows in list(self.stored.items())]
        rows = stored + [(key, list(classes.values())) for key, classes in list(self.known.items())]
        rows.sort(key=lambda row: max((one.when for one in row[1]), default=math.inf))  # a key that is begun is new
        forgotten = [key for key, _ in rows[: len(rows) - most]]
        for key in forgotten:
            self.stored.pop(key, None)
            self.known.pop(key, None)
        return forgotten

    def __contains__(self, key: str) -> bool:
        return key in self.known or key in self.stored

    def __iter__(self) -> Iterator[str]:
        yield from list(self.stored)
        yield from list(self.known)

    def __len__(self) -> int:
        return len(self.known) + len(self.stored)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CostTable) and _all(self) == _all(other)

    __hash__ = None  # type: ignore[assignment]  # it changes


def newest(data: dict[str, Any], most: int) -> dict[str, Any]:
    """The `most` keys of a file that were measured last."""
    if len(data) <= most:
        return data

    def when(key: str) -> int:
        return max((one.when for one in _read(data[key]).values()), default=0)

    return {key: data[key] for key in sorted(data, key=when)[-most:]}


def size_class(nbytes: float) -> int:
    """The class of a size in bytes."""
    return round(STEPS * math.log2(max(nbytes, 1.0)))


def is_positive(value: Any) -> TypeGuard[float]:
    """Whether `value` is a finite number above 0."""
    return isinstance(value, int | float) and 0 < value < math.inf


def _all(costs: CostTable) -> dict[str, dict[int, KnownCost]]:
    return {key: costs.of(key) for key in costs if costs.of(key)}


def _text(classes: dict[int, KnownCost]) -> str:
    known = list(classes.values())
    return ", ".join(f"{float(one.size)!r} {float(one.seconds)!r} {one.when} {int(one.first)}" for one in known)


def _read(rows: Any) -> dict[int, KnownCost]:
    """Parses the costs of a key of a file."""
    found: dict[int, KnownCost] = {}
    for row in _rows(rows):
        if len(row) == 4 and all(map(is_positive, row[:2])):
            when = int(row[2]) if is_positive(row[2]) else 0
            known = KnownCost(float(row[0]), float(row[1]), when, bool(row[3]))
            found[size_class(known.size)] = known
    return found


def _rows(rows: Any) -> list[list[Any]]:
    if isinstance(rows, str):
        try:
            return [[float(x) for x in row.split()] for row in rows.split(",")]
        except ValueError:
            return []
    return [list(row) for row in rows if isinstance(row, list | tuple)] if isinstance(rows, list | tuple) else []


VERSION = 1
LARGEST = 64 * 2**20  # bytes; jmars writes no larger file


def costs_file() -> Path:
    """Path of this machine's cost file.

    Raises
    ------
    OSError, ClusterError
        If the folder cannot be made, or other users may enter it.
    """
    return cache_dir() / f"costs-{_machine()}.json"


def read(path: Path) -> dict[str, Any]:
    """Contents of the cost file; empty if the file is missing or, with a warning, damaged."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST} bytes")
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise ValueError("it is of another version of jmars")
        return found
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        warnings.warn(
            f"{path}, where jmars keeps the costs of operands, cannot be read ({error}); costs are measured anew",
            stacklevel=2,
        )
        return {}


def update(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Replaces the contents of the file by `change(contents)`, a single writer at a time.

    Raises
    ------
    OSError
        If the file cannot be written; the old one stays.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = json.dumps({**change(read(path)), "version": VERSION}, separators=(",", ":"))
        name = path.with_suffix(".new")  # overwrites the file of a killed writer
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(fd, "w") as file:
                file.write(text)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    finally:
        os.close(lock)


def _machine() -> str:
    """Eight characters that name this kind of machine."""
    model = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line for line in file if line.startswith(("model name", "CPU part"))), "")
    except OSError:
        pass
    what = f"{platform.system()} {platform.machine()} {model} {len(os.sched_getaffinity(0))}"
    return xxhash.xxh3_64_hexdigest(what.encode())[:8]


KEPT = 50  # newest runs
_SHORT = 0.02  # seconds; shorter runs say little about a prediction
_ENOUGH = 3  # runs before an error is reported
_SPREAD = 0.3  # of costs, below that number of runs
_NAMES = ("makespan", "peak")

Row = list[float]  # predicted makespan, measured makespan, predicted peak, measured peak; seconds and bytes


@dataclass
class Accuracy:
    """Predictions beside measurements, the newest last.

    Examples
    --------
    >>> seen = Accuracy()
    >>> for makespan, peak in ((1.0, 95), (1.25, 80), (2.0, 125)):
    ...     seen.observe({"makespan": 1.0, "peak": [90, 100]}, {"makespan": makespan, "peak": peak})
    >>> seen.errors()
    {'runs': 3, 'makespan': 0.2, 'peak': 0.125}
    """

    rows: list[Row] = field(default_factory=list)
    fresh: int = 0  # rows at the end that no file holds yet

    def observe(self, predicted: Mapping[str, Any] | None, measured: Mapping[str, Any] | None) -> None:
        """Adds a successful run: seconds of `makespan`, and bytes of `peak` or both ends of the interval of `peak`.

        A measured peak within the interval was predicted without error: a wide interval is no wrong interval.
        """
        if not predicted or not measured:
            return
        peak, held = predicted.get("peak", 0), measured.get("peak", 0)
        if isinstance(peak, list | tuple) and len(peak) and _is_number(held) and all(map(_is_number, peak)):
            peak = min(max(held, min(peak)), max(peak))
        row = [predicted.get("makespan"), measured.get("makespan"), peak, held]
        if good := _good([row]):
            self.rows = [*self.rows, *good][-KEPT:]
            self.fresh = min(KEPT, self.fresh + 1)

    def errors(self) -> dict[str, Any]:
        """Median of `|predicted - measured| / measured` of "makespan" and "peak" (None below 3), number of "runs".

        Where an interval was predicted, the point next to the measured number counts as predicted.
        """
        found: dict[str, Any] = {"runs": len(self.rows)}
        for k, name in enumerate(_NAMES):
            pairs = [(row[2 * k], row[2 * k + 1]) for row in self.rows if row[2 * k] > 0 and row[2 * k + 1] > 0]
            off = [abs(guess - real) / real for guess, real in pairs]
            found[name] = median(off) if len(off) >= _ENOUGH else None
        return found

    @property
    def spread(self) -> float:
        """Sigma of log(measured / predicted) seconds, between 0.1 and 1; 0.3 below 3 runs."""
        logs = [math.log(row[1] / row[0]) for row in self.rows if row[0] > 0 and row[1] > 0]
        if len(logs) < _ENOUGH:
            return _SPREAD
        return min(1.0, max(0.1, math.sqrt(sum(x * x for x in logs) / len(logs))))

    def take(self, rows: Any) -> None:
        """Adds the rows of a file before the unsaved rows; skips entries that are not four numbers."""
        self.rows = [*_good(list(rows) if isinstance(rows, list | tuple) else []), *self._new()][-KEPT:]

    def join(self, rows: Any) -> None:
        """Adds the rows of a file as `take` does and marks the unsaved rows as saved."""
        self.take(rows)
        self.fresh = 0

    def _new(self) -> list[Row]:
        return self.rows[len(self.rows) - self.fresh :] if self.fresh else []


def _good(rows: list[Any]) -> list[Row]:
    """Rows of four numbers of runs that were long enough."""
    four = [row for row in rows if isinstance(row, list | tuple) and len(row) == 4 and all(map(_is_number, row))]
    return [[float(x) for x in row] for row in four if row[1] >= _SHORT]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer) and bool(0 <= value < math.inf)


NEWEST = 0.3  # weight of the newest job in the moving average
_HOST = ("dispatch", "disk", "pcie", "touch", "scale", "busy")  # costs of the host itself
SOON = 0.5  # weight of the newest job in averages that change by the minute
JUMP = 4.0  # a measurement counts as at most so many times the average, or as so small a part of the average
FAR = 64.0  # ratio to the largest measured size; beyond it the fixed cost of a call does not grow with the bytes
MAX_CALL_SECONDS = 100e-6  # seconds that a call may take whatever its size
MEMORY = 1e-10  # least seconds a byte takes to pass through memory
DEAR = 50.0  # a byte costs at most so many times the roofline's seconds, where only tiny chunks were measured
REMEMBERED = 4000  # keys; the keys that were measured longest ago are dropped


@dataclass
class Profile:
    """Seconds of operands by key and size, and the costs of the host itself.

    Attributes
    ----------
    costs
        By key, then by size class; costs of earlier sessions are parsed on first use of their key.
    dispatch
        Seconds of an executor between two operands: until the report is taken and the next operand is there.
    disk
        Bytes a second, written and read back.
    pcie
        Bytes a second between shared memory and a GPU, through a pinned buffer.
    touch
        Seconds a byte for the first write to a page of memory.
    scale
        Ratio of measured seconds to `roofline.prior`.
    accuracy
        Errors of past predictions.
    busy
        Ratio of wall time to computing time of operands, above 1 where other processes use the cores; of the newest
        jobs.
    results
        By key: bytes of the largest result of the newest job, where the size has no bound before the run. Of this
        session: not in the file.
    changed
        Keys that were measured since the last save.

    Examples
    --------
    >>> profile = Profile()
    >>> profile.observe("add", 8_000_000, 0.004)
    >>> profile.seconds("add", 16_000_000), profile.seconds("sin", 8)
    (0.008, None)
    """

    costs: CostTable = field(default_factory=CostTable)
    dispatch: float = 10e-6
    disk: float = 1e9
    pcie: float = 6e9
    touch: float = 0.3e-9
    scale: float = 1.0
    busy: float = 1.0
    accuracy: Accuracy = field(default_factory=Accuracy)
    results: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def observe(self, key: str, nbytes: float, seconds: float, *, when: int = 0, fresh: float = 0.0) -> None:
        """Adds the mean seconds that operands of a program and size took in a job.

        The first job pays for imports and compilation, so the second job's measurement replaces the first.

        Parameters
        ----------
        key, nbytes
            `Signature.key` and `Signature.size`.
        seconds
            Mean of the job's operands.
        when
            Seconds since 1970.
        fresh
            Bytes of memory that each operand was the first to touch. Such a measurement counts only until the program
            is measured on memory used before; from then on the difference is the cost of touching memory.
        """
        if not (seconds > 0 and math.isfinite(seconds)):
            return
        classes = self.costs.made(key)
        number = size_class(nbytes)
        known = classes.get(number)
        self.changed.add(key)
        if known is None or (known.first and (not fresh or seconds < known.seconds)):
            classes[number] = KnownCost(nbytes, seconds, when, first=known is None or fresh > 0)
            return
        known.when = max(when, known.when)
        if fresh and not known.first:
            self.observe_touch(fresh, seconds - known.seconds)
            return
        believed = min(max(seconds, known.seconds / JUMP), known.seconds * JUMP)
        known.seconds += NEWEST * (believed - known.seconds)
        known.size += NEWEST * (nbytes - known.size)

    def observe_result(self, key: str, nbytes: int) -> None:
        """Keeps the bytes of the largest result of a program in a job; `key` is a `Signature.key`."""
        self.results.pop(key, None)
        self.results[key] = nbytes
        if len(self.results) > REMEMBERED:
            del self.results[next(iter(self.results))]

    def observe_dispatch(self, seconds: float) -> None:
        """Adds the idle seconds of executors per operand of a job of many short operands."""
        self.dispatch = _mixed(self.dispatch, min(max(seconds, 1e-6), 1e-3))

    def observe_disk(self, nbytes: int, seconds: float) -> None:
        """Adds a measurement of the disk: bytes written or read, and seconds."""
        if seconds > 0:
            self.disk = _mixed(self.disk, min(max(nbytes / seconds, 1e6), 1e11))

    def observe_pcie(self, nbytes: int, seconds: float) -> None:
        """Adds a measurement of copies to and from a GPU: bytes, and seconds."""
        if seconds > 0:
            self.pcie = _mixed(self.pcie, min(max(nbytes / seconds, 1e7), 1e12))

    def observe_busy(self, ratio: float) -> None:
        """Adds the ratio of wall time to computing time of a job's operands."""
        self.busy += SOON * (min(max(ratio, 1.0), 50.0) - self.busy)

    def observe_touch(self, nbytes: float, seconds: float) -> None:
        """Adds the extra seconds of operands that were the first to touch `nbytes` of memory."""
        if nbytes > 0 and seconds > 0:
            self.touch = _mixed(self.touch, min(seconds / nbytes, 5e-9))

    def observe_scale(self, ratio: float) -> None:
        """Adds a ratio of measured seconds to seconds by the roofline."""
        self.scale = math.exp(_mixed(math.log(self.scale), math.log(min(max(ratio, 0.05), 20.0))))

    def seconds(self, key: str, nbytes: float, per_byte: float = 0.0) -> float | None:
        """Predicted seconds of an operand of this key and size; None for an unknown key.

        Between two measured sizes the cost follows the power law through both; beyond them the cost grows with the
        bytes. A measurement no longer than a call's fixed cost does not depend on bytes, so sizes far beyond the
        largest measured size are predicted at the speed of memory.

        Parameters
        ----------
        key, nbytes
            `Signature.key` and `Signature.size`.
        per_byte
            Seconds a byte by the roofline; 0 where the roofline does not know, as for users' functions. Where the
            largest measured chunk has so few bytes that the call itself takes longer, a larger chunk is predicted to
            cost at most 50 times the roofline: a pause of a tiny operand on a loaded machine is not scaled up.

        Examples
        --------
        >>> profile = Profile()
        >>> profile.observe("ones", 8, 0.001)  # another process had the core
        >>> profile.seconds("ones", 400), f"{profile.seconds('ones', 400, per_byte=1e-10):.6f}"
        (0.05, '0.001002')
        """
        classes = self.costs.of(key)
        if not classes:
            return None
        found = classes.get(size_class(nbytes))
        if found is not None:
            return found.seconds * nbytes / found.size if found.size else found.seconds
        numbers = sorted(classes)
        place = bisect_left(numbers, size_class(nbytes))
        if 0 < place < len(numbers):
            low, high = classes[numbers[place - 1]], classes[numbers[place]]
            if not low.size:  # its size was not known
                return low.seconds + (high.seconds - low.seconds) * nbytes / high.size
            share = math.log(nbytes / low.size) / math.log(high.size / low.size)
            return math.exp((1 - share) * math.log(low.seconds) + share * math.log(high.seconds))
        near = classes[numbers[min(place, len(numbers) - 1)]]
        if not near.size:
            return near.seconds
        if nbytes < near.size:  # a call has a fixed cost, however small its chunk
            return max(near.seconds * nbytes / near.size, min(self.dispatch, near.seconds))
        if 0 < per_byte * near.size < KERNEL_CALL_SECONDS:
            dearest = near.seconds + DEAR * per_byte * (nbytes - near.size)
        else:
            dearest = math.inf
        if nbytes <= FAR * near.size:
            return min(dearest, near.seconds * nbytes / near.size)
        scaled = max(near.seconds, nbytes * MEMORY) + max(0.0, near.seconds - MAX_CALL_SECONDS) * (
            nbytes / near.size - 1
        )
        return min(dearest, scaled)

    @classmethod
    def load(cls, path: Path | None = None) -> Profile:
        """Reads the profile of earlier sessions; an empty profile if there is no file.

        A damaged file or an unusable folder gives a warning and an empty profile.
        """
        profile = cls()
        try:
            profile.refresh(path)
        except (OSError, ClusterError) as error:
            warnings.warn(f"the costs measured in earlier sessions cannot be used: {error}", stacklevel=2)
        return profile

    @classmethod
    def of(cls, data: dict[str, Any]) -> Profile:
        """Builds a profile from the result of `as_data`."""
        profile = cls()
        profile._take(data)
        profile.results.update(data.get("results", {}))
        return profile

    def refresh(self, path: Path | None = None) -> None:
        """Adds the costs measured in earlier sessions.

        Raises
        ------
        OSError, ClusterError
            If no `path` is given and the folder cannot be made, or other users may enter it.
        """
        self._take(read(path if path is not None else costs_file()))

    def save(self, path: Path | None = None, *, host: bool = True) -> None:
        """Writes the measured costs for later sessions; keys that other processes saved meanwhile stay.

        Parameters
        ----------
        path
            None for this machine's cost file.
        host
            Whether to write the costs of the host itself too (`dispatch`, `disk`, `pcie`, `touch`, `scale`, `busy`).
            Workers of an engine, who may be on other machines, measure none of them: False leaves those of the file.

        Raises
        ------
        OSError, ClusterError
            If the file cannot be written; the old one stays.
        """

        changed, self.changed = self.changed, set()  # costs observed during the save belong to the next save

        def joined(stands: dict[str, Any]) -> dict[str, Any]:
            theirs = stands.get("costs")
            own = self.costs.as_data(changed | self.changed)
            rows = {**(theirs if isinstance(theirs, dict) else {}), **own}
            self.forget_oldest()
            self.accuracy.join(stands.get("runs"))
            data = self._as_data(newest(rows, REMEMBERED))  # unparsed: this session uses few of them
            if host:
                return data
            kept = {name: stands[name] for name in _HOST if name in stands}
            return {name: value for name, value in data.items() if name not in _HOST} | kept

        try:
            update(path if path is not None else costs_file(), joined)
        except BaseException:
            self.changed |= changed
            self.forget_oldest()  # bounds a long-lived cluster's memory where saving fails
            raise

    def as_data(self) -> dict[str, Any]:
        """The profile as JSON data, for other processes."""
        return {**self._as_data(self.costs.as_data()), "results": dict(self.results)}

    def _as_data(self, costs: dict[str, Any]) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in _HOST}, "costs": costs, "runs": self.accuracy.rows}

    def _take(self, data: dict[str, Any]) -> None:
        """Adds the data of a file; skips values that are not numbers above 0."""
        for name in _HOST:
            value = data.get(name)
            if is_positive(value):
                setattr(self, name, float(value))
        self.accuracy.take(data.get("runs"))
        self.costs.take(data.get("costs"))

    def forget_oldest(self) -> None:
        """Drops the keys measured longest ago; safe while other threads observe costs."""
        self.changed.difference_update(self.costs.forget_oldest(REMEMBERED))


def _mixed(known: float, seen: float) -> float:
    return known + NEWEST * (seen - known)
