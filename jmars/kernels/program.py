"""The work of an operand on its chunks, as data: chunk types and steps.

Operands of equal shapes share a `Program`; the differences between them (bounds of a slice, position of a random
stream) are the operand's `args`. Tiling makes programs (tensor/ops), fusing.py joins programs, compile.py compiles
them. A step names the values that it reads: first the program's inputs, then the results of earlier steps.

Elements of a chunk are plain bytes of a fixed length, readable by any process. A pointer (a Python object, text of
variable length) is an address of the process that wrote the element; another process that follows the address ends by a
segmentation fault. So constructors of tensors (`TensorData`) and of chunk types (`ChunkType`) refuse other dtypes, and
so do executors and clients before they map a chunk of shared memory as an array.

For a chunk of unknown size a program promises a shape with lengths of -1, and perhaps a bound. The last step returns
the chunk in separate memory: an array, or `Pieces` for bytes that lie in several places. The result is checked and
measured, executors ask for a slot, and the result is written there.
Source: docs/explanation/seeds.md, "Graph fusion".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from jmars.errors import ObjectArrayError
from jmars.kernels.expression import Expression
from jmars.kernels.reducers import Reducer
from jmars.units import format_bytes

Array = np.ndarray[Any, Any]


class ChunkType(Struct, frozen=True):
    """Shape and dtype of a chunk; a length of -1 is known only when the chunk is there.

    Unpickling calls the constructor, so a process that opens a program refuses pointers, too.

    Examples
    --------
    >>> ChunkType((2, 3), np.dtype("f8")).nbytes
    48
    >>> ChunkType((-1,), np.dtype("f8"), most=800).is_sized
    False
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    most: int | None = None  # most bytes, if the size is unknown; None: unbounded
    likely: int | None = None  # bytes that plans expect, where the size is not known; None: `most`

    def __post_init__(self) -> None:
        refuse_pointers(self.dtype)

    @property
    def is_sized(self) -> bool:
        """Whether the shape is known before the chunk is there."""
        return -1 not in self.shape

    @property
    def has_bound(self) -> bool:
        """Whether the bytes, or an upper bound of them, are known before the chunk is there."""
        return self.is_sized or self.most is not None

    @property
    def size(self) -> int:
        """Elements; 0 where the shape is not known."""
        return math.prod(self.shape) if -1 not in self.shape else 0

    @property
    def nbytes(self) -> int:
        """Bytes; for an unknown shape an upper bound, or 0 without bound."""
        return self.size * self.dtype.itemsize if -1 not in self.shape else self.most or 0

    @property
    def expected_nbytes(self) -> int:
        """Bytes that plans expect; memory is reserved for `nbytes`."""
        return self.nbytes if self.is_sized or self.likely is None else self.likely


class Step(Protocol):
    """A step of a program: reads `inputs` (value numbers) and gives a value of type `output`."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """Numbers of the values that the step reads."""

    @property
    def output(self) -> ChunkType:
        """Type of the step's value."""

    @property
    def takes_args(self) -> bool:
        """Whether an operand brings a value for this step."""

    @property
    def work(self) -> int:
        """Bytes of scratch beside inputs and output."""


class Elementwise(Struct, frozen=True):
    """NumPy ufuncs and their like, broadcast to the output's shape."""

    expression: Expression
    inputs: tuple[int, ...]
    output: ChunkType
    twin: int = 0  # number of earlier steps with an equal expression; known at compilation
    takes_args = False
    work = 0


Fill = Callable[[Array, int], None]  # writes elements [start, start + out.size) of a chunk, C order; `start` grows


class Generate(Struct, frozen=True):
    """Generates a chunk from its argument alone: constants, ranges, random numbers.

    `open(params, arg, output)` gives the `Fill` that writes the chunk block by block, so that a fused chain never holds
    the whole chunk. `arg` is None unless `takes_args`.
    """

    open: Callable[[tuple[Any, ...], Any, ChunkType], Fill]
    params: tuple[Any, ...]
    output: ChunkType
    takes_args: bool = False
    inputs: tuple[int, ...] = ()
    work: int = 0  # bytes that the fill holds from block to block
    opened: ChunkType | None = None  # chunk passed to `open`, if the elements are given in another shape
    reads: int = 0  # bytes of a source: a file, or a function of `from_blocks`

    def __eq__(self, other: object) -> bool:
        return _equal_fields(self, other)

    __hash__ = Struct.__hash__


