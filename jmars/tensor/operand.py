"""`TensorData`, a node of the tensor graph, and `Operand`, which computes a node from nodes.

The functions of tensor/ops make operands, tensor_graph.py collects them, and optimize/passes.py tiles them. A node
carries the line of the user's code that made the operand (`SourceLine`), for the view, errors and warnings, the user's
wishes (`annotate`), and a dtype, asked of NumPy, so that NumPy's rules are not repeated here.

Operands with different annotations are never fused, merged or drawn again together. A length that only a run can tell,
as that of `x[x > 0]`, is an `Unknown`, in `shape` and `chunks` in place of an int. The value is NaN, as in Dask, so
that arithmetic with an unknown length gives NaN or an error, never a wrong number. Two `Unknown`s are equal if they
have the same `Origin`: then the lengths are the same. After a job the client's `Origin` holds the reported lengths.
Source: docs/explanation/seeds.md, "Chunk graph"; `expect_worker`, `gpu` and `SchedulingHint.fuseable` of Mars's
operands; `dask.annotate`; NEP 50 (Python scalars are weak).
"""

from __future__ import annotations

import itertools
import linecache
import math
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from operator import is_not
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from jmars.errors import JmarsError, ObjectArrayError, UnsupportedError
from jmars.kernels.expression import UfuncReference
from jmars.kernels.program import refuse_pointers
from jmars.model.collector import free_in_child

if TYPE_CHECKING:
    from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
    from jmars.tensor.parts import Part, PartOf, SourcePart


class Annotation(Struct, frozen=True):
    """Wishes of a user for an operand.

    Attributes
    ----------
    worker
        Number or name of the only worker that may run it; None for any.
    gpu
        True: it runs on a GPU. False: on a core. None: the plan chooses.
    fuse
        Whether it may become one operand with others of the same annotation.
    prefer
        Number or name of a worker, or name of a host, where it runs if the cluster has that; None for no wish.
    """

    worker: int | str | None = None
    gpu: bool | None = None
    fuse: bool = True
    prefer: int | str | None = None


_current: ContextVar[Annotation | None] = ContextVar("jmars_annotation", default=None)


def current_annotation() -> Annotation | None:
    """The annotation of operands that are made now; None for none."""
    return _current.get()


@contextmanager
def annotate(
    *,
    worker: int | str | None = None,
    gpu: bool | None = None,
    fuse: bool | None = None,
    prefer: int | str | None = None,
) -> Iterator[None]:
    """Annotates the operands that are made within the block; inner blocks override outer blocks.

    Parameters
    ----------
    worker
        The only worker that may run them: its number, from 0, or its name, as in `Cluster.info()["workers"]`. A name
        that the cluster does not have is an error of the job. On the workers of Dask or Ray it is a wish.
    gpu
        True: they run on a GPU, and the job fails with UnsupportedError where no worker is a GPU. False: they run on
        cores. An operand without a kernel for GPUs is computed by the GPU's process, on a core.
    fuse
        False: each of them stays an operand of its own.
    prefer
        A worker as for `worker`, or a host by its name in `Cluster.info()["hosts"]`, as a wish: a plan puts them there,
        and elsewhere where that worker or host is not here, or is behind.

    Raises
    ------
    TypeError, ValueError
        If an argument has another type, or the number is negative.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> with annotate(worker=1):
    ...     x = mt.ones(4, chunk_size=2)
    >>> x.data.op.annotation
    Annotation(worker=1, gpu=None, fuse=True, prefer=None)
    """
    for name, place in (("worker", worker), ("prefer", prefer)):
        if isinstance(place, bool) or not isinstance(place, int | str | None):
            raise TypeError(f"{name} is {place!r}; give the number of a worker, or its name")
        if isinstance(place, int) and place < 0:
            raise ValueError(f"{name} is {place}; workers are numbered from 0")
    for name, value in (("gpu", gpu), ("fuse", fuse)):
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}; give True or False")
    outer = _current.get() or Annotation()
    inner = Annotation(
        outer.worker if worker is None else worker,
        outer.gpu if gpu is None else gpu,
        outer.fuse if fuse is None else fuse,
        outer.prefer if prefer is None else prefer,
    )
    with annotated(inner if inner != Annotation() else None):
        yield


