"""EndedStage: the chunks and lengths of an ended stage of a job, for the journal and the next scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jmars.tensor.operand import Splits

__all__ = ["EndedStage"]


@dataclass(frozen=True)
class EndedStage:
    """Chunks and lengths of an ended stage, for a scheduler that goes on behind the stage.

    Attributes
    ----------
    chunks
        Of each kept node, in C order.
    lengths
        Chunk lengths of kept nodes whose lengths were not known before.
    shapes
        Shapes of chunks with a size that only the run told.
    """

    chunks: Mapping[int, Sequence[int]]
    lengths: Mapping[int, Splits]
    shapes: Mapping[int, Sequence[int]]
