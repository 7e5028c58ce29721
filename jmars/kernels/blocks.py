"""Blocks of a chunk that fit the second-level cache; memory that kernels use again; the processor's flags.

Neighbouring axes on which every input is whole, or broadcast in the same way, are joined first, so that arrays of equal
shape become a single long axis. Blocks cover the chunk in C order without gaps.

A large array that the C library just mapped costs 2 to 9 times as much to write as an array whose pages are there.
Dask's workers give every array back to the system at once (`MALLOC_TRIM_THRESHOLD_`), so chunks that do not leave a
kernel or a group are kept here for the next chunk of the same type. A thread has such spares only between
`open_spares` and `close_spares`: in a kernel, in a group, or for good in a worker of an engine and, a few, in a client
that computes small values.

Machine code and numexpr tell NumPy of no error; the processor's floating point flags say that some element had an
error, or that a comparison met NaN. So NumPy computes the elements once more, and drops them: it calls the handler
(float_errors.py) for the errors that it warns of. Without an error that takes a call of a C function for each block,
and no second computation.
Source: C standard library, <fenv.h>; docs/decisions/0055-warnings-of-workers.md.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import platform
import threading
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from functools import lru_cache
from sys import getrefcount
from typing import Any

import numpy as np
from msgspec import Struct

from jmars.kernels.numpy_backend import block_body
from jmars.kernels.program import Elementwise
from jmars.model.limits import REMEMBERED_PROGRAMS

BLOCK_SIZE = 16384  # elements; 128 KiB of float64: four buffers fit in 1 MiB (measured: 16 Ki best, 8-64 Ki near)

Index = tuple[int | slice, ...]


class Blocks(Struct, frozen=True):
    """The blocks of `shape` after joining axes.

    Examples
    --------
    >>> Blocks.of((4, 6), [(4, 6), (4, 6)]).shape
    (24,)
    >>> Blocks.of((4, 6), [(4, 6), (6,)]).shape
    (4, 6)
    """

    shape: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]  # shape of each operand with the same axes; length 1 where broadcast
    whole: tuple[int, ...] = ()  # shape that decides the cuts; empty for `shape`

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        operands: Sequence[tuple[int, ...]],
        apart: bool = False,
        whole: tuple[int, ...] = (),
    ) -> Blocks:
        """Join the axes of `shape` that all `operands` (broadcastable to `shape`) treat alike; none if `apart`.

        With `whole` the array is a part of an array of that shape, and is cut as that array is.
        """
        full = [(1,) * (len(shape) - len(operand)) + operand for operand in operands]
        groups: list[list[int]] = []
        pattern: list[bool] | None = None
        for axis, length in enumerate(whole or shape):
            if length == 1:  # belongs to any group
                continue
            here = [operand[axis] == 1 < shape[axis] for operand in full]
            if pattern is not None and here == pattern and not apart:
                groups[-1].append(axis)
            else:
                groups.append([axis])
                pattern = here
        if not groups:  # zero dimensions
            groups = [[]]
        return cls(
            tuple(math.prod(shape[axis] for axis in group) for group in groups),
            tuple(tuple(math.prod(operand[axis] for axis in group) for group in groups) for operand in full),
            tuple(math.prod(whole[axis] for axis in group) for group in groups) if whole else (),
        )

    def cut(self, block_size: int = BLOCK_SIZE) -> Iterator[tuple[int, tuple[int, ...], Index, list[Index]]]:
        """Yield (start in C order, shape, index in the whole, index in each input) for all blocks.

        A block has at most `block_size` elements. Leading axes are indexed by numbers and vanish from the block.
        """
        axis = self.cut_axis(block_size)
        row = math.prod(self.shape[axis + 1 :])  # elements per step along `axis`
        step = max(1, block_size // max(math.prod((self.whole or self.shape)[axis + 1 :]), 1))
        length = self.shape[axis]
        whole = slice(None)
        start = 0
        for lead in itertools.product(*map(range, self.shape[:axis])):
            leads = [tuple(0 if n == 1 else i for i, n in zip(lead, operand)) for operand in self.operands]
            for low in range(0, length, step):
                high = min(low + step, length)
                part = slice(low, high)
                inputs = [(*at, whole if n[axis] == 1 else part) for at, n in zip(leads, self.operands)]
                yield start, (high - low, *self.shape[axis + 1 :]), (*lead, part), inputs
                start += (high - low) * row

    def cut_axis(self, block_size: int) -> int:
        """The axis that is cut: earlier axes are iterated index by index, later axes stay whole."""
        axis, shape = 0, self.whole or self.shape
        while axis < len(shape) - 1 and math.prod(shape[axis + 1 :]) > block_size:
            axis += 1
        return axis


Array = np.ndarray[Any, Any]
SPARE_BYTES = 3 * 2**25  # of arrays that a thread keeps: of two chunks of 32 MiB, each a little longer or shorter
SMALL = 2**16  # bytes of an array that the C library keeps by itself

_own = threading.local()


def scratch(slot: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Buffer number `slot` of this thread as an array with arbitrary content."""
    size = math.prod(shape) * dtype.itemsize
    buffers: dict[Any, Array] = _own.__dict__
    buffer = buffers.get(slot)
    if buffer is None or buffer.nbytes < size:
        buffer = buffers[slot] = np.empty(max(size, 64), np.uint8)
    return buffer[:size].view(dtype).reshape(shape)


