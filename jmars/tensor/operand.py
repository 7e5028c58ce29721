"""`TensorData`, an immutable node of the tensor graph, and `Operand`, what gives it.

Operands are made by tensor/ops, gathered by graph.py and tiled by optimize/tile.py. Source: seed 000, "Graph
Preparation" (tileables, operands).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.tensor.source_line import SourceLine, source_line
from jmars.tensor.unknown import Length, Unknown, axis_length, is_known

if TYPE_CHECKING:
    from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid

__all__ = ["Operand", "Splits", "TensorData", "TensorMeta", "new_data"]

Splits = tuple[tuple[Length, ...], ...]
_numbers = itertools.count()
_prefix = os.urandom(4).hex()


def _forked() -> None:
    global _prefix
    _prefix = os.urandom(4).hex()


os.register_at_fork(after_in_child=_forked)


@dataclass(frozen=True)
class TensorMeta:
    """What is known of a tensor beside its operand."""

    key: str
    shape: tuple[Length, ...]
    dtype: np.dtype[Any]
    chunks: Splits  # lengths of the chunks on each axis

    @property
    def unsettled(self) -> bool:
        """Whether a length is known only after a run."""
        return any(n.__class__ is Unknown for n in self.shape)

    @property
    def grid(self) -> tuple[int, ...]:
        """Chunks on each axis."""
        return tuple(map(len, self.chunks))


class TensorData:
    """A node of the tensor graph: one operand's output. Nodes compare by identity.

    A node is immutable but for two changes. When its value was computed, `op` is replaced by one whose inputs are
    lineage copies (lineage.py), nodes of the same keys that keep no value alive. While `unsettled`, some entries of
    `shape` and `chunks` are `Unknown`; `settle` replaces them by the lengths that a run has reported.
    """

    __slots__ = (
        "__weakref__",
        "chunks",
        "computed",
        "dtype",
        "is_lineage_copy",
        "key",
        "lineage_copy",
        "op",
        "shape",
        "unsettled",
    )

    def __init__(self, op: Operand, shape: tuple[Length, ...], dtype: np.dtype[Any], chunks: Splits) -> None:
        self.op = op
        self.shape = shape
        self.dtype = dtype
        self.chunks = chunks
        self.unsettled = any(n.__class__ is Unknown for n in shape)
        self.computed = False  # whether a run computed all of it, kept or not: see client/repeats.py
        self.lineage_copy: TensorData | None = None  # what computed nodes refer to in its place: lineage.py
        self.is_lineage_copy = False
        self.key = f"t-{next(_numbers)}-{_prefix}"

    @property
    def meta(self) -> TensorMeta:
        """The same without the operand."""
        return TensorMeta(self.key, self.shape, self.dtype, self.chunks)

    def settle(self, chunks: Splits | None = None) -> bool:
        """Take over lengths that a run has told, of this node (`chunks`) or of its origins; returns whether all are."""
        if chunks is not None:
            for axis, lengths in zip(self.chunks, chunks, strict=True):
                if axis and isinstance(axis[0], Unknown):
                    axis[0].origin.lengths = tuple(lengths)
        if self.unsettled:
            self.chunks = tuple(map(_as_told, self.chunks))
            self.shape = tuple(map(axis_length, self.chunks))
            self.unsettled = not is_known([self.shape])
        return not self.unsettled

    def __repr__(self) -> str:
        return f"<{self.op.label} {self.key} shape={self.shape} dtype={self.dtype}>"

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "a tensor's graph is sent as a TensorGraph, which knows no recursion; use TensorGraph.of"
        )


def _as_told(axis: tuple[Length, ...]) -> tuple[Length, ...]:
    """The axis, or what its origin knows of it."""
    first = axis[0] if axis else 0
    told = first.origin.lengths if isinstance(first, Unknown) else None
    return axis if told is None else told


Self = TypeVar("Self", bound="Operand")


@dataclass(frozen=True, eq=False, kw_only=True)
class Operand:
    """What gives a tensor. A subclass is a frozen dataclass of picklable parameters with a `tile`.

    Examples
    --------
    `tensor/ops/create/constants.py` holds the simplest ones.
    """

    name: ClassVar[str] = "operand"
    binds: ClassVar[str] = ""  # the field that no plan depends on: tensor/structure.py
    reads_all: ClassVar[bool] = False  # whether who computes all of its output computes all of its inputs, always
    dynamic: ClassVar[bool] = False  # whether something must have run before it can be tiled: tensor/dynamic.py
    inputs: tuple[TensorData, ...] = ()
    line: SourceLine | None = None

    @property
    def label(self) -> str:
        """What the view calls it."""
        return self.name

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add the operands on chunks.

        Parameters
        ----------
        builder
            Takes programs and gives chunk ids.
        inputs
            The chunks of each input.
        output
            What comes out; its `chunks` were settled when the tensor was made.

        Returns
        -------
        array of int64, shape = chunks on each axis
            Ids of the output's chunks.
        """
        raise NotImplementedError

    def token(self) -> Hashable | None:
        """Operands of equal tokens and equal inputs give equal values; None: never assume so."""
        return None

    def unlinked(self: Self) -> Self:
        """The same without its inputs, as a TensorGraph holds it."""
        return self.linked(()) if self.inputs else self

    def linked(self: Self, inputs: tuple[TensorData, ...]) -> Self:
        """The same with other inputs."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__["inputs"] = inputs
        return copy


def new_data(op: Operand, shape: tuple[Length, ...], dtype: np.dtype[Any], chunks: Splits) -> TensorData:
    """A node with the user's line noted on its operand."""
    if op.line is None:
        object.__setattr__(op, "line", source_line())
    assert tuple(map(sum, chunks)) == shape or tuple(map(axis_length, chunks)) == shape, (op.label, shape, chunks)
    return TensorData(op, shape, dtype, chunks)