class Reduce(Struct, frozen=True):
    """The first step of a tree reduction: reduces a chunk to a state along `axes`, which are kept with length 1."""

    reducer: Reducer
    axes: tuple[int, ...]
    inputs: tuple[int, ...]
    output: ChunkType
    last: bool = False  # whether the output is the finished value (of any shape of that size), not the state
    takes_args: bool = False
    work: int = 0
    whole: tuple[int, ...] = ()  # shape of the chunk that the input is a part of; its blocks are added, with its bits

    def kept(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the states of a chunk of `shape`."""
        return tuple(1 if axis in self.axes else n for axis, n in enumerate(shape))


class Combine(Struct, frozen=True):
    """A further step of a tree reduction: merges states."""

    reducer: Reducer
    inputs: tuple[int, ...]
    output: ChunkType
    last: bool = False
    takes_args = False
    work = 0


class Call(Struct, frozen=True):
    """Calls any function that writes its output: `function(out, inputs, params, arg)`.

    `params` are equal for all operands of the program; `arg` is the operand's own, None unless `takes_args`. Where the
    output's size is unknown, `out` is None and the function returns the array, or `Pieces`. No other step reads or
    gives chunks of unknown size; between two functions of a program these are bounded, and in the program's `work`.
    """

    function: Callable[[Any, Sequence[Array], tuple[Any, ...], Any], Any]
    params: tuple[Any, ...]
    inputs: tuple[int, ...]
    output: ChunkType
    takes_args: bool = False
    work: int = 0  # bytes of scratch that the function allocates
    cost: float = 0.0  # seconds that the user expects; 0 if not given
    alone: bool = False  # never fused, so that the user finds the operand by its name
    runs_user_code: bool = False  # runs a user's function: any memory, side effects
    is_library: bool = False  # the user's function is NumPy's or jmars's: no side effects, foreseeable time
    retries: int = -1  # retries of a call that raised; -1: the setting's number
    gathers: bool = False  # reads only a part of each input: see `Program.gathers`
    holds: tuple[int, ...] = ()  # positions in `inputs` of chunks that may be computed in the same operand
    reshapes: bool = False  # gives its only input in a new shape; between other steps no copy is made
    moves: bool = False  # only copies elements, so its inputs may have any alignment
    by_rows: bool = False  # row i of the output, along the first axis, is computed of row i of each input
    # `view(input, params, arg)`: the same elements without a copy, of any shape
    view: Callable[[Array, tuple[Any, ...], Any], Array] | None = None
    # `view` has elements several times (windows): reductions, and functions with `copies`, read them in place
    repeats: bool = False
    copies: int = 0  # bytes of `work` for copies of inputs, which are not made if an input is windows
    work_per_input: int = 0  # further bytes of scratch per byte of inputs of unknown size
    # concatenates its inputs: `params` are their lengths along each axis, `arg` is the start of the first inputs
    joins: bool = False
    # `target(out, params, arg)`: the part of `out` that its last input is written to; computed there, the input is None
    target: Callable[[Array, tuple[Any, ...], Any], Array] | None = None
    reads: int = 0  # bytes of a source: a file, or a function of `from_blocks`
    waits: int = 0  # calls of a function that mostly waits, as for a network, that are begun ahead (ops/npy.py)

    def __eq__(self, other: object) -> bool:
        return _equal_fields(self, other)

    __hash__ = Struct.__hash__


def _equal_fields(step: Generate | Call, other: object) -> bool:
    """Whether two steps do the same to the last bit: 0.0 and -0.0 are two parameters, 1 and True as well."""
    same = type(step) is type(other) and astuple(step) == astuple(other)
    return same and isinstance(other, Generate | Call) and _same(step.params, other.params)


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float | complex | np.inexact):
        return repr(one) == repr(other)
    return bool(one == other)


@dataclass(frozen=True)
class Program:
    """The work of an operand. Hashable, picklable and small.

    Examples
    --------
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((4,), f8)
    >>> from jmars.kernels.expression import Node
    >>> double = single("add", (chunk,), Elementwise(Expression((f8,), (Node("add", (0, 0), f8),)), (0,), chunk))
    >>> program_text(double)
    'x0 + x0'
    """

    name: str  # label in the view: "add", fused "add+sum"
    inputs: tuple[ChunkType, ...]
    output: ChunkType
    steps: tuple[Step, ...]  # run in order; the last step writes the output
    work: int = 0  # bytes of scratch beside inputs and output; a few block buffers do not count
    members: tuple[int, ...] = ()  # fused operand of each step; empty without fusion
    node_members: tuple[tuple[int, ...], ...] = ()  # for each step that merges several operands: operand of each node
    fused: int = 1  # number of fused operands; some may have no step left
    backend: str = "numpy"  # of expressions that it can take: "numpy", "numexpr", "llvm" or "llvm-fast" (other bits)

    @property
    def takes_args(self) -> bool:
        """Whether some step takes an argument of the operand."""
        return any(step.takes_args for step in self.steps)

    @property
    def calls(self) -> bool:
        """Whether some step is a function rather than an expression, and so may raise because of values."""
        return any(isinstance(step, Call) for step in self.steps)

    @cached_property
    def runs_user_code(self) -> bool:
        """Whether a step runs a user's function."""
        return any(isinstance(step, Call) and step.runs_user_code for step in self.steps)

    @property
    def waits(self) -> int:
        """Calls of functions that mostly wait that are begun ahead."""
        return min((step.waits for step in self.steps if isinstance(step, Call) and step.waits), default=0)

    @cached_property
    def work_per_input(self) -> int:
        """Bytes of scratch for each byte of the inputs, beside `work`."""
        return max((step.work_per_input for step in self.steps if isinstance(step, Call)), default=0)

    @property
    def reads(self) -> int:
        """Bytes of sources that an operand reads: elements asked for, times their size."""
        return sum(step.reads for step in self.steps if isinstance(step, Call | Generate))

    @property
    def is_alone(self) -> bool:
        """Whether the program is never fused with others."""
        return any(isinstance(step, Call) and step.alone for step in self.steps)

    @cached_property
    def gathers(self) -> bool:
        """Whether the program reads a part of each input, all parts along a common axis.

        The last entry of its argument holds the parts: `int64` pairs (start, stop) of elements as bytes, a pair for
        each input. The program is a single function, called either with all inputs as they are, or with an array that
        holds the parts in a row (the function may write to the array) and empty arrays in place of the other inputs.
        """
        return any(isinstance(step, Call) and step.gathers for step in self.steps)

    @cached_property
    def moved(self) -> frozenset[int]:
        """Inputs that may have any alignment, by number."""
        strict = [step for step in self.steps if not (isinstance(step, Call) and step.moves)]
        return frozenset(range(len(self.inputs))).difference(*(step.inputs for step in strict))

    @property
    def has_unsized(self) -> bool:
        """Whether an input or the output has a size that is known only after computing."""
        return not self.output.is_sized or any(not chunk.is_sized for chunk in self.inputs)

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = hash((self.name, self.inputs, self.output, self.steps))
            self.__dict__["_hash"] = known
        return known

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}  # text hashes per process