@contextmanager
def annotated(annotation: Annotation | None) -> Iterator[None]:
    """Gives all operands that are made within the block this annotation, whatever outer blocks say."""
    before = _current.set(annotation)
    try:
        yield
    finally:
        _current.reset(before)


Length = Any  # an int, or an Unknown
values_forbidden: ContextVar[bool] = ContextVar("values_forbidden", default=False)  # so are unknown lengths


class NeedsLengthError(JmarsError):
    """Raised within jmars if a function needs an unknown length; the caller defers the call or computes the length."""


_origins: weakref.WeakValueDictionary[str, Origin] = weakref.WeakValueDictionary()
_lock = free_in_child(threading.Lock())


class Origin:
    """Identity of an axis of unknown length. `Origin.of` returns the same object for the same key.

    Attributes
    ----------
    key
        Axes with the same key have the same length and chunks.
    lengths
        Lengths of the chunks in elements; None while they are unknown.
    """

    __slots__ = ("__weakref__", "key", "lengths")
    met = False  # whether any exists in this process; spares checks before

    def __init__(self, key: str) -> None:
        self.key = key
        self.lengths: tuple[int, ...] | None = None
        Origin.met = True

    @classmethod
    def of(cls, key: str) -> Origin:
        """Return the origin of a key."""
        with _lock:
            found = _origins.get(key)
            if found is None:
                found = _origins[key] = cls(key)
            return found

    def axis(self, most: Iterable[int | None]) -> tuple[Unknown, ...]:
        """Make the lengths of an axis's chunks; `most` has an entry per chunk: an upper bound in elements, or None."""
        return tuple(Unknown(self, number, at_most) for number, at_most in enumerate(most))

    @property
    def whole(self) -> Unknown:
        """Length of the whole axis; as the only entry in `chunks`, the number of chunks is unknown, too."""
        return Unknown(self)

    def __reduce__(self) -> Any:
        return _origin, (self.key,)


def _origin(key: str) -> Origin:
    return Origin.of(key)


class Unknown(float):
    """An unknown length in elements.

    Examples
    --------
    >>> some = Origin.of("example").whole
    >>> some == Origin.of("example").whole, some == Origin.of("another").whole, some + 1
    (True, False, nan)
    """

    __slots__ = ("most", "number", "origin")

    def __new__(cls, origin: Origin, number: int | None = None, most: int | None = None) -> Unknown:
        """Make a NaN that knows the origin."""
        made = super().__new__(cls, math.nan)
        made.origin, made.number, made.most = origin, number, most
        return made

    origin: Origin
    number: int | None  # of the chunk; None for the whole axis
    most: int | None  # upper bound in elements; None if there is none

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.origin.key == other.origin.key and self.number == other.number

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.origin.key, self.number))

    def __reduce__(self) -> Any:
        return Unknown, (self.origin, self.number, self.most)


def is_known(chunks: Iterable[Iterable[Length]]) -> bool:
    """Whether all chunk lengths of a tensor are known."""
    return not any(n.__class__ is Unknown for axis in chunks for n in axis)


def is_open(chunks: Iterable[Sequence[Length]]) -> bool:
    """Whether an axis has an unknown number of chunks."""
    return any(axis[0].__class__ is Unknown and axis[0].number is None for axis in chunks if axis)


def axis_length(axis: Sequence[Length]) -> Length:
    """Return the length of an axis with chunks `axis`.

    Examples
    --------
    >>> axis_length((3, 3, 1)), axis_length(Origin.of("example").axis([3, 3]))
    (7, nan)
    """
    first = axis[0] if axis else 0
    return first.origin.whole if first.__class__ is Unknown else sum(axis)


def resolved_axis(axis: Sequence[Length], known: Mapping[str, Sequence[Length]]) -> tuple[Length, ...]:
    """Replace the unknown lengths of an axis by lengths in `known`, chunk lengths by the origin's key."""
    while axis and axis[0].__class__ is Unknown:
        found = known.get(axis[0].origin.key)
        if found is None:
            break
        axis = found
    return tuple(axis)


