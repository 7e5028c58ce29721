"""Random chunks: what an executor draws, block by block.

A draw never depends on how a chunk is cut into blocks, so fusing changes no value: doubles are taken at their place in
one PCG64 sequence, anything else one element after the other from a stream of the chunk's own. Used by random.py.
Source: O'Neill 2014 (PCG, jumping ahead); NumPy's SeedSequence.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import ChunkType, Fill, Generate, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.operand import Operand, Splits, TensorMeta
from jmars.tensor.ops.tiling import corners

__all__ = ["Doubles", "Draws", "Stream"]

Array = np.ndarray[Any, Any]
Entropy = int | tuple[int, ...]


class Stream(NamedTuple):
    """Where random numbers come from; each operand brings it, so that another seed is neither planned nor compiled.

    `words` are the seed as NumPy's SeedSequence takes it apart, uint32 little-endian; `place` is the number of the
    first double, or of the draw.
    """

    words: bytes
    place: int

    @classmethod
    def of(cls, entropy: Entropy, place: int) -> Stream:
        """The stream of a seed."""
        parts = entropy if isinstance(entropy, tuple) else (entropy,)
        return cls(b"".join(_words(part) for part in parts), place)


def _words(number: int) -> bytes:
    """A whole number as SeedSequence takes it apart: words of 32 bits, the lowest first, at least one."""
    return number.to_bytes(max(1, -(-number.bit_length() // 32)) * 4, "little")


def _seeds(words: bytes, spawn_key: tuple[int, ...] = ()) -> np.random.SeedSequence:
    return np.random.SeedSequence(np.frombuffer(words, "<u4").tolist(), spawn_key=spawn_key)


@dataclass(frozen=True, eq=False)
class Doubles(Operand):
    """Doubles in [0, 1): element i, in C order of the whole array, is number `position` + i of the seed's sequence.

    So they are NumPy's own, whatever the chunks.
    """

    function: str
    stream: Stream
    scale: tuple[float, float] | None  # (low, high - low)
    splits: Splits
    name: ClassVar[str] = "random"
    binds: ClassVar[str] = "stream"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Equal places of equal sequences are equal."""
        return ("doubles", self.stream, self.scale, self.splits)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One generator per chunk, stream and corner as the argument."""
        shapes, which = shape_classes(output.chunks)
        params = (self.scale, output.shape)
        programs = [
            single(self.function, (), Generate(open_doubles, params, ChunkType(shape, output.dtype), True))
            for shape in shapes
        ]
        none = np.empty((which.size, 0), np.int64)
        args = [((self.stream, corner),) for (corner,) in corners(output.chunks)]
        return builder.add_many(programs, which.reshape(-1), none, args).reshape(output.grid)


def open_doubles(params: tuple[Any, ...], arg: tuple[Stream, tuple[int, ...]], output: ChunkType) -> Fill:
    """Writes the doubles of a chunk; each run of elements that follow one another in the whole is one jump."""
    scale, whole = params
    (words, position), corner = arg
    stream = np.random.PCG64(_seeds(words))
    generator = np.random.Generator(stream)
    strides = [math.prod(whole[axis + 1 :]) for axis in range(len(whole))]
    at = 0  # numbers taken

    # axes behind which the chunk is whole: one run spans them
    axis = len(whole) - 1
    while axis > 0 and output.shape[axis] == whole[axis]:
        axis -= 1
    lead, run = output.shape[:axis], math.prod(output.shape[axis:])
    begin = position + sum(c * s for c, s in zip(corner, strides))

    def fill(out: Array, start: int) -> None:
        nonlocal at
        done = 0
        while done < out.size:
            row, within = divmod(start + done, run)
            there = begin + within
            for length, stride in zip(reversed(lead), reversed(strides[:axis])):
                row, i = divmod(row, length)
                there += i * stride
            n = min(run - within, out.size - done)
            if there != at:
                stream.advance(there - at)
            generator.random(out=out[done : done + n])
            at = there + n
            done += n
        if scale is not None:
            np.multiply(out, scale[1], out=out)
            np.add(out, scale[0], out=out)

    return fill


@dataclass(frozen=True, eq=False)
class Draws(Operand):
    """Draws of any distribution; each chunk has a stream of its own, named by the draw's number and its own."""

    function: str
    stream: Stream
    method: str  # of numpy.random.Generator
    arguments: tuple[Any, ...]
    splits: Splits
    name: ClassVar[str] = "random"
    binds: ClassVar[str] = "stream"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Equal draws of equal seeds are equal."""
        return ("draws", self.stream, self.method, repr(self.arguments), self.splits)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """One generator per chunk, stream and its number as the argument."""
        shapes, which = shape_classes(output.chunks)
        params = (self.method, self.arguments)
        programs = [
            single(self.function, (), Generate(open_draws, params, ChunkType(shape, output.dtype), True))
            for shape in shapes
        ]
        none = np.empty((which.size, 0), np.int64)
        args = [((self.stream, chunk),) for chunk in range(which.size)]
        return builder.add_many(programs, which.reshape(-1), none, args).reshape(output.grid)


def open_draws(params: tuple[Any, ...], arg: tuple[Stream, int], output: ChunkType) -> Fill:
    """Writes the draws of a chunk."""
    method, arguments = params
    (words, draw), chunk = arg
    generator = np.random.Generator(np.random.PCG64(_seeds(words, (draw, chunk))))
    if method == "choice":
        return _choices(generator, *arguments)
    function = getattr(generator, method)
    if method == "integers":
        low, high = arguments
        wide = np.int64 if low >= -(2**63) and high <= 2**63 else np.uint64  # narrower ones lose bits between blocks

        def fill_integers(out: Array, start: int) -> None:
            np.copyto(out, function(low, high, out.size, wide), casting="unsafe")

        return fill_integers
    if not arguments and method in ("standard_normal", "standard_exponential") and output.dtype.kind == "f":

        def fill_in_place(out: Array, start: int) -> None:
            function(dtype=out.dtype, out=out)

        return fill_in_place
    if method == "random":

        def fill_floats(out: Array, start: int) -> None:
            function(dtype=out.dtype, out=out)

        return fill_floats

    def fill(out: Array, start: int) -> None:
        np.copyto(out, function(*arguments, size=out.size), casting="unsafe")

    return fill


def _choices(generator: np.random.Generator, options: bytes, dtype: str, cumulated: bytes) -> Fill:
    """Options drawn with replacement, evenly or by cumulated probabilities."""
    values = np.frombuffer(options, dtype)
    chances = np.frombuffer(cumulated, np.float64)

    def fill(out: Array, start: int) -> None:
        if chances.size:
            picked = chances.searchsorted(generator.random(out.size), side="right")
        else:
            picked = generator.integers(0, len(values), out.size)
        np.take(values, picked, out=out)

    return fill