def single(name: str, inputs: Sequence[ChunkType], step: Step) -> Program:
    """A program with a single step."""
    assert isinstance(step, Call) or all(chunk.is_sized for chunk in (*inputs, step.output)), (name, inputs, step)
    return Program(name, tuple(inputs), step.output, (step,), step.work)


def program_text(program: Program) -> str:
    """The program's expression, for the view: "add((x0 + x1) * 2.0)"."""
    texts = [f"x{i}" for i in range(len(program.inputs))]
    for step in program.steps:
        args = [texts[v] for v in step.inputs]
        if isinstance(step, Elementwise):
            text = step.expression.text([f"({t})" if " " in t and not t.endswith(")") else t for t in args])
        elif isinstance(step, Reduce | Combine):
            name = getattr(step.reducer, "ufunc", None) or getattr(step.reducer, "name", "moments")
            text = f"{name}({', '.join(args)})"
        elif isinstance(step, Generate):
            text = f"{step.open.__name__}()"
        else:
            text = f"{getattr(getattr(step, 'function', step), '__name__', program.name)}({', '.join(args)})"
        texts.append(text)
    return texts[-1]


_KINDS = "biufcmMSU"  # booleans, numbers, times, text of a fixed length


def refuse_pointers(dtype: np.dtype[Any], where: str = "") -> None:
    """Raise for a dtype whose elements are not plain bytes of a fixed length.

    Parameters
    ----------
    where
        Place in the user's text, appended to the message.

    Raises
    ------
    ObjectArrayError
        For objects and text of variable length, also within records, for void, and for dtypes of other libraries.

    Examples
    --------
    >>> refuse_pointers(np.dtype([("name", "U8"), ("mass", float)]))
    >>> refuse_pointers(np.dtype([("owner", object)]))
    Traceback (most recent call last):
    ...
    jmars.errors.ObjectArrayError: an array of dtype [('owner', 'O')] cannot be distributed: ...
    """
    if (dtype.kind in _KINDS or dtype.type is np.void and not dtype.subdtype) and not dtype.hasobject:
        return
    raise ObjectArrayError(
        f"an array of dtype {dtype} cannot be distributed{where}: the processes of a cluster share plain bytes "
        "(numbers, booleans, times, text of a fixed length, records of these), and its elements are "
        f"{_elements(dtype)}. {_advice(dtype)}"
    )