def resolved(chunks: Iterable[Sequence[Length]], known: Mapping[str, Sequence[Length]]) -> tuple[Any, ...]:
    """Apply `resolved_axis` to all axes."""
    return tuple(resolved_axis(axis, known) for axis in chunks)


Splits = tuple[tuple[Length, ...], ...]
_numbers = itertools.count()
_prefix = os.urandom(4).hex()


def _forked() -> None:
    global _prefix
    _prefix = os.urandom(4).hex()


os.register_at_fork(after_in_child=_forked)


class TensorMeta(Struct, frozen=True):
    """Key, shape, dtype and chunks of a tensor, without the operand."""

    key: str
    shape: tuple[Length, ...]
    dtype: np.dtype[Any]
    chunks: Splits  # lengths of the chunks along each axis

    @property
    def has_unknown_lengths(self) -> bool:
        """Whether a length is unknown until a run reports it."""
        return Unknown in map(type, self.shape)

    @property
    def grid(self) -> tuple[int, ...]:
        """Numbers of chunks along the axes."""
        return tuple(map(len, self.chunks))

    def renamed(self, key: str) -> TensorMeta:
        """Copy with a different key."""
        return TensorMeta(key, self.shape, self.dtype, self.chunks)


class Hold:
    """Lives as long as a node that has a value of the cluster: equal nodes share it (client/sent_graphs.py).

    `value` is the value key of the value, None where it has none (client/kept_values.py).
    """

    __slots__ = ("__weakref__", "value")

    def __init__(self) -> None:
        self.value: bytes | None = None


class TensorData:
    """A node of the tensor graph: an operand's output. Nodes compare by identity.

    A node is immutable but for three changes. When the cluster has an equal value, the node takes over key and hold of
    that value (client/kept_values.py). When the value was computed, `op` is replaced by an operand on lineage copies
    (structure.py), nodes of the same keys that keep no value alive. If `has_unknown_lengths`, some entries of `shape`
    and `chunks` are `Unknown`; `resolve_lengths` replaces them by the lengths that a run reports.
    """

    __slots__ = (
        "__weakref__",
        "brought",
        "chunks",
        "computed",
        "depth",
        "dtype",
        "has_unknown_lengths",
        "hold",
        "is_lineage_copy",
        "key",
        "lineage_copy",
        "op",
        "shape",
    )

    def __init__(self, op: Operand, shape: tuple[Length, ...], dtype: np.dtype[Any], chunks: Splits) -> None:
        self.op = op
        self.shape = shape
        self.dtype = check_dtype(dtype)
        self.chunks = chunks
        self.has_unknown_lengths = Unknown in map(type, shape)
        self.depth: int = 1 + max([one.depth for one in op.inputs], default=-1)  # operations since known values
        self.computed = False  # whether a run computed all chunks, kept or not: client/auto_persist.py
        self.lineage_copy: TensorData | None = None  # computed nodes refer to the copy: structure.py
        self.is_lineage_copy = False
        self.hold: Hold | None = None
        self.brought: list[bytes] | None = None  # its chunks, where they came with the end of a job: client/arrays.py
        self.key = f"t-{next(_numbers)}-{_prefix}"

    @property
    def meta(self) -> TensorMeta:
        """Return the node's metadata, without the operand."""
        return TensorMeta(self.key, self.shape, self.dtype, self.chunks)

    @property
    def most_bytes(self) -> float:
        """Bytes that the value takes at most; infinite where that is not known."""
        return self.dtype.itemsize * math.prod(sum(map(most_of, axis)) for axis in self.chunks)

    def resolve_lengths(self, chunks: Splits | None = None) -> bool:
        """Take over lengths that a run reported, of this node (`chunks`) or the origins; True if all are known."""
        if chunks is not None:
            for axis, lengths in zip(self.chunks, chunks, strict=True):
                if axis and isinstance(axis[0], Unknown):
                    axis[0].origin.lengths = tuple(lengths)
        if self.has_unknown_lengths:
            known = tuple(map(_known_lengths, self.chunks))
            if any(map(is_not, known, self.chunks)):
                self.chunks, self.shape = known, tuple(map(axis_length, known))
                self.has_unknown_lengths = not is_known([self.shape])
        return not self.has_unknown_lengths

    def copied_for_lineage(self, op: Operand) -> TensorData:
        """A lineage copy of the node, made by `op`."""
        copy = object.__new__(TensorData)
        copy.op, copy.key, copy.is_lineage_copy, copy.lineage_copy = op, self.key, True, None
        copy.shape, copy.dtype, copy.chunks, copy.computed = self.shape, self.dtype, self.chunks, False
        copy.has_unknown_lengths, copy.hold, copy.depth = self.has_unknown_lengths, None, self.depth
        copy.brought = None
        return copy

    def __repr__(self) -> str:
        return f"<{self.op.label} {self.key} shape={self.shape} dtype={self.dtype}>"

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "a node of the tensor graph does not pickle, since its inputs nest too deeply; use TensorGraph.of"
        )