class _Spares:
    """Arrays that were given back, by shape and dtype; the type that was given back longest ago is dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most  # bytes
        self._arrays: dict[tuple[tuple[int, ...], np.dtype[Any]], list[Array]] = {}
        self._nbytes = 0

    def add(self, array: Array) -> None:
        """Keep an array, unless it is too large."""
        if array.nbytes > self._most:
            return
        kind = array.shape, array.dtype
        alike = self._arrays.pop(kind, [])
        alike.append(array)
        self._arrays[kind] = alike
        self._nbytes += array.nbytes
        while self._nbytes > self._most:
            oldest = next(iter(self._arrays))
            self._nbytes -= self._arrays[oldest].pop(0).nbytes
            if not self._arrays[oldest]:
                del self._arrays[oldest]

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """The newest array of a type, which is kept no more; None if there is none."""
        alike = self._arrays.get((shape, dtype))
        if alike is None:
            return None
        array = alike.pop()
        if not alike:
            del self._arrays[shape, dtype]
        self._nbytes -= array.nbytes
        return array


def open_spares(most: int = SPARE_BYTES) -> bool:
    """Keep at most `most` bytes of arrays that are given back from now on; False where this thread does so already."""
    if "spare" in _own.__dict__:
        return False
    _own.__dict__["spare"] = _Spares(most)
    return True


def close_spares() -> None:
    """Free the arrays that were given back, and keep no more."""
    del _own.__dict__["spare"]


def spare_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array with arbitrary content: a given back array of this thread, or a new array."""
    spares: _Spares | None = _own.__dict__.get("spare")
    found = None if spares is None else spares.take(shape, dtype)
    return np.empty(shape, dtype) if found is None else found


def give_back(arrays: MutableSequence[Any], place: int) -> None:
    """Remove `arrays[place]`, and keep the memory for `spare_array` unless there are other references.

    Examples
    --------
    >>> opened, arrays = open_spares(), [np.zeros(10**5)]
    >>> was = arrays[0].ctypes.data
    >>> give_back(arrays, 0)
    >>> arrays, spare_array((10**5,), np.dtype("f8")).ctypes.data == was
    ([None], True)
    >>> close_spares()
    """
    array, arrays[place] = arrays[place], None
    spares: _Spares | None = _own.__dict__.get("spare")
    if spares is None:
        return
    if type(array) is np.ndarray and type(array.base) is np.ndarray:
        array = array.base  # the last view of an array
    if type(array) is not np.ndarray or array.nbytes <= SMALL or array.dtype.hasobject:
        return
    held = [array]
    del array
    if held[0].flags.owndata and _references(held) == _ALONE:
        held[0].setflags(write=True)
        spares.add(held[0])


def _references(held: list[Any]) -> int:
    """References to the entry of a list: from the list, and from this call, whose number differs between Pythons."""
    return getrefcount(held[0])


_ALONE = _references([object()])


_SLOTS = 1000  # first scratch slot for recomputation of a block; the slots below are in use meanwhile
# flags of <fenv.h> by bit of `float_errors.BITS`; processors differ
_FLAGS = {"x86_64": {1: 4, 2: 8, 4: 16, 8: 1}, "aarch64": {1: 2, 2: 4, 4: 8, 8: 1}}


@lru_cache(maxsize=1)
def _library() -> Any:
    return ctypes.PyDLL(None)  # the interpreter's own symbols, libm included; keeps the GIL, since calls are short


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def watched_flags(middle: Elementwise) -> int:
    """The processor's flags of the errors that nodes of an expression are to be warned of; 0 where there are none.

    Of other processors than those of `_FLAGS` no flags are read.
    """
    bits = 0
    for node in middle.expression.nodes:
        bits |= node.warns
    return sum(flag for bit, flag in _FLAGS.get(platform.machine(), {}).items() if bits & bit)


def clear_flags(flags: int) -> None:
    """Clear flags of this thread."""
    _library().feclearexcept(flags)


def is_flagged(flags: int) -> bool:
    """Whether one of the flags of this thread is set."""
    return bool(_library().fetestexcept(flags))


def recomputed(middle: Elementwise, apart: bool = False) -> Callable[[Sequence[Any], Sequence[tuple[int, ...]]], None]:
    """`run(values, shapes)` computes a step by NumPy and drops the elements, so that the handler hears of errors.

    Parameters
    ----------
    middle
        The step; the values are those of its program, and `shapes` are the shapes of those that the step reads.
    apart
        Whether rows of the values may lie apart.
    """
    body = block_body(middle.expression, middle.twin)

    def run(values: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> None:
        blocks = Blocks.of(middle.output.shape, shapes, apart=apart)
        inputs = [values[slot].reshape(shape) for slot, shape in zip(middle.inputs, blocks.operands)]
        for _, shape, _, at in blocks.cut():
            _compute(body, shape, middle.output.dtype, [x[i] for x, i in zip(inputs, at)])

    return run


def watched(compute: Callable[..., None], middle: Elementwise) -> Callable[..., None]:
    """`compute(out, *parts)` of a block, with the block computed again by NumPy where flags tell of an error."""
    flags = watched_flags(middle)
    if not flags:
        return compute
    body = block_body(middle.expression, middle.twin)

    def run(out: Array, *parts: Array) -> None:
        clear_flags(flags)
        compute(out, *parts)
        if is_flagged(flags):
            _compute(body, out.shape, out.dtype, parts)

    return run


def _compute(body: Any, shape: tuple[int, ...], dtype: np.dtype[Any], parts: Sequence[Array]) -> None:
    buffers = [scratch(_SLOTS + 1 + k, shape, kind) for k, kind in enumerate(body.buffers)]
    body.run(scratch(_SLOTS, shape, dtype), *parts, *buffers)