def _elements(dtype: np.dtype[Any]) -> str:
    """Name the kind of the elements."""
    if dtype.subdtype is not None:
        return "arrays"
    if not dtype.hasobject:
        library = type(dtype).__module__.partition(".")[0]
        return "bytes of no type" if dtype.type is np.void else f"of a type of {library}"
    return "pointers that only one process can follow"


def _advice(dtype: np.dtype[Any]) -> str:
    """Advise the user on a dtype or a way that works."""
    if dtype.kind == "T":
        return 'Convert it to text of a fixed length, x.astype("U20"), or x.astype("U") of a NumPy array'
    if dtype.subdtype is not None:
        return f"Use dtype {dtype.base} and one axis more"
    return (
        "Use another dtype, or convert it with astype; Python objects travel as arguments and results of "
        "jmars.remote.spawn, and NumPy computes with them in this process, np.asarray(x)"
    )


class Pieces:
    """A chunk of bytes (uint8, a single axis) in several buffers, which are joined only when the chunk is stored.

    Examples
    --------
    >>> Pieces([b"ab", b"", b"cde"]).nbytes
    5
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = [np.frombuffer(part, np.uint8) for part in parts if memoryview(part).nbytes]

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)


def measured(result: Any, promised: ChunkType, name: str) -> tuple[Array | Pieces, tuple[int, ...]]:
    """Check a function's result against the promised chunk type; returns the result and its shape.

    Raises
    ------
    TypeError, ValueError
        If it has another dtype, shape or more bytes than was promised.

    Examples
    --------
    >>> measured([1, 2], ChunkType((-1,), np.dtype(int)), "f")[1]
    (2,)
    """
    if isinstance(result, Pieces):
        shape: tuple[int, ...] = (result.nbytes,)
        dtype = np.dtype(np.uint8)
    else:
        result = np.asarray(result)
        shape, dtype = result.shape, result.dtype
    if dtype != promised.dtype:
        raise TypeError(f"{name} gave {dtype} and {promised.dtype} was promised; cast the result")
    if len(shape) != len(promised.shape) or any(a not in (-1, b) for a, b in zip(promised.shape, shape)):
        wanted = str(promised.shape).replace("-1", "any")
        raise ValueError(f"{name} gave an array of shape {shape} and {wanted} was promised; give what was promised")
    if promised.most is not None and result.nbytes > promised.most:
        raise ValueError(
            f"{name} gave {format_bytes(result.nbytes)} and at most {format_bytes(promised.most)} was promised; "
            "promise more"
        )
    return result, shape


def detached(result: Array | Pieces, memory: Array) -> Array | Pieces:
    """Copy the parts of a result that lie in `memory`, which other operands will overwrite."""
    if not isinstance(result, Pieces):
        return result.copy() if np.may_share_memory(result, memory) else result
    result.parts = [part.copy() if np.may_share_memory(part, memory) else part for part in result.parts]
    return result


def write(result: Array | Pieces, out: Array) -> None:
    """Copy a chunk to its slot.

    Parameters
    ----------
    out
        Of the shape and dtype that `measured` told.
    """
    if not isinstance(result, Pieces):
        np.copyto(out, result)
        return
    at = 0
    for part in result.parts:
        out[at : at + part.nbytes] = part
        at += part.nbytes