def most_of(length: Length) -> float:
    """A length, or the upper bound of an unknown length; infinite without a bound."""
    return length if length.__class__ is not Unknown else math.inf if length.most is None else length.most


def _known_lengths(axis: tuple[Length, ...]) -> tuple[Length, ...]:
    """Return the lengths that a run reported for an axis; the axis itself while they are unknown."""
    first = axis[0] if axis else 0
    reported = first.origin.lengths if isinstance(first, Unknown) else None
    return axis if reported is None else reported


Self = TypeVar("Self", bound="Operand")


@dataclass(frozen=True, eq=False, kw_only=True)
class Operand:
    """Computes a tensor from the inputs. Subclasses are frozen dataclasses of picklable parameters and define `tile`.

    Examples
    --------
    `tensor/ops/constants.py` holds the simplest operands.
    """

    name: ClassVar[str] = "operand"
    binds: ClassVar[str] = ""  # name of the field that no plan depends on: tensor/structure.py
    alone: ClassVar[bool] = False  # whether its operands on chunks are fused with no others, as those of `Call.alone`
    dynamic: ClassVar[bool] = False  # whether other operands must run before tiling: tensor/tensor_graph.py
    stamped: ClassVar[tuple[str, ...]] = ()  # fields that `stamp` describes
    inputs: tuple[TensorData, ...] = ()
    line: SourceLine | None = None
    annotation: Annotation | None = None

    @property
    def label(self) -> str:
        """Name of the operand in the view."""
        return self.name

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add the chunk-level operands that compute the output.

        Parameters
        ----------
        builder
            Takes programs and returns chunk numbers.
        inputs
            Chunks of each input.
        output
            Metadata of the output; its `chunks` were decided when the tensor was made.

        Returns
        -------
        array of int64, shape = chunks along each axis
            Numbers of the output's chunks.
        """
        raise NotImplementedError

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """The operand that computes a part, and the parts of inputs to read; None: as the part that `hull` gives.

        Lengths are known and above 0; the part is not empty, and not the whole but for selections.
        """
        return None

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """A part around `kept` that `part` has an answer for, by default the whole."""
        return tuple(map(range, output.shape))

    @property
    def rows_together(self) -> int:
        """Neighbouring rows that are read together; 0 where a part of a chunk is computed from all of the chunk."""
        return 0

    def note_reader(self) -> None:
        """Note that an operand, or a tensor with memory of its own, reads the output."""

    def sliced(self, output: TensorData, index: Sequence[int | slice]) -> tuple[TensorData, list[int | slice]] | None:
        """Return a node with a part of `output` that computes less, and the index of `output[index]` in the part; None:
        there is no such node.
        """
        return None

    def source_part(self, output: TensorMeta) -> SourcePart | None:
        """The part of a file, or other source, that the operand reads for the output; None: the operand reads none."""
        return None

    def token(self) -> Hashable | None:
        """Return a key: operands of equal tokens and inputs compute equal values. None: equality is unknown."""
        return None

    def stamp(self) -> Hashable | None:
        """Return what the values depend on beside parameters and inputs, such as the times of a file; None: they may
        differ from run to run, as those of a user's function.
        """
        return ()

    def unlinked(self: Self) -> Self:
        """Copy the operand without inputs, as a TensorGraph holds it."""
        return self.linked(()) if self.inputs else self

    def linked(self: Self, inputs: tuple[TensorData, ...]) -> Self:
        """Copy the operand with other inputs."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__["inputs"] = inputs
        return copy


