"""Parts of a chunk, along each axis a start, a count and a step: as views where a pass over elements follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.kernels.program import Call, ChunkType

__all__ = ["copy_slice", "has_rows", "local_slice", "part_step", "view_slice"]

Array = np.ndarray[Any, Any]


def part_step(chunk: ChunkType, params: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> Call:
    """The step that gives a part of a chunk, of any shape; `params` are (count, step) for each axis."""
    view = view_slice if has_rows(chunk.shape, params) else None
    return Call(copy_slice, params, (0,), ChunkType(shape, chunk.dtype), True, view=view)


def copy_slice(out: Array, inputs: Sequence[Array], params: tuple[tuple[int, int], ...], arg: tuple[int, ...]) -> None:
    """Copies the part of a chunk that begins at `arg`; `params` are (count, step) for each axis."""
    part = view_slice(inputs[0], params, arg)
    assert math.prod(part.shape) == out.size
    np.copyto(out.reshape(part.shape), part)


def has_rows(shape: tuple[int, ...], params: Sequence[tuple[int, int]]) -> bool:
    """Whether a slice of a chunk of `shape` has contiguous rows: NumPy's last bits differ where elements lie apart."""
    inner = next((count for n, (count, _) in zip(reversed(shape), reversed(params)) if n > 1), 2)
    return inner > 1 and all(step == 1 for _, step in params)


def view_slice(chunk: Array, params: tuple[tuple[int, int], ...], arg: tuple[int, ...]) -> Array:
    """The part of a chunk that begins at `arg`, as a view; `params` are (count, step) for each axis."""
    index: tuple[Any, ...] = (*(local_slice(at, count, step) for at, (count, step) in zip(arg, params)), ...)
    part: Array = chunk[index]
    return part


def local_slice(start: int, count: int, step: int) -> slice:
    """Slice that selects `count` elements from `start`; `step` may be negative."""
    stop = start + count * step
    return slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0)
