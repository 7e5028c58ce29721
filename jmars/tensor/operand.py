"""`TensorData`, a node of the tensor graph, and `Operand`, which computes a node from other nodes.

The functions of tensor/ops make operands, tensor_graph.py collects them, and optimize/passes.py tiles them.
Source: docs/explanation/seeds.md, "Chunk graph".
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
from jmars.model.record import record
from jmars.tensor.annotations import Annotation, current_annotation
from jmars.tensor.infer import check_dtype
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


@record
class TensorMeta:
    """Key, shape, dtype and chunks of a tensor, without its operand."""

    key: str
    shape: tuple[Length, ...]
    dtype: np.dtype[Any]
    chunks: Splits  # lengths of the chunks along each axis

    @property
    def has_unknown_lengths(self) -> bool:
        """Whether a length is unknown until a run reports it."""
        return Unknown in map(type, self.shape)

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each axis."""
        return tuple(map(len, self.chunks))

    def renamed(self, key: str) -> TensorMeta:
        """Copy with another key."""
        return TensorMeta(key, self.shape, self.dtype, self.chunks)


class TensorData:
    """A node of the tensor graph: an operand's output. Nodes compare by identity.

    A node is immutable but for two changes. When its value was computed, `op` is replaced by one whose inputs are
    lineage copies (lineage.py), nodes of the same keys that keep no value alive. If `has_unknown_lengths`, some entries
    of `shape` and `chunks` are `Unknown`; `resolve_lengths` replaces them by the lengths that a run has reported.
    """

    __slots__ = (
        "__weakref__",
        "chunks",
        "computed",
        "dtype",
        "has_unknown_lengths",
        "is_lineage_copy",
        "key",
        "lineage_copy",
        "op",
        "shape",
    )

    def __init__(self, op: Operand, shape: tuple[Length, ...], dtype: np.dtype[Any], chunks: Splits) -> None:
        self.op = op
        self.shape = shape
        self.dtype = check_dtype(dtype)
        self.chunks = chunks
        self.has_unknown_lengths = Unknown in map(type, shape)
        self.computed = False  # whether a run computed all chunks, kept or not: client/auto_persist.py
        self.lineage_copy: TensorData | None = None  # what computed nodes refer to in its place: lineage.py
        self.is_lineage_copy = False
        self.key = f"t-{next(_numbers)}-{_prefix}"

    @property
    def meta(self) -> TensorMeta:
        """Return the node's metadata, without the operand."""
        return TensorMeta(self.key, self.shape, self.dtype, self.chunks)

    def resolve_lengths(self, chunks: Splits | None = None) -> bool:
        """Take over lengths that a run reported, of this node (`chunks`) or its origins; True if all are known."""
        if chunks is not None:
            for axis, lengths in zip(self.chunks, chunks, strict=True):
                if axis and isinstance(axis[0], Unknown):
                    axis[0].origin.lengths = tuple(lengths)
        if self.has_unknown_lengths:
            self.chunks = tuple(map(_known_lengths, self.chunks))
            self.shape = tuple(map(axis_length, self.chunks))
            self.has_unknown_lengths = not is_known([self.shape])
        return not self.has_unknown_lengths

    def copied_for_lineage(self, op: Operand) -> TensorData:
        """A lineage copy of the node, made by `op`."""
        copy = object.__new__(TensorData)
        copy.op, copy.key, copy.is_lineage_copy, copy.lineage_copy = op, self.key, True, None
        copy.shape, copy.dtype, copy.chunks, copy.computed = self.shape, self.dtype, self.chunks, False
        copy.has_unknown_lengths = self.has_unknown_lengths
        return copy

    def __repr__(self) -> str:
        return f"<{self.op.label} {self.key} shape={self.shape} dtype={self.dtype}>"

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "a node of the tensor graph does not pickle, since its inputs nest too deeply; use TensorGraph.of"
        )


def _known_lengths(axis: tuple[Length, ...]) -> tuple[Length, ...]:
    """Return the lengths that a run reported for an axis; the axis itself while they are unknown."""
    first = axis[0] if axis else 0
    reported = first.origin.lengths if isinstance(first, Unknown) else None
    return axis if reported is None else reported


Self = TypeVar("Self", bound="Operand")


@dataclass(frozen=True, eq=False, kw_only=True)
class Operand:
    """Computes a tensor from its inputs. Subclasses are frozen dataclasses of picklable parameters and define `tile`.

    Examples
    --------
    `tensor/ops/create/constants.py` holds the simplest operands.
    """

    name: ClassVar[str] = "operand"
    binds: ClassVar[str] = ""  # name of the field that no plan depends on: tensor/structure.py
    reads_all: ClassVar[bool] = False  # whether computing all of the output always computes all of the inputs
    alone: ClassVar[bool] = False  # whether its operands on chunks are fused with no others, as those of `Call.alone`
    dynamic: ClassVar[bool] = False  # whether other operands must run before it can be tiled: tensor/dynamic.py
    inputs: tuple[TensorData, ...] = ()
    line: SourceLine | None = None
    annotation: Annotation | None = None

    @property
    def label(self) -> str:
        """Name of the operand in the view."""
        return self.name

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add the chunk-level operands that compute the output.

        Parameters
        ----------
        builder
            Takes programs and returns chunk numbers.
        inputs
            Chunks of each input.
        output
            Metadata of the output; its `chunks` were decided when the tensor was made.

        Returns
        -------
        array of int64, shape = chunks along each axis
            Numbers of the output's chunks.
        """
        raise NotImplementedError

    def note_reader(self) -> None:
        """Note that an operand, or a tensor with memory of its own, reads the output."""

    def sliced(self, output: TensorData, index: Sequence[int | slice]) -> tuple[TensorData, list[int | slice]] | None:
        """Return a node with a part of `output` that computes less, and the index of `output[index]` in the part; None:
        there is no such node.
        """
        return None

    def token(self) -> Hashable | None:
        """Return a key: operands of equal tokens and inputs compute equal values. None: equality is unknown."""
        return None

    def unlinked(self: Self) -> Self:
        """Copy the operand without its inputs, as a TensorGraph holds it."""
        return self.linked(()) if self.inputs else self

    def linked(self: Self, inputs: tuple[TensorData, ...]) -> Self:
        """Copy the operand with other inputs."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__["inputs"] = inputs
        return copy


def new_data(op: Operand, shape: tuple[Length, ...], dtype: np.dtype[Any], chunks: Splits) -> TensorData:
    """Make a node, and note the user's source line and annotation on its operand."""
    if op.line is None:
        object.__setattr__(op, "line", source_line())
    if op.annotation is None and (annotation := current_annotation()) is not None:
        object.__setattr__(op, "annotation", annotation)
    for one in op.inputs:
        one.op.note_reader()
    assert tuple(map(sum, chunks)) == shape or tuple(map(axis_length, chunks)) == shape, (op.label, shape, chunks)
    return TensorData(op, shape, dtype, chunks)