def note_origin(op: Operand) -> None:
    """Note the user's source line and annotation on an operand that a node is made of, and tell the inputs."""
    if op.line is None:
        object.__setattr__(op, "line", source_line())
    if op.annotation is None and (annotation := current_annotation()) is not None:
        object.__setattr__(op, "annotation", annotation)
    for one in op.inputs:
        one.op.note_reader()


def new_data(op: Operand, shape: tuple[Length, ...], dtype: np.dtype[Any], chunks: Splits) -> TensorData:
    """Make a node, and note the user's source line and annotation on the operand."""
    note_origin(op)
    assert tuple(map(sum, chunks)) == shape or tuple(map(axis_length, chunks)) == shape, (op.label, shape, chunks)
    return TensorData(op, shape, dtype, chunks)


Kind = Any  # a dtype, or int, float or complex for a Python scalar, which takes the others' dtype
_WEAK = (int, float, complex)


def kind_of(value: Any) -> Kind:
    """Return the dtype of an array, tensor or NumPy scalar; the type of a Python number."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return dtype if dtype.itemsize else np.asarray(value).dtype  # the dtype of empty text has no bytes
    return np.dtype(bool) if type(value) is bool else type(value) if type(value) in _WEAK else np.asarray(value).dtype


def check_dtype(wanted: Any) -> np.dtype[Any]:
    """`wanted` as the NumPy dtype of a new array, fit for chunks; text without a length has a single character.

    Raises
    ------
    UnsupportedError
        For a dtype that `kernels/program.py` refuses; the message names the user's line.
    """
    dtype: np.dtype[Any] = np.dtype(wanted)
    if dtype.kind in "SU" and not dtype.itemsize:
        dtype = np.empty(0, dtype).dtype
    try:
        refuse_pointers(dtype)
    except UnsupportedError:
        line = source_line()
        refuse_pointers(dtype, "" if line is None else f" (line {line.lineno}: {line.text})")
    return dtype


def cast_dtype(source: np.dtype[Any], wanted: Any, casting: str = "unsafe") -> np.dtype[Any]:
    """Return the dtype of an array of `source` cast to `wanted`, with or without a text length or unit of time.

    Raises
    ------
    TypeError
        NumPy's, if the rule `casting` forbids the cast.
    UnsupportedError
        For text cast to times without a unit: the unit depends on all the values.

    Examples
    --------
    >>> cast_dtype(np.dtype("f8"), str), cast_dtype(np.dtype("M8[D]"), "M8"), cast_dtype(np.dtype("f8"), "U3")
    (dtype('<U32'), dtype('<M8[D]'), dtype('<U3'))
    """
    dtype: np.dtype[Any] = np.dtype(wanted)
    has_unit = dtype.kind not in "mM" or np.datetime_data(dtype)[0] != "generic"
    if has_unit and (dtype.kind not in "SUV" or dtype.itemsize or dtype.names):
        if not np.can_cast(source, dtype, casting):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from {source!r} to {dtype!r} according to the rule {casting!r}")
        return dtype
    found: np.dtype[Any] = np.empty(0, source).astype(dtype, casting=casting).dtype  # type: ignore[call-overload]
    if dtype.kind == "M" and source.kind in "SU":
        raise UnsupportedError(
            "the unit of times that are read from text follows from all the texts; give the unit, "
            'x.astype("datetime64[s]")'
        )
    return found


def loses_imaginary(source: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether a cast keeps only the real part of complex numbers, with NumPy's warning."""
    return source.kind == "c" and dtype.kind not in "cbSUO"


