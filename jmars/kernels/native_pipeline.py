"""Compiles a region to machine code where the expression allows; same interface as pipeline.py.

A chunk without generators goes to its routine a million elements at a time, and `stop` is asked in between; if a sum
over the whole chunk follows, only a number for each block is written, joined as `Accumulator` joins blocks. With
generators or other reductions the routine runs block by block. NumPy computes blocks that lie outside the domain of a
formula (elementwise.py). A thread begins to compile when the kernel is made; the first operand waits for the thread, so
that values never depend on how long compiling takes.

`marked` chooses the back end of each program: machine code or numexpr if the expressions save more time in a run than
compiling or importing takes, or as the switches say. The choice depends on the graph as it will run and on the machine,
never on times measured in a run.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from jmars.kernels.blocks import (
    BLOCK_SIZE,
    Blocks,
    clear_flags,
    is_flagged,
    recomputed,
    scratch,
    watched,
    watched_flags,
)
from jmars.kernels.elementwise import facts, is_exact
from jmars.kernels.expression import CONSTANT, Expression
from jmars.kernels.fusing import regions
from jmars.kernels.numpy_backend import marked_numexpr, whole_function
from jmars.kernels.pipeline import LONE_BLOCK, MIDDLE, Head, Run, Stop, finished, interrupted, pipeline
from jmars.kernels.program import ChunkType, Elementwise, Program, Reduce
from jmars.kernels.reducers import UfuncReducer
from jmars.kernels.routines import Pattern, elementwise_text, llvm_there, load, sums_text
from jmars.kernels.row_chains import RowChain
from jmars.model.limits import REMEMBERED_PROGRAMS

Array = np.ndarray[Any, Any]
SHORTEST = 64  # elements of a row; most of a shorter row is a remainder that does not fill a vector
_PIECE = LONE_BLOCK // BLOCK_SIZE  # blocks that a routine adds up before `stop` is asked


class _Compiling:
    """A routine that a thread compiles."""

    def __init__(self, text: str, inputs: int) -> None:
        self._text, self._inputs = text, inputs
        self._routine: Any = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._compile, name="jmars compiles", daemon=True)
        _under_way.add(self)
        self.thread.start()

    def _compile(self) -> None:
        try:
            self._routine = load(self._text, self._inputs)
        except BaseException as error:  # raised where the routine is requested
            self._error = error
        finally:
            _under_way.discard(self)

    @property
    def call(self) -> Any:
        """The function; waits for the compiler, and raises its error."""
        if self.thread.is_alive():
            self.thread.join()
        if self._routine is None:
            assert self._error is not None
            raise self._error
        return self._routine


_under_way: set[_Compiling] = set()


def settled() -> None:
    """Wait until no routine is being compiled: before memory is capped, or a process forks."""
    for one in list(_under_way):
        one.thread.join()


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def _routine(expression: Expression, pattern: Pattern, state: np.dtype[Any] | None) -> _Compiling | None:
    """The routine that writes the elements, or with `state` the sums of blocks; None where there is no machine code."""
    if state is None:
        text = elementwise_text(expression, pattern)
    else:
        text = sums_text(expression, pattern, state)
    if text is None or not llvm_there():
        return None
    return _Compiling(text, len(expression.inputs))


def native_pipeline(
    heads: Sequence[Head | RowChain],
    middle: Elementwise,
    tail: Reduce | None,
    types: list[ChunkType],
    fast: bool = False,
    strided: bool = False,
) -> Run | None:
    """Compile a region as `pipeline` does; None where the region has no machine code.

    `fast` allows formulas, whose last bits are not NumPy's.
    """
    if (not fast and not is_exact(middle.expression)) or (tail is not None and tail.whole):
        return None
    made = {head.value for head in heads}
    shapes = [types[v].shape for v in middle.inputs]
    kept = tuple(1 if tail and axis in tail.axes else n for axis, n in enumerate(middle.output.shape))
    blocks = Blocks.of(middle.output.shape, [*shapes, kept])
    plain = Blocks.of(middle.output.shape, shapes)
    if middle.output.size <= BLOCK_SIZE:
        return None
    if strided and (tail is not None or made):
        return None
    if strided:
        in_numpy = pipeline(heads, middle, tail, types, strided=True)
        return _elements(middle, Blocks.of(middle.output.shape, shapes, apart=True), in_numpy)
    if tail is None and not made:
        return _elements(middle, plain)
    if tail is not None and not made and len(blocks.shape) == 1 and kept == (1,) * len(kept):
        reducer = tail.reducer
        if isinstance(reducer, UfuncReducer) and reducer.ufunc == "add":
            run = _sum(middle, tail, reducer, blocks)
            if run is not None:
                return run
    if len(plain.shape) == 1:
        compute = _block(middle.expression, _pattern(plain))
        return None if compute is None else pipeline(heads, middle, tail, types, block=compute)
    return None


def _pattern(blocks: Blocks) -> Pattern:
    """Whether all inputs have their own rows and columns."""
    one = len(blocks.shape) == 1
    return tuple((False, o[0] > 1) if one else (o[0] > 1, o[1] > 1) for o in blocks.operands)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _by_numpy(expression: Expression, twin: int = 0) -> Callable[..., None]:
    """The expression on a block, computed by NumPy."""
    whole = whole_function(expression, tuple(range(len(expression.inputs))), twin)
    return lambda out, parts: whole(out, parts)


def native_block(expression: Expression) -> Callable[..., None] | None:
    """`compute(out, *parts)` of contiguous parts of one length; None where there is no machine code."""
    return _block(expression, ((False, True),) * len(expression.inputs))


def _block(expression: Expression, pattern: Pattern) -> Callable[..., None] | None:
    """`compute(out, *parts)` of a block whose inputs are contiguous."""
    routine = _routine(expression, pattern, None)
    if routine is None:
        return None
    slow = _by_numpy(expression)

    def compute(out: Array, *parts: Array) -> None:
        if routine.call(_address(out), *map(_address, parts), 1, out.size):
            slow(out, parts)

    return compute


def _elements(middle: Elementwise, blocks: Blocks, otherwise: Run | None = None) -> Run | None:
    """Every element written, a million at a time; rows are whole where there are some.

    With `otherwise` arrays may be strided; it runs where the elements of their rows lie apart.
    """
    if len(blocks.shape) > 2 or blocks.shape[-1] < SHORTEST:
        return None
    routine = _routine(middle.expression, _pattern(blocks), None)
    if routine is None:
        return None
    slots, slow = middle.inputs, _by_numpy(middle.expression, middle.twin)
    flags, again = watched_flags(middle), recomputed(middle, apart=otherwise is not None)

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        whole, call = out.reshape(blocks.shape), routine.call
        if otherwise is None:
            inputs = [_laid_out(values[slot], shape) for slot, shape in zip(slots, blocks.operands)]
        else:
            inputs = [values[slot].reshape(shape) for slot, shape in zip(slots, blocks.operands)]
            if not all(map(_has_plain_rows, (whole, *inputs))):
                otherwise(out, values, args, stop)
                return
        flagged = False
        for _, shape, index, at in blocks.cut(LONE_BLOCK):
            if flags:
                clear_flags(flags)
            part, parts = whole[index], [x[i] for x, i in zip(inputs, at)]
            rows = shape[0] if len(shape) == 2 else 1
            if otherwise is not None and rows > 1:
                flagged = _row_by_row(call, slow, part, parts) or flagged
            elif call(_address(part), *map(_address, parts), rows, shape[-1]):
                slow(part, parts)
            flagged = flagged or bool(flags and is_flagged(flags))
            if stop is not None and stop():
                raise interrupted()
        if flagged:
            again(values, [values[slot].shape for slot in slots])

    return run


def _laid_out(value: Array, shape: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(value).reshape(shape)


def _has_plain_rows(array: Array) -> bool:
    """Whether each row of an array is contiguous; rows may lie apart."""
    return array.shape[-1] == 1 or array.strides[-1] == array.itemsize


def _row_by_row(call: Callable[..., Any], slow: Callable[..., None], out: Array, parts: Sequence[Array]) -> bool:
    """Compute the contiguous rows of two axes; a single row of an input is read for all rows.

    Returns whether NumPy computed rows; that clears the processor's flags of the other rows.
    """
    at, to = [_address(x) for x in parts], _address(out)
    steps = [x.strides[0] if x.ndim == 2 and len(x) > 1 else 0 for x in parts]
    columns, by_numpy = out.shape[1], False
    for row in range(len(out)):
        if call(to + row * out.strides[0], *(a + row * step for a, step in zip(at, steps)), 1, columns):
            slow(out[row], [x[row if len(x) > 1 else 0] for x in parts])
            by_numpy = True
    return by_numpy


def _sum(middle: Elementwise, tail: Reduce, reducer: UfuncReducer, blocks: Blocks) -> Run | None:
    """Sum a whole chunk: blocks by the routine, the remainder by NumPy, joined in pairs."""
    pattern = _pattern(blocks)[:-1]
    sums = _routine(middle.expression, pattern, reducer.state)
    compute = _block(middle.expression, pattern)
    if sums is None or compute is None:
        return None
    compute = watched(compute, middle)
    (length,) = blocks.shape
    slots, dtype, state_dtype = middle.inputs, middle.output.dtype, reducer.state
    slow = _by_numpy(middle.expression, middle.twin)
    flags, again = watched_flags(middle), recomputed(middle)
    count, rest = divmod(length, BLOCK_SIZE)
    steps = [dtypes.itemsize * own for dtypes, (_, own) in zip(middle.expression.inputs, pattern)]

    def by_numpy(inputs: list[Array], low: int, high: int, write: Callable[..., None]) -> Any:
        parts = [x[low:high] if own else x for x, (_, own) in zip(inputs, pattern)]
        out = scratch(MIDDLE, (high - low,), dtype)
        write(out, parts)
        return np.add.reduce(out, dtype=state_dtype)

    def run(out: Array, values: Sequence[Any], args: Sequence[Any] = (), stop: Stop = None) -> None:
        inputs = [_laid_out(values[slot], shape) for slot, shape in zip(slots, blocks.operands)]
        at, call = [_address(x) for x in inputs], sums.call
        partial = np.empty(count + (rest > 0), state_dtype)
        flagged = False
        to = _address(partial)
        for low in range(0, count, _PIECE):
            high = min(low + _PIECE, count)
            start = [a + step * low * BLOCK_SIZE for a, step in zip(at, steps)]
            if flags:
                clear_flags(flags)
            if call(to + low * state_dtype.itemsize, *start, 1, high - low):
                for k in range(low, high):
                    partial[k] = by_numpy(inputs, k * BLOCK_SIZE, (k + 1) * BLOCK_SIZE, slow)
            flagged = flagged or bool(flags and is_flagged(flags))
            if stop is not None and stop():
                raise interrupted()
        if rest:
            low = count * BLOCK_SIZE
            partial[-1] = by_numpy(inputs, low, length, lambda target, parts: compute(target, *parts))
        if flagged:
            again(values, [values[slot].shape for slot in slots])
        finished(tail, (1,) * len(middle.output.shape), out, lambda state: state.fill(_joined(partial)))

    return run


def _joined(parts: Array) -> Any:
    """Add the sums of blocks in the order of `Accumulator`: pairs of equal weight, odd blocks last."""
    parts = parts + parts.dtype.type(0)  # as in NumPy, whose sums begin with 0.0: a nonempty sum is never -0.0
    odd = []
    while len(parts) > 1:
        if len(parts) % 2:
            odd.append(parts[-1])
        even = len(parts) // 2 * 2
        parts = parts[0:even:2] + parts[1:even:2]
    total, *larger = [*odd, parts[0]]
    for one in larger:
        total = one + total
    return total


LLVM_BYTES = 40 * 2**20  # bytes per executor: 15 MiB, and its share of the library's 60
COMPILING = 0.05  # seconds of an executor, once: the library is loaded, a kernel or two compiled
WORTH = 2  # least ratio of seconds saved to seconds of compilation

_SHORT = -0.4  # ns saved by a formula of float32: NumPy's own are in float32, ours in float64


def saved(expression: Expression) -> float:
    """Seconds that machine code saves for each element; below 0 where NumPy is faster.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.expression import Node
    >>> f8 = np.dtype("f8")
    >>> saved(Expression((f8,), (Node("sqrt", (0,), f8),)))
    7e-10
    """
    total = 0.0
    for node in expression.nodes:
        known = facts(node.op)
        if known.ulps and node.dtype.itemsize < 8:
            total += _SHORT
        elif known.ulps or (node.op != CONSTANT and node.ufunc is None and not node.raises):
            total += known.saved
    return total / 1e9


def marked(
    programs: Sequence[Program], counts: Sequence[int], kernels: str, jit: str, workers: int, room: int | None
) -> list[Program]:
    """Give the programs their back ends; a program stays NumPy's where no other can compute a part of it.

    Parameters
    ----------
    programs
        Those of a graph.
    counts
        How many operands each has.
    kernels
        "numpy" or "numexpr", for all that it can compute; "jit", machine code; "auto": machine code, then numexpr, for
        those that are worth it.
    jit
        Of machine code, "on": all that can be with NumPy's bits; "auto": those of them that are worth it; "fast": those
        worth it, also where a formula is only near NumPy's value (elementwise.py); "off": none.
    workers
        Executors; each of them compiles.
    room
        Bytes that one of them may take; None for any number.
    """
    found = list(programs)
    jit = "on" if (kernels, jit) == ("jit", "auto") else jit
    if kernels in ("auto", "jit"):
        found = _marked_llvm(found, counts, jit, workers, room)
    is_all = kernels == "numexpr"
    return marked_numexpr(found, counts, is_all, workers, BLOCK_SIZE) if is_all or kernels == "auto" else found


def _marked_llvm(
    programs: list[Program], counts: Sequence[int], jit: str, workers: int, room: int | None
) -> list[Program]:
    """The programs, with machine code where `jit` says so."""
    scarce = room is not None and room < 8 * LLVM_BYTES
    if jit == "off" or not llvm_there() or (jit != "on" and scarce):
        return programs
    # seconds of all operands; chunks of other shapes run the same code
    gain: defaultdict[Expression, float] = defaultdict(float)
    fast = jit == "fast"
    for program, count in zip(programs, counts, strict=True):
        for part in _parts(program, fast):
            gain[part.expression] += max(saved(part.expression), 0.0) * part.output.size * count
    least = WORTH * COMPILING * workers

    def shall(program: Program) -> bool:
        pays = jit == "on" or any(gain[part.expression] > least for part in _parts(program, fast))
        return pays and _can(program, fast)

    backend = "llvm-fast" if fast else "llvm"
    return [replace(program, backend=backend) if shall(program) else program for program in programs]


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def _parts(program: Program, fast: bool) -> list[Elementwise]:
    """Steps of a program that may be machine code."""
    steps = (program.steps[one.middle] for one in regions(program.steps, len(program.inputs)) if one.middle is not None)
    return [
        step
        for step in steps
        if isinstance(step, Elementwise) and step.output.size > BLOCK_SIZE and (fast or is_exact(step.expression))
    ]


def _can(program: Program, fast: bool) -> bool:
    """Whether some part of the program can be machine code."""
    own = ((False, True),)
    return any(elementwise_text(one.expression, own * len(one.expression.inputs)) for one in _parts(program, fast))
