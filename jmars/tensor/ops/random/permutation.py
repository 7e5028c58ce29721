"""Large permutations computed position by position, by a keyed bijection of range(n); no process holds all elements.

Position i holds `permute(i)`: a Feistel network over the next even power of two, repeated while the value leaves
range(n). Small permutations are drawn by NumPy in the client.
Source: Luby, Rackoff 1988; Black, Rogaway 2002, Ciphers with arbitrary finite domains (cycle walking); Steele, Lea,
Flood 2014 (SplitMix64, the round function).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import ChunkType, Fill, Generate, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.operand import Operand, Splits, TensorMeta
from jmars.tensor.ops.chunks.tiling import corners
from jmars.tensor.ops.random.streams import Stream, open_generator

__all__ = ["Permutation", "permute"]

Array = np.ndarray[Any, Any]
_ROUNDS = 6


@dataclass(frozen=True, eq=False)
class Permutation(Operand):
    """First elements of a random permutation of range(n), a 1-d int64 array."""

    n: int
    stream: Stream
    splits: Splits
    name: ClassVar[str] = "permutation"
    binds: ClassVar[str] = "stream"

    def token(self) -> Hashable:
        """Identifies the operand by length, stream and splits."""
        return ("order", self.n, self.stream, self.splits)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the stream and its first index as the argument."""
        shapes, which = shape_classes(output.chunks)
        programs = [
            single(self.name, (), Generate(open_permutation, (self.n,), ChunkType(shape, output.dtype), True))
            for shape in shapes
        ]
        none = np.empty((which.size, 0), np.int64)
        args = [((self.stream, corner),) for (corner,) in corners(output.chunks)]
        return builder.add_many(programs, which.reshape(-1), none, args).reshape(output.grid)


def open_permutation(params: tuple[int], arg: tuple[Stream, tuple[int]], output: ChunkType) -> Fill:
    """Returns the function that writes a chunk of the permutation."""
    (n,) = params
    stream, (begin,) = arg
    keys = open_generator(stream).integers(0, 2**64, _ROUNDS, np.uint64)

    def fill(out: Array, start: int) -> None:
        first = begin + start
        for at in range(0, out.size, 1 << 14):  # in pieces, so that intermediate values stay in the cache
            part = out[at : at + (1 << 14)]
            part[...] = permute(np.arange(first + at, first + at + part.size, dtype=np.uint64), n, keys)

    return fill


def permute(places: NDArray[np.uint64], n: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Applies the permutation of range(n) given by `keys` to positions.

    Examples
    --------
    >>> keys = np.arange(6, dtype=np.uint64)
    >>> sorted(permute(np.arange(10, dtype=np.uint64), 10, keys).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    half = max(1, math.ceil(max(1, (n - 1).bit_length()) / 2))  # bits of each half
    found = _network(places, half, keys)
    while (wrong := np.flatnonzero(found >= n)).size:
        found[wrong] = _network(found[wrong], half, keys)
    return found


def _network(places: NDArray[np.uint64], half: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = places >> bits, places & mask
    for key in keys:
        word = right + key
        word ^= word >> np.uint64(30)
        word *= np.uint64(0xBF58476D1CE4E5B9)
        word ^= word >> np.uint64(27)
        word *= np.uint64(0x94D049BB133111EB)
        word >>= np.uint64(32)
        word ^= left
        word &= mask
        left, right = right, word
    return (left << bits) | right