@lru_cache(maxsize=4096)
def ufunc_dtypes(
    op: str | UfuncReference, kinds: tuple[Kind, ...], signature: Any = None, casting: Any = None
) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes of a ufunc's loop, inputs then outputs; `signature` is the user's choice of loop.

    Examples
    --------
    >>> ufunc_dtypes("add", (np.dtype("f4"), float))[-1]
    dtype('float32')
    """
    ufunc = getattr(np, op) if isinstance(op, str) else op.load()
    name = f"np.{op}" if isinstance(op, str) else op.name
    chosen = {name: one for name, one in (("signature", signature), ("casting", casting)) if one is not None}
    if isinstance(ufunc, np.ufunc):
        if casting is not None and any(isinstance(kind, type) for kind in kinds):
            # NumPy 2.4's resolve_dtypes ends the process where it refuses to cast a Python number
            with np.errstate(all="ignore"):
                ufunc(*(np.empty(0, kind) if isinstance(kind, np.dtype) else kind(1) for kind in kinds), **chosen)
            chosen["casting"] = "unsafe"
        found = tuple(ufunc.resolve_dtypes(kinds + (None,) * ufunc.nout, **chosen))
    else:  # of numba: compiled for the dtypes by a call without elements
        empty = [np.empty(0, kind) if isinstance(kind, np.dtype) else kind(1) for kind in kinds]
        result = ufunc(*empty, **({} if signature is None else {"signature": signature}))
        outs = result if isinstance(result, tuple) else (result,)
        found = (*(np.asarray(one).dtype for one in empty), *(one.dtype for one in outs))
    if any(loop.kind == "O" for loop in found):
        raise ObjectArrayError(f"{name} of {kinds} gives objects, which cannot be distributed; convert with astype")
    return found


def result_type(*kinds: Kind) -> np.dtype[Any]:
    """Return `np.result_type`; Python numbers are weak (NEP 50)."""
    return np.result_type(*(kind(0) if isinstance(kind, type) else kind for kind in kinds))  # dtype(int) == int!


_OURS = ("jmars.", "numpy.", "cloudpickle.", "dask.", "xarray.")  # Dask and xarray call jmars on behalf of the user
_OUTERMOST = ("<module>", "<cell line")  # IPython's names of the code of a cell
_MOST_CALLS = 40  # names and numbers: of 13 callers
_follow = False  # whether source lines have calls
_PYTHONS = ("threading", "concurrent.futures.thread", "asyncio.")  # the ends of threads that have no frame of the user
_SHELL = "IPython.core."  # runs cells, and shows their values
_NOT_THE_USERS = (*_OURS, *_PYTHONS)


class SourceLine(NamedTuple):
    """File name, line number from 1, and the text of the line without indent.

    `calls` says how a cell came to a line in a function: the function's name, then a row per caller with line number,
    function and file, separated by tabs, up to the cell's own line.
    """

    filename: str
    lineno: int
    text: str
    calls: str = ""


def source_line() -> SourceLine | None:
    """Return the line of the innermost frame outside jmars, NumPy, Dask, xarray and the pickler.

    None if no line of the user runs, as at the end of a cell: IPython called the magic.
    """
    frame = _users_frame()
    if frame is None or str(frame.f_globals.get("__name__")).startswith(_SHELL):
        return None
    filename = frame.f_code.co_filename
    calls = _calls(frame) if _follow and not frame.f_code.co_name.startswith(_OUTERMOST) else ()
    return _known_line(filename, frame.f_lineno, linecache.getline(filename, frame.f_lineno), calls)


@contextmanager
def following_calls() -> Iterator[None]:
    """Within the block, source lines have `calls`."""
    global _follow
    before, _follow = _follow, True
    try:
        yield
    finally:
        _follow = before


def _calls(frame: FrameType) -> tuple[Any, ...]:
    """Name of a function, and line, function and file of the callers up to the outermost; () if there are many."""
    found: list[Any] = [frame.f_code.co_name]
    caller = frame.f_back
    while caller is not None and len(found) < _MOST_CALLS:
        code = caller.f_code
        if not _is_passed_over(caller.f_globals.get("__name__")):
            found += (caller.f_lineno, code.co_name, code.co_filename)
            if code.co_name.startswith(_OUTERMOST):
                return tuple(found)
        caller = caller.f_back
    return ()


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the line that `source_line` returns, as if that line had called `warnings.warn`.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_user("divide by zero", RuntimeWarning)
    >>> str(seen[0].message), seen[0].category.__name__
    ('divide by zero', 'RuntimeWarning')
    """
    warn_at(_users_frame(), text, category)


