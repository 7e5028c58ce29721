"""EndedStage: what a stage of a job left, as the journal keeps it for the next scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jmars.tensor.operand import Splits

__all__ = ["EndedStage"]


@dataclass(frozen=True)
class EndedStage:
    """What a stage left, for a scheduler that goes on behind it.

    Attributes
    ----------
    chunks
        Of each kept node, in C order.
    lengths
        Chunk lengths of kept nodes whose lengths were not known before.
    shapes
        Of chunks whose size was known only then.
    """

    chunks: Mapping[int, Sequence[int]]
    lengths: Mapping[int, Splits]
    shapes: Mapping[int, Sequence[int]]
