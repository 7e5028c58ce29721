"""Formats tensors as NumPy prints arrays; of a large tensor only the corners are fetched."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.tensor.engine import get_engine

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["description", "summary"]

SHOWN = 6  # lengths of chunks that the text of an axis has at most


def description(x: Tensor) -> str:
    """Text of a tensor without value."""
    known = f"shape={x.data.shape}, dtype={x.dtype}, chunks={chunks_text(x.data.chunks)}"
    return f"Tensor({known.replace('nan', '?')}, op={x.data.op.label!r})"


def chunks_text(splits: Sequence[Sequence[Any]]) -> str:
    """Lengths of the chunks along each axis; a long axis is abbreviated.

    Examples
    --------
    >>> chunks_text(((2, 2), (10,) * 30 + (5,)))
    '((2, 2), (10, 10, 10, ..., 5))'
    """
    return f"({', '.join(map(_axis_text, splits))}{',' * (len(splits) == 1)})"


def _axis_text(lengths: Sequence[Any]) -> str:
    if len(lengths) <= SHOWN:
        return repr(tuple(lengths))
    return f"({', '.join(map(repr, lengths[:3]))}, ..., {lengths[-1]!r})"


def summary(x: Tensor, write: Callable[[Any], str]) -> str:
    """Format a tensor's value by `write` (str or repr), abbreviated with dots where NumPy abbreviates."""
    options = np.get_printoptions()
    edge = options["edgeitems"]
    if x.size <= options["threshold"] or max(x.shape) <= 2 * edge:
        return write(x.fetch())
    shown = corners(x, edge)
    with np.printoptions(threshold=0):
        text = write(shown)
    return text if write is str else _with_shape(text, shown.shape, x.shape)


def corners(x: Tensor, edge: int) -> np.ndarray[Any, Any]:
    """Fetch the first `edge` + 1 and last `edge` elements of long axes; NumPy prints dots for the middle element."""
    ranges = [[slice(0, edge + 1), slice(n - edge, n)] if n > 2 * edge + 1 else [slice(0, n)] for n in x.shape]
    parts = [(at, x[at]) for at in itertools.product(*ranges)]
    get_engine().execute([part.data for _, part in parts])
    lengths = [min(n, 2 * edge + 1) for n in x.shape]
    out = np.empty(lengths, x.dtype)
    for at, part in parts:
        there = tuple(s if s.start == 0 else slice(n - edge, n) for s, n in zip(at, lengths))
        out[there] = part.fetch(copy=False)
    return out


def _with_shape(text: str, shown: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """The repr of corners of shape `shown` with another shape, and the line broken before it where NumPy breaks it.

    Examples
    --------
    >>> with np.printoptions(linewidth=40):
    ...     print(_with_shape("array([0, 1, ..., 8, 9], shape=(5,), dtype=int8)", (5,), (10,)))
    array([0, 1, ..., 8, 9],
          shape=(10,), dtype=int8)
    """
    elements, note, rest = text.rpartition(f"shape={shown}")
    if not note:
        return text  # NumPy before 2.2
    elements, extras = elements.rstrip(), f"shape={shape}{rest}"
    last_line = len(elements) - (elements.rfind("\n") + 1)
    fits = last_line + 1 + len(extras) <= np.get_printoptions()["linewidth"]
    return f"{elements} {extras}" if fits else f"{elements}\n{' ' * len('array(')}{extras}"
