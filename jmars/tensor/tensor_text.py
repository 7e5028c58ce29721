"""How a tensor is shown: as text, in NumPy's format, and in a notebook with a picture of the chunks.

Of a large tensor only the corners are fetched. The picture of a large or lazy array tells shape, dtype and bytes; the
picture is an `<img>` with the SVG inside, shown by trusted and other notebooks, in colours that light and dark themes
bear.
"""

from __future__ import annotations

import itertools
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.tensor.engine import current_engine, get_engine
from jmars.tensor.operand import Unknown
from jmars.units import format_bytes

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

SHOWN = 6  # lengths of chunks that the text of an axis has at most


def description(x: Tensor) -> str:
    """Text of a tensor without value."""
    known = f"shape={x.data.shape}, dtype={x.dtype}, chunks={chunks_text(x.data.chunks)}"
    return f"Tensor({known.replace('nan', '?')}, op={x.data.op.label!r})"


def chunks_text(splits: Sequence[Sequence[Any]]) -> str:
    """Lengths of the chunks along the axes; a long axis is abbreviated.

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
    if (elements := x._place.source) is not None:
        return write(elements)
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
    """The repr of corners of shape `shown` with a different shape, and the line broken where NumPy breaks.

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


SIDE = 120  # pixels of the longer side of the picture
LEAST = 18  # pixels of the shorter side
MOST_LINES = 40  # between chunks along an axis; of more, some are drawn

_LINE, _FILL = "#6f7f95", "#7f9fd0"


def mimebundle(x: Tensor, text: str) -> dict[str, str]:
    """Text of a tensor by MIME type: plain, and HTML unless the plain text has the whole value."""
    engine = current_engine()
    shown = engine is not None and engine.shows(x.data)
    if shown and x.size <= np.get_printoptions()["threshold"]:
        return {"text/plain": text}
    return {"text/plain": text, "text/html": _html(x, text if shown else "")}


def _html(x: Tensor, value: str) -> str:
    from html import escape  # a notebook shows a tensor; programs and workers load no table of HTML's entities

    rows = [(name, escape(text)) for name, text in _facts(x)]
    table = "".join(
        f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{text}</td></tr>"
        for name, text in rows
    )
    picture = _picture(x)
    shown = f"<pre style='margin:4px 0'>{escape(value)}</pre>" if value else ""
    cells = f"<td style='vertical-align:top'><table>{table}</table></td><td>{picture}</td>"
    return f"<div><table><tr style='background:none'>{cells}</tr></table>{shown}</div>"


def _facts(x: Tensor) -> Iterable[tuple[str, str]]:
    """Name and text of all facts."""
    node = x.data
    engine = current_engine()
    yield "array", f"{_lengths(node.shape)} {node.dtype}"
    count = math.prod(map(len, node.chunks))
    if node.has_unknown_lengths:
        yield "bytes", "known when it is computed"
        yield "chunks", str(count)
    else:
        nbytes = math.prod(node.shape) * node.dtype.itemsize
        yield "bytes", format_bytes(nbytes)
        largest = [max(axis, default=0) for axis in node.chunks]
        each = f" of up to {_lengths(largest)}, {format_bytes(math.prod(largest) * node.dtype.itemsize)}"
        yield "chunks", f"{count}{each if count > 1 else ''}"
    yield "made by", node.op.label
    if engine is not None and engine.held(node):
        yield "value", "computed"
    else:
        yield (
            "value",
            "only computed as far as shown" if engine is not None and engine.shows(node) else "not computed yet",
        )


def _lengths(shape: Sequence[Any]) -> str:
    return " × ".join("?" if isinstance(n, Unknown) else f"{n:,}" for n in shape) if shape else "no axes,"


def _picture(x: Tensor) -> str:
    """The chunks along the last two axes."""
    splits = x.data.chunks[-2:]
    if not splits or x.data.has_unknown_lengths or not all(map(sum, splits)):
        return ""
    rows, columns = splits if len(splits) == 2 else ((1,), *splits)
    height, width = _sides(sum(rows), sum(columns))
    behind = min(3, math.prod(map(len, x.data.chunks[:-2])) - 1) if x.ndim > 2 else 0
    shift = 5 * behind
    box = f'width="{width}" height="{height}" stroke="{_LINE}"'
    parts = [f'<rect x="{1 + 5 * k}" y="{1 + shift - 5 * k}" {box} fill="none"/>' for k in range(behind, 0, -1)]
    parts.append(f'<rect x="1" y="{1 + shift}" {box} stroke-width="1.5" fill="{_FILL}" fill-opacity="0.25"/>')
    for at in _cuts(rows, height):
        parts.append(_segment(1, 1 + shift + at, 1 + width, 1 + shift + at))
    for at in _cuts(columns, width):
        parts.append(_segment(1 + at, 1 + shift, 1 + at, 1 + shift + height))
    size = f'width="{width + shift + 2:g}" height="{height + shift + 2:g}"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'
    what = f"{math.prod(map(len, x.data.chunks))} chunks"
    return f'<img alt="{what}" title="{what}" src="data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"/>'


def _sides(rows: int, columns: int) -> tuple[float, float]:
    """Height and width in pixels, of nearly the true ratio."""
    ratio = min(rows, columns) / max(rows, columns)
    short = round(max(LEAST, SIDE * ratio))
    return (short, SIDE) if rows < columns else (SIDE, short)


def _cuts(lengths: Sequence[int], pixels: float) -> list[float]:
    """Places of the lines between chunks; of many chunks some."""
    stops = list(accumulate(lengths))[:-1]
    step = -(-len(stops) // MOST_LINES) if stops else 1
    return [round(stop / sum(lengths) * pixels, 1) for stop in stops[::step]]


def _segment(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{_LINE}" stroke-width="0.7"/>'