def warn_at(frame: FrameType | None, text: str, category: type[Warning]) -> None:
    """Warn at the line that a frame runs."""
    if frame is None:
        warnings.warn(text, category, stacklevel=3)
        return
    names = frame.f_globals
    registry, module = names.setdefault("__warningregistry__", {}), names.get("__name__") or "<unknown>"
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, module, registry)


def raise_along(error: BaseException, line: SourceLine) -> NoReturn:
    """Raises `error` as if the code on a line had raised it, called from the cell by `line.calls`.

    Examples
    --------
    >>> try:
    ...     raise_along(ValueError("no"), SourceLine("cell.py", 2, "", "solve\\n7\\t<module>\\tcell.py"))
    ... except ValueError as error:
    ...     link = error.__traceback__.tb_next.tb_next
    >>> link.tb_lineno, link.tb_next.tb_lineno, link.tb_next.tb_frame.f_code.co_name
    (7, 2, 'solve')
    """
    __tracebackhide__ = True
    name, *callers = line.calls.split("\n") if line.calls else ["<module>"]
    places = [(line.lineno, name, line.filename)]
    for one in callers:
        number, function, file = one.split("\t")
        places.append((int(number), function, file))
    chain: TracebackType | None = None
    for lineno, function, file in places:
        frame = _frame_at(lineno, function, file)
        chain = TracebackType(chain, frame, frame.f_lasti, lineno)
    raise error.with_traceback(chain)


def _frame_at(lineno: int, function: str, filename: str) -> FrameType:
    """A frame that has run a line of a file, as that of a function."""
    code = compile("\n" * (lineno - 1) + "1 / 0", filename, "exec").replace(co_name=function, co_qualname=function)
    try:
        exec(code, {})
    except ZeroDivisionError as error:
        link = error.__traceback__
        assert link is not None and link.tb_next is not None
        return link.tb_next.tb_frame
    raise AssertionError("the line above raises")


def raise_at(error: BaseException, filename: str, lineno: int) -> NoReturn:
    """Raises `error` as if the code on that line had raised it.

    Examples
    --------
    >>> try:
    ...     raise_at(ValueError("no"), "cell.py", 7)
    ... except ValueError as error:
    ...     place = error.__traceback__.tb_next.tb_next
    >>> place.tb_frame.f_code.co_filename, place.tb_lineno
    ('cell.py', 7)
    """
    __tracebackhide__ = True
    exec(compile("\n" * (lineno - 1) + "raise error", filename, "exec"), {"error": error})
    raise AssertionError("the line above raises")


def _users_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_passed_over(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame


def users_frames() -> Iterator[FrameType]:
    """Yield the frames of the user's code that runs, innermost first, up to the frame of the cell or module."""
    frame = _users_frame()
    while frame is not None:
        if not _is_passed_over(frame.f_globals.get("__name__")):
            yield frame
            if frame.f_code.co_name.startswith(_OUTERMOST):
                return
        frame = frame.f_back


@lru_cache(maxsize=10_000)
def _is_passed_over(module: str | None) -> bool:
    """Whether frames of a module are none of the user's."""
    return module is not None and (module.startswith(_NOT_THE_USERS) or module in ("jmars", "numpy", "warnings"))


@lru_cache(maxsize=128)  # the lines of a few cells
def _known_line(filename: str, lineno: int, text: str, calls: tuple[Any, ...]) -> SourceLine:
    """The same object for the same line and calls: a pickled graph holds the origin once."""
    callers = ["\t".join(map(str, calls[k : k + 3])) for k in range(1, len(calls), 3)]
    return SourceLine(filename, lineno, text.strip(), "\n".join([*calls[:1], *callers]))
