"""Doubles of a PCG64 sequence, each taken at its place: by NumPy, or by the same steps in native/draws.c.

NumPy draws 1.6 ns a double and takes two microseconds for each run of elements that does not follow the one before it;
C takes 1.1 ns and a tenth of a microsecond. The bits are the same. Used by random_chunks.py.
Source: O'Neill 2014 (PCG, jumping ahead).
"""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.kernels.program import ChunkType, Fill
from jmars.native import library
from jmars.tensor.ops.random.streams import Stream, open_generator

__all__ = ["open_doubles", "run_axis"]

Array = np.ndarray[Any, Any]
_HALF = 2**64 - 1


def run_axis(shape: tuple[int, ...], whole: tuple[int, ...]) -> int:
    """The axis of a chunk behind which it is as wide as the whole: its elements follow one another from there on.

    Examples
    --------
    >>> run_axis((5, 2, 40), (9, 9, 40)), run_axis((5, 9, 40), (9, 9, 40)), run_axis((), ())
    (1, 0, 0)
    """
    axis = len(whole) - 1
    while axis > 0 and shape[axis] == whole[axis]:
        axis -= 1
    return max(axis, 0)


def open_doubles(params: tuple[Any, ...], arg: tuple[Stream, tuple[int, ...]], output: ChunkType) -> Fill:
    """Writes the doubles of a chunk; each run of elements that follow one another in the whole is one jump."""
    scale, whole = params
    stream, corner = arg
    strides = [math.prod(whole[axis + 1 :]) for axis in range(len(whole))]
    axis = run_axis(output.shape, whole)
    lead, run = output.shape[:axis], math.prod(output.shape[axis:])
    begin = sum(c * s for c, s in zip(corner, strides))
    write = _by_c(stream, begin, run, lead, strides[:axis]) or _by_numpy(stream, begin, run, lead, strides[:axis])
    if scale is None:
        return write

    def fill(out: Array, start: int) -> None:
        write(out, start)
        np.multiply(out, scale[1], out=out)
        np.add(out, scale[0], out=out)

    return fill


def _by_numpy(stream: Stream, begin: int, run: int, lead: Sequence[int], strides: Sequence[int]) -> Fill:
    """Runs of `run` elements, the next along an axis of `lead` so many `strides` further on."""
    generator = open_generator(stream)
    advance = generator.bit_generator.advance
    at = 0  # numbers taken

    def fill(out: Array, start: int) -> None:
        nonlocal at
        done = 0
        while done < out.size:
            row, within = divmod(start + done, run)
            there = begin + within
            for length, stride in zip(reversed(lead), reversed(strides)):
                row, i = divmod(row, length)
                there += i * stride
            n = min(run - within, out.size - done)
            if there != at:
                advance(there - at)
            generator.random(out=out[done : done + n])
            at = there + n
            done += n

    return fill


def _by_c(stream: Stream, begin: int, run: int, lead: Sequence[int], strides: Sequence[int]) -> Fill | None:
    """The same in C; None where that is not there."""
    loops = library()
    if loops is None or not loops.jm_doubles_there():
        return None
    state = json.loads(stream[0])["state"]
    halves = [state["state"] >> 64, state["state"] & _HALF, state["inc"] >> 64, state["inc"] & _HALF]
    generator, axes = (ctypes.c_uint64 * 4)(*halves), len(lead)
    lengths, steps = (ctypes.c_int64 * axes)(*lead), (ctypes.c_int64 * axes)(*strides)
    call, number = loops.jm_doubles, ctypes.c_int64

    def fill(out: Array, start: int) -> None:
        assert out.flags.c_contiguous
        to = ctypes.c_void_p(out.ctypes.data)
        call(generator, number(begin), number(start), number(out.size), number(run), number(axes), lengths, steps, to)

    return fill
