"""The graph for the live view: the chunk graph before and after fusion, and the layers of both.

`graph_built` gives the data of a GraphBuilt event, `prediction` the plan's part, `with_lines` a run's own lines. Small
graphs travel edge by edge; of large graphs only the graph of layers (a box per tensor operand before, a box per kind of
fused operand after) travels, with the boxes of all operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import ChunkType, program_text
from jmars.optimize.passes import Compiled
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.source_line import SourceLine

__all__ = ["SMALL", "graph_built", "prediction", "with_lines"]

SMALL = 1500  # operands up to which every edge is drawn
_NAME = 80  # characters of a label
_TEXT = 300  # characters of an expression


class _Assigned(Protocol):
    """Workers planned for the first operands: a plan of any kind."""

    @property
    def assign(self) -> NDArray[np.int16]:
        """Worker of each operand, -1 for none."""


def graph_built(compiled: Compiled, plan: _Assigned, workers: Sequence[str]) -> dict[str, Any]:
    """The data of a GraphBuilt event, but for the user's lines; docs/reference/events.md explains the fields."""
    before, after = compiled.before, compiled.after
    small = before.n <= SMALL
    before_src, before_dst = _edges(before)
    after_src, after_dst = _edges(after)
    labels = [_label(after, k) for k in range(-1, len(after.programs))]
    kinds, after_group = np.unique(np.stack([after.layer, after.program]), axis=1, return_inverse=True)
    group = after_group.reshape(-1)
    return {
        "stages": [],
        "n_before": before.n,
        "n_after": after.n,
        "workers": list(workers),
        "before_src": _u4(before_src) if small else b"",
        "before_dst": _u4(before_dst) if small else b"",
        "before_stage": _u4(before.layer),
        "before_group": _u4(compiled.group),
        "after_src": _u4(after_src) if small else b"",
        "after_dst": _u4(after_dst) if small else b"",
        "after_labels": [labels[k + 1] for k in after.program.tolist()] if small else [],
        "after_group": _u4(group),
        "after_nbefore": _u4(np.bincount(compiled.group[compiled.group >= 0], minlength=after.n)),
        "stage_edges": _between(before.layer, before_src, before_dst),
        "group_labels": [labels[k + 1] for k in kinds[1].tolist()],
        "group_edges": _between(group, after_src, after_dst),
        "group_program": _u4(kinds[1]),
        "group_types": _types(after, kinds[1], group) if kinds.shape[1] <= SMALL else [],
        "group_texts": [_text(after, k) for k in kinds[1].tolist()] if kinds.shape[1] <= SMALL else [],
        "before_chunk": _u4(_chunk_numbers(before)) if small else b"",
        "stage_grids": [list(ids.shape) for ids in before.grids] if small else [],
        "assigned": plan.assign.astype("<i2").tobytes(),
        "after_nbytes": after.nbytes.astype("<i8").tobytes() if small else b"",
    }


def prediction(
    compiled: Compiled, predicted: dict[str, Any] | None, seconds: NDArray[np.float64] | None
) -> dict[str, Any]:
    """The data of a GraphBuilt event that a plan predicts: of the run, and seconds of each operand."""
    told = b"" if seconds is None or compiled.before.n > SMALL else seconds.astype("<f4").tobytes()
    return {"predicted": predicted, "after_seconds": told}


def with_lines(
    picture: dict[str, Any], compiled: Compiled, line_of: Callable[[SourceLine | None], SourceLine | None]
) -> dict[str, Any]:
    """The picture with the lines that `line_of` gives for lines of the compiled graph."""
    before = compiled.before
    counts = np.bincount(before.layer, minlength=len(before.layers)).tolist()
    stages = [_layer(layer.name, line_of(layer.line), count) for layer, count in zip(before.layers, counts)]
    return picture | {"stages": stages}


def _edges(graph: ChunkGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    users = np.repeat(np.arange(graph.n), np.diff(graph.input_ptr))
    return graph.input_idx, users


def _between(box: NDArray[Any], src: NDArray[np.int64], dst: NDArray[np.int64]) -> list[list[int]]:
    """Distinct edges between different boxes."""
    if not len(src):
        return []
    pairs = np.unique(box[src].astype(np.int64) << 32 | box[dst].astype(np.int64))
    return [[a, b] for a, b in zip((pairs >> 32).tolist(), (pairs & 0xFFFFFFFF).tolist()) if a != b]


def _chunk_numbers(graph: ChunkGraph) -> NDArray[np.int64]:
    """Number of the chunk that each operand computes, in C order of its tensor's chunks; -1 for parts of a chunk."""
    number = np.full(graph.n, -1, np.int64)
    for row, ids in enumerate(graph.grids):
        own = np.flatnonzero(graph.layer[ids.ravel()] == row)  # a tensor may have chunks of another tensor
        number[ids.ravel()[own]] = own
    return number


def _types(graph: ChunkGraph, programs: NDArray[Any], group: NDArray[Any]) -> list[list[Any] | None]:
    """Dtype and shape of the chunks of each kind; None if they differ, or if no operand reads a stored chunk."""
    found: list[set[ChunkType]] = [set() for _ in programs]
    for kind, program in enumerate(programs.tolist()):
        if program >= 0:
            found[kind].add(graph.programs[program].output)
    src, users = _edges(graph)
    for edge in np.flatnonzero(graph.program[src] < 0).tolist():  # the readers know the types of stored chunks
        user = int(users[edge])
        types = graph.programs[graph.program[user]].inputs
        found[group[src[edge]]].add(types[edge - graph.input_ptr[user]])
    rows = [next(iter(types)) if len(types) == 1 else None for types in found]
    return [[str(one.dtype), list(one.shape)] if one is not None else None for one in rows]


def _label(graph: ChunkGraph, program: int) -> str:
    return "stored" if program < 0 else graph.programs[program].name[:_NAME]


def _text(graph: ChunkGraph, program: int) -> str:
    """The expression that a program computes; "" for a stored chunk."""
    return "" if program < 0 else program_text(graph.programs[program])[:_TEXT]


def _layer(name: str, line: SourceLine | None, count: int) -> list[Any]:
    where = [line.filename, line.lineno, line.text[:200]] if line is not None else ["", 0, ""]
    return [name[:_NAME], *where, count]


def _u4(values: NDArray[Any]) -> bytes:
    return values.astype(np.int64).astype("<u4").tobytes()  # -1 becomes 0xffffffff
