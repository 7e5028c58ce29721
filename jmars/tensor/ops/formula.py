"""Builds elementwise expressions: a `Formula` records operations on tensors and makes an operand.

NumPy resolves the dtype of every recorded operation; Python numbers stay weak until they meet an array. `real` and
`imag` are views that write.

Floating point errors are handled where the values are computed, as NumPy's state says when the operation is written:
`np.errstate`, `np.seterr` and Python's filters of warnings. Only operations that the user's line calls tell warnings;
operations inside a function of jmars are not NumPy's.
Source: NumPy reference, "Floating point error handling"; docs/decisions/0055-warnings-of-workers.md.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import FrameType
from typing import Any, ClassVar, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from jmars.kernels.elementwise import facts
from jmars.kernels.expression import CONSTANT, Expression, Node, UfuncReference, constant
from jmars.kernels.float_errors import BITS, WORDS
from jmars.kernels.program import Call, ChunkType, single
from jmars.kernels.program import Elementwise as Step
from jmars.tensor.buffers import Place
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.from_array import by_standard, is_library, package
from jmars.tensor.operand import (
    Kind,
    NeedsLengthError,
    Operand,
    Splits,
    TensorData,
    TensorMeta,
    axis_length,
    check_dtype,
    is_known,
    is_open,
    kind_of,
    loses_imaginary,
    new_data,
    result_type,
    ufunc_dtypes,
)
from jmars.tensor.ops.arguments import share, step
from jmars.tensor.ops.chunks import broadcast_lengths, chunk_classes, chunk_type, length_kind, rechunked, run_expression
from jmars.tensor.parts import Part, PartOf, splits_of
from jmars.tensor.protocols import call, is_plain_hook, offers
from jmars.tensor.splits import agreed_splits, fitted_splits
from jmars.tensor.tensor import Tensor, as_tensor

RECHUNK_TIMES = 4  # times the chunks of each input: beyond that the other inputs are rechunked
WIDENED = 2  # times the default size, up to which chunks of wider elements stay as they are: float32 to float64


class FormulaValue(Struct, frozen=True):
    """A value in a formula: an input, the result of an operation, or a scalar that is no node yet."""

    number: int  # -1 for a scalar; 0 or more for inputs, -2 or less for nodes
    kind: Kind  # dtype, or type of a Python number
    scalar: Any = None


class Formula:
    """An elementwise expression under construction, over tensors and numbers.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> formula = Formula("twice")
    >>> x = formula.read(ones(3))
    >>> twice = formula.tensor(formula.apply("add", x, x))
    >>> twice.data.op.expression.text()
    'x0 + x0'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[TensorData] = []
        self.raises: tuple[str, ...] = ()  # floating point errors that raise in what is applied from now on
        self.warns = 0  # floating point errors that are told as warnings there: bits of `float_errors.BITS`
        self.text = ""  # of these warnings, where it is not NumPy's for the operation
        self._places: list[Place] = []  # of the inputs: they decide the order of the result in memory
        self._nodes: list[Node] = []  # values of inputs are their numbers, of nodes -2 - k
        self._constants: dict[tuple[np.dtype[Any], bytes], int] = {}

    def read(self, value: Any) -> FormulaValue:
        """Adds a tensor, array, list or number as an input or scalar."""
        if not isinstance(value, Tensor):
            if isinstance(value, np.generic | bool | int | float | complex) or np.ndim(value) == 0:
                kind = kind_of(value)  # of an array of text longer than that of its element
                if isinstance(value, np.ndarray):
                    value = value[()]
                if isinstance(kind, np.dtype):
                    check_dtype(kind)
                return FormulaValue(-1, kind, value)
            value = as_tensor(value)
        if value.data.has_unknown_lengths and is_open(value.data.chunks):
            value._resolved()
        for i, known in enumerate(self.inputs):
            if known is value.data:
                return FormulaValue(i, value.dtype)
        self.inputs.append(value.data)
        self._places.append(value._place)
        return FormulaValue(len(self.inputs) - 1, value.dtype)

    def apply(
        self, op: str | UfuncReference, *values: FormulaValue, signature: Any = None, casting: Any = None
    ) -> FormulaValue:
        """Applies a ufunc, given by name ("modf.1" is the second output of `modf`) or by reference.

        Parameters
        ----------
        op
            The ufunc.
        *values
            Its arguments.
        signature, casting
            NumPy's keywords, which choose the loop; by default the dtypes of the values do.

        Raises
        ------
        TypeError, OverflowError
            As NumPy raises them.
        """
        name, _, number = op.partition(".") if isinstance(op, str) else (op, "", op.part)
        part = int(number or 0)
        loop = ufunc_dtypes(name, tuple(value.kind for value in values), signature, casting)
        out = check_dtype(loop[len(values) + part])
        if all(value.number == -1 for value in values):
            choice = {} if signature is None else {"signature": signature, "casting": casting}
            result = (getattr(np, name) if isinstance(name, str) else name.load())(
                *(v.scalar for v in values), **choice
            )
            return FormulaValue(-1, out, result[part] if isinstance(result, tuple) else result)
        if facts(str(name)).compares and any(v.number == -1 and not _fits(v, t) for v, t in zip(values, loop)):
            # a Python int outside the dtype's range: NumPy knows the answer from the dtype alone
            probe = [v.scalar if v.number == -1 else np.zeros((), v.kind) for v in values]
            (integers,) = (v for v in values if v.number != -1)  # read for their shape: each equals itself
            return self._node("equal" if getattr(np, str(op))(*probe) else "not_equal", [integers, integers], out)
        if signature is not None:  # which numbers of Python are cast to, as NumPy casts
            values = tuple(self.cast(v, loop[i]) if v.kind in (float, complex) else v for i, v in enumerate(values))
        args = [self._as_node(value, loop[i]) for i, value in enumerate(values)]
        if signature is not None:
            args = [self.cast(arg, loop[i]) for i, arg in enumerate(args)]
        return self._node(op, args, out)

    def where(self, condition: FormulaValue, x: FormulaValue, y: FormulaValue) -> FormulaValue:
        """Applies `np.where`."""
        out = check_dtype(result_type(x.kind, y.kind))
        condition = self.cast(self._as_node(condition, np.dtype(bool)), np.dtype(bool))
        chosen = [self.cast(v, out) if isinstance(v.kind, type) else v for v in (x, y)]  # Python numbers wrap here
        return self._node("where", [condition, *(self._as_node(v, out) for v in chosen)], out)

    def part(self, op: str, value: FormulaValue) -> FormulaValue:
        """Real or imaginary part of a value; `op` is "real" or "imag"."""
        value = self._as_node(value, result_type(value.kind))
        if value.kind.kind == "c":
            return self._node(op, [value], np.empty(0, value.kind).real.dtype)
        return value if op == "real" else self._node("astype", [self._constant(0, value.kind)], value.kind)

    def cast(self, value: FormulaValue, dtype: Any) -> FormulaValue:
        """Casts a value to `dtype` with NumPy's rule "unsafe"."""
        dtype = np.dtype(dtype)
        if value.number == -1:
            return FormulaValue(-1, dtype, np.asarray(value.scalar).astype(dtype)[()])
        if loses_imaginary(value.kind, dtype):
            value = self.part("real", value)  # as NumPy does, after a warning
        return value if value.kind == dtype else self._node("astype", [value], dtype)

    def tensor(
        self,
        value: FormulaValue,
        shape: tuple[int, ...] | None = None,
        splits: Splits | None = None,
        order: str = "K",
    ) -> Tensor:
        """Makes the tensor of a value, broadcast to `shape`; axes that no input has are divided by `splits`.

        Parameters
        ----------
        value
            What to make a tensor of.
        shape, splits
            Shape to broadcast to, and chunks of the axes that no input has.
        order
            Order of the elements in memory, as NumPy's keyword.

        Raises
        ------
        ValueError
            If shapes do not broadcast.
        """
        value = self._as_node(value, result_type(value.kind))
        if value.number >= 0 or self._nodes[-2 - value.number].op == CONSTANT:
            value = self._node("astype", [value], value.kind)
        inputs, expression = self._expression(value)
        shapes = [data.shape for data in inputs] + ([shape] if shape is not None else [])
        whole = shapes[0] if shapes and all(s == shapes[0] for s in shapes) else broadcast_shape(inputs, shapes)
        if shape is not None and whole != shape:
            raise ValueError(f"a result of shape {whole} does not fit into shape {shape}; give an array that it fits")
        chunks = _common_splits(whole, inputs, splits)
        if splits is None and inputs and is_known([whole]):
            is_larger = all(data.shape != whole for data in inputs)
            is_wider = expression.dtype.itemsize > max(data.dtype.itemsize for data in inputs)
            if is_larger or is_wider:
                chunks = fitted_splits(chunks, expression.dtype.itemsize, 1 if is_larger else WIDENED)
        cut = tuple(rechunked(data, _input_splits(data, chunks)) for data in inputs)
        unique = tuple(dict.fromkeys(cut))
        assert len(unique) == len(cut)
        op = ElementwiseOperand(self.name, expression, chunks, inputs=cut)
        made = Tensor(new_data(op, whole, expression.dtype, chunks))
        if order == "K" and not any(place.permuted for place in self._places):
            return made
        return made._laid_out_like(self._places, order, self.name == "astype")

    def _expression(self, value: FormulaValue) -> tuple[list[TensorData], Expression]:
        """Inputs and nodes that lead to a value, in order and densely numbered."""
        wanted: set[int] = set()
        stack = [value.number]
        while stack:
            reached = stack.pop()
            if reached not in wanted:
                wanted.add(reached)
                stack += self._nodes[-2 - reached].args if reached < 0 else ()
        read = [i for i in range(len(self.inputs)) if i in wanted]
        number = {i: k for k, i in enumerate(read)}
        nodes: list[Node] = []
        for k, node in enumerate(self._nodes):
            if -2 - k in wanted and -2 - k != value.number:
                number[-2 - k] = len(read) + len(nodes)
                nodes.append(node.reading(tuple(number[arg] for arg in node.args)))
        last = self._nodes[-2 - value.number]
        nodes.append(last.reading(tuple(number[arg] for arg in last.args)))
        return [self.inputs[i] for i in read], Expression(tuple(self.inputs[i].dtype for i in read), tuple(nodes))

    def _as_node(self, value: FormulaValue, dtype: np.dtype[Any]) -> FormulaValue:
        """Turns a scalar into a constant node: a NumPy scalar keeps its dtype, a Python number takes `dtype`."""
        if value.number != -1:
            return value
        kind = value.kind if isinstance(value.kind, np.dtype) else dtype
        return self._constant(value.scalar, kind)

    def _constant(self, scalar: Any, dtype: np.dtype[Any]) -> FormulaValue:
        node = constant(scalar, dtype)
        number = self._constants.get((dtype, node.data))
        if number is None:
            self._nodes.append(node)
            number = self._constants[dtype, node.data] = -1 - len(self._nodes)
        return FormulaValue(number, dtype)

    def _node(self, op: str | UfuncReference, args: Sequence[FormulaValue], dtype: np.dtype[Any]) -> FormulaValue:
        numbers = tuple(arg.number for arg in args)
        name, ufunc = (op, None) if isinstance(op, str) else (op.name, op)
        self._nodes.append(Node(name, numbers, dtype, b"", ufunc, self.raises, self.warns, self.text))
        return FormulaValue(-1 - len(self._nodes), dtype)


def _fits(value: FormulaValue, dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` can hold a scalar."""
    if value.kind is not int:
        return True
    try:
        np.array(value.scalar, dtype)
    except OverflowError:
        return False
    return True


def broadcast_shape(inputs: Sequence[TensorData], shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Broadcast shape of all inputs; computes unknown lengths where they decide."""
    try:
        return broadcast_lengths(shapes)
    except NeedsLengthError:
        shapes[: len(inputs)] = [Tensor(data)._resolved().shape for data in inputs]
        return broadcast_lengths(shapes)


def _common_splits(shape: tuple[int, ...], inputs: Sequence[TensorData], splits: Splits | None) -> Splits:
    """Splits of a result: the inputs' where they agree or nearly so, else their common refinement.

    Where no input is cut, and the caller knows how the result is to be cut, `splits`. Where the refinement has many
    times the chunks of every input, as of rows and columns in `d + d.T`, the cuts of the input with most chunks.
    """
    first = next((data.chunks for data in inputs if data.shape == shape), None)
    if first is not None and all(data.chunks == first for data in inputs):
        return first
    found: list[tuple[int, ...]] = []
    for axis, length in enumerate(shape):
        cuts = []
        for data in inputs:
            own = axis - len(shape) + len(data.shape)
            if own >= 0 and data.shape[own] == length:
                cuts.append(data.chunks[own])
        if splits is not None and all(len(cut) == 1 for cut in cuts):
            found.append(splits[axis])
        else:
            found.append(agreed_splits(cuts) if cuts else (length,))
    alike = [data.chunks for data in inputs if data.shape == shape and not data.has_unknown_lengths]
    finest = max(alike, key=_count, default=None)
    return tuple(found) if finest is None or _count(found) <= RECHUNK_TIMES * _count(finest) else finest


def _count(splits: Sequence[Sequence[Any]]) -> int:
    return math.prod(map(len, splits))


def _input_splits(data: TensorData, chunks: Splits) -> Splits:
    """Splits that an input needs to match a result with splits `chunks`."""
    if data.chunks == chunks:
        return chunks
    there = chunks[len(chunks) - len(data.shape) :]
    return tuple(cut if axis_length(cut) == length else (length,) for cut, length in zip(there, data.shape))


@dataclass(frozen=True, eq=False)
class ElementwiseOperand(Operand):
    """Computes an expression on the chunks of the inputs; inputs have equal splits or broadcast."""

    function: str
    expression: Expression
    splits: Splits  # of the output; an expression without inputs has no other source for them
    name: ClassVar[str] = "elementwise"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Identifies the operand by expression and splits."""
        return ("elementwise", self.expression, self.splits)

    @property
    def rows_together(self) -> int:
        """The least number for all inputs that have rows."""
        rows = [one.op.rows_together for one in self.inputs if len(one.shape) == len(self.splits) and one.shape[0] > 1]
        return math.lcm(*rows or [0])

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf:
        """The same part of all inputs; axes of length 1 stay."""
        reads = []
        for number, meta in enumerate(inputs):
            own = kept[len(kept) - len(meta.shape) :]
            reads.append((number, tuple(range(1) if n == 1 else axis for axis, n in zip(own, meta.shape))))
        return PartOf(replace(self, splits=splits_of(kept, output)), reads)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per output chunk; chunks of equal shape share a program."""
        grid = output.grid
        if not is_known([output.shape]):
            return self._tile_unknown(builder, inputs, output)
        shapes, which = shape_classes(output.chunks)
        programs = []
        for shape in shapes:
            chunk = ChunkType(shape, output.dtype)
            types = [ChunkType(_input_shape(shape, g, output), g.dtype) for g in inputs]
            programs.append(single(self.function, types, Step(self.expression, tuple(range(len(types))), chunk)))
        ids = [np.broadcast_to(g.ids, grid).reshape(-1) for g in inputs]
        rows = np.stack(ids, axis=1) if ids else np.empty((which.size, 0), np.int64)
        return builder.add_many(programs, which.reshape(-1), rows).reshape(grid)

    def _tile_unknown(
        self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta
    ) -> NDArray[np.int64]:
        """Tiles chunks whose shape only a run can tell."""
        grid = output.grid
        kinds, which = chunk_classes([[length_kind(n) for n in axis] for axis in output.chunks])
        programs = []
        for shape in kinds:
            types = [chunk_type(_input_shape(shape, g, output), g.dtype) for g in inputs]
            step = Call(run_expression, (self.expression,), tuple(range(len(types))), chunk_type(shape, output.dtype))
            programs.append(single(self.function, types, step))
        rows = np.stack([np.broadcast_to(g.ids, grid).reshape(-1) for g in inputs], axis=1)
        return builder.add_many(programs, which.reshape(-1), rows).reshape(grid)


def _input_shape(shape: tuple[int, ...], grid: ChunkGrid, output: TensorMeta) -> tuple[int, ...]:
    """Shape of the input chunk that belongs to an output chunk of `shape`."""
    skipped = len(shape) - len(grid.splits)
    return tuple(
        length if own == whole else 1
        for length, own, whole in zip(shape[skipped:], grid.splits, output.chunks[skipped:])
    )


# modules between the user's line and the function that makes an elementwise operation
_BETWEEN = {
    "jmars.tensor.deferring",
    "jmars.tensor.methods",
    "jmars.tensor.tensor",
    "jmars.tensor.protocols",
    "jmars.tensor.small_values",
    "jmars.tensor.ops.numpy_code",
    "jmars.tensor.ops.ufunc_methods",
    "jmars.tensor.ops.ufuncs",
}
_MATCHING = (RuntimeWarning, Warning)  # categories of filters that concern a RuntimeWarning
_known: tuple[list[Any], dict[tuple[str, int], int]] = ([], {})  # filters, and what they ignore by name and bits


def handled_errors(name: str) -> tuple[tuple[str, ...], int]:
    """Errors of a function of NumPy's that raise, as NumPy names them, and errors that become warnings.

    The latter are bits of `float_errors.BITS`.

    Examples
    --------
    >>> with np.errstate(divide="raise", over="ignore", under="ignore", invalid="ignore"):
    ...     handled_errors("divide")
    (('divide',), 0)
    """
    raises, bits = _by_action(*np.geterr().values())
    if not bits or not _is_users(sys._getframe(1)):
        return raises, 0
    return raises, bits & ~_ignored(name, bits)


@lru_cache
def _by_action(*actions: str) -> tuple[tuple[str, ...], int]:
    """Errors that raise, and bits of errors that warn, by the actions that `np.geterr` gives in order."""
    kinds = dict(zip(np.geterr(), actions, strict=True))
    raises = tuple(kind for kind, action in kinds.items() if action == "raise")
    return raises, sum(BITS[kind] for kind, action in kinds.items() if action == "warn")


def _is_users(frame: FrameType | None) -> bool:
    """Whether a line outside of jmars and NumPy called the function, and no library that follows the array API.

    The standard has no `np.errstate`, so code written for it cannot turn warnings off, and expects none. A library that
    asks for the namespace, and calls NumPy's function (xarray), knows `np.errstate`.
    """
    is_numpys = False
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name not in _BETWEEN and not is_plain_hook(frame.f_code):
            follows = not is_numpys and package(frame) in by_standard and is_library(frame)
            return not (follows or name.startswith(("jmars.", "numpy.")))
        is_numpys = is_numpys or frame.f_code.co_name == "__array_ufunc__"
        frame = frame.f_back
    return False


def _ignored(name: str, bits: int) -> int:
    """Errors whose warnings Python's filters ignore wherever they come from; remembered until the filters change."""
    global _known
    filters, known = _known
    if filters != warnings.filters:
        _known = filters, known = list(warnings.filters), {}
    found = known.get((name, bits))
    if found is None:
        texts = {bit: f"{words} encountered in {name}" for bit, words in WORDS.items() if bits & bit}
        found = known[name, bits] = sum(bit for bit, text in texts.items() if is_ignored(text))
    return found


def is_ignored(text: str) -> bool:
    """Whether Python's filters ignore a RuntimeWarning of this text, wherever the warning comes from.

    Examples
    --------
    >>> with warnings.catch_warnings():
    ...     warnings.filterwarnings("ignore", "Mean of empty")
    ...     is_ignored("Mean of empty slice")
    True
    """
    for action, wanted, category, module, line in warnings.filters:
        if category in _MATCHING and (wanted is None or wanted.match(text)):
            everywhere = module is None and not line
            if everywhere or action != "ignore":
                return bool(action == "ignore")
    return False


@offers("real")
def real(val: Any) -> Tensor:
    """`np.real`: a view of a complex array, a real array itself."""
    x = as_tensor(+val if isinstance(val, bool) else val)  # Python's True.real is 1
    return _half("real", x, val) if x.dtype.kind == "c" else x


@offers("imag")
def imag(val: Any) -> Tensor:
    """`np.imag`: a view of a complex array, zeros that cannot be written for other arrays."""
    x = as_tensor(+val if isinstance(val, bool) else val)
    if x.dtype.kind == "c":
        return _half("imag", x, val)
    zeros = cast(Tensor, call("zeros_like", x))
    zeros.flags.writeable = False
    return zeros


def _half(name: str, x: Tensor, val: Any) -> Tensor:
    halving = step(
        lambda whole: _read(name, whole),
        lambda whole, part: cast(Tensor, call("method.with_complex_part", whole, name, part)),
        lambda array: getattr(array, name),
    )
    return share(_read(name, x), val, halving)


def _read(name: str, x: Tensor) -> Tensor:
    formula = Formula(name)
    return formula.tensor(formula.part(name, formula.read(x)), x.shape, x.chunks)
