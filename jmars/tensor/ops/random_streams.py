"""Random streams as data: states of bit generators, distributions, cells, doubles and permutations by position.

Any process can continue a stream. Only `sample` calls NumPy's distributions: in the client, where the generator
advances as NumPy's does, and on the workers.

An array is divided into cells, boxes that are drawn as a whole from separate streams. Cells depend on the shape of the
array only, so values do not depend on chunks: a chunk draws all overlapping cells and keeps the common part. Sides are
powers of two, as chunk lengths often are, and longer towards the last axis, since thin chunks are more common along the
first axes.

Doubles are taken by position in a PCG64 sequence, by NumPy or by native/draws.c, with equal bits. NumPy takes 1.6 ns
per double and two microseconds per jump to a position; C takes 1.1 ns and 0.1 microseconds.

Position i of a large permutation holds `permute(i)`, a keyed bijection of range(n), so no process holds all elements: a
Feistel network over the next even power of two, repeated while the value leaves range(n). Small permutations are drawn
by NumPy in the client.
Source: numpy.random (NumPy 2); O'Neill 2014 (PCG, jumping ahead); Luby, Rackoff 1988; Black, Rogaway 2002, Ciphers with
arbitrary finite domains (cycle walking); Steele, Lea, Flood 2014 (SplitMix64, the round function).
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.program import ChunkType, Fill, Generate, single
from jmars.native import library
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid, shape_classes
from jmars.tensor.operand import Operand, Splits, TensorMeta
from jmars.tensor.ops.chunks import corners
from jmars.tensor.tensor import Tensor

# distributions of numbers: parameters, "a" or "a=default"
DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    "beta": ("a", "b"),
    "binomial": ("n", "p"),
    "chisquare": ("df",),
    "exponential": ("scale=1.0",),
    "f": ("dfnum", "dfden"),
    "gamma": ("shape", "scale=1.0"),
    "geometric": ("p",),
    "gumbel": ("loc=0.0", "scale=1.0"),
    "hypergeometric": ("ngood", "nbad", "nsample"),
    "laplace": ("loc=0.0", "scale=1.0"),
    "logistic": ("loc=0.0", "scale=1.0"),
    "lognormal": ("mean=0.0", "sigma=1.0"),
    "logseries": ("p",),
    "negative_binomial": ("n", "p"),
    "noncentral_chisquare": ("df", "nonc"),
    "noncentral_f": ("dfnum", "dfden", "nonc"),
    "normal": ("loc=0.0", "scale=1.0"),
    "pareto": ("a",),
    "poisson": ("lam=1.0",),
    "power": ("a",),
    "rayleigh": ("scale=1.0",),
    "standard_cauchy": (),
    "standard_gamma": ("shape",),
    "standard_t": ("df",),
    "triangular": ("left", "mode", "right"),
    "vonmises": ("mu", "kappa"),
    "wald": ("mean", "scale"),
    "weibull": ("a",),
    "zipf": ("a",),
}

# distributions of vectors, which form a last axis
VECTORS: dict[str, tuple[str, ...]] = {
    "dirichlet": ("alpha",),
    "multinomial": ("n", "pvals"),
    "multivariate_hypergeometric": ("colors", "nsample"),
}


def parameters(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any, dict[str, Any]]:
    """Binds a call's arguments: distribution parameters in order, `size`, other keywords.

    Examples
    --------
    >>> parameters("gamma", (2.0,), {"size": 5, "chunk_size": 2})
    ([2.0, 1.0], 5, {'chunk_size': 2})
    """
    rest = dict(kwargs)
    given = list(args)
    found: list[Any] = []
    for parameter in _parameter_names(name):
        key, _, default = parameter.partition("=")
        if given:
            if key in rest:
                raise TypeError(f"{name}() got multiple values for keyword argument {key!r}")
            found.append(given.pop(0))
        elif key in rest:
            found.append(rest.pop(key))
        elif default:
            found.append(float(default))
        else:
            raise TypeError(f"{name}() misses the argument {key!r}")
    if given:
        rest["size"] = given.pop(0)
    if given:
        raise TypeError(
            f"{name}() takes {', '.join((*_parameter_names(name), 'size'))}; {len(args)} arguments were given"
        )
    return found, rest.pop("size", None), rest


def _parameter_names(name: str) -> tuple[str, ...]:
    return DISTRIBUTIONS[name] if name in DISTRIBUTIONS else VECTORS[name]


Array = np.ndarray[Any, Any]
Drawer = Any  # np.random.Generator or np.random.RandomState, whose methods differ too much for one type
PackedArray = tuple[str, tuple[int, ...], bytes]  # an array among the arguments of a draw: dtype, shape, elements

_KINDS: dict[str, Callable[[int], Any]] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
_METHODS = {"random", "standard_normal", "standard_exponential", "uniform", "integers", "choice"}
_METHODS |= DISTRIBUTIONS.keys() | VECTORS.keys()
_TYPED = ("random", "standard_normal", "standard_exponential", "standard_gamma")  # methods with a dtype argument


class Stream(NamedTuple):
    """State of a bit generator; an argument of operands, so that a new seed needs no new plan and no compilation."""

    state: bytes  # JSON

    @classmethod
    def of(cls, drawer: Drawer) -> Stream | None:
        """Current state of a generator; None for a bit generator that is not NumPy's."""
        legacy = isinstance(drawer, np.random.RandomState)
        state = drawer.get_state(legacy=False) if legacy else drawer.bit_generator.state
        known = state["bit_generator"] in _KINDS
        return cls(json.dumps(state, default=_as_json, separators=(",", ":")).encode()) if known else None

    @classmethod
    def fresh(cls, drawer: np.random.Generator) -> Stream:
        """New stream with a seed drawn from a generator."""
        seed = np.random.SeedSequence(int.from_bytes(drawer.bytes(32), "little"))
        stream = cls.of(np.random.Generator(np.random.PCG64(seed)))
        assert stream is not None
        return stream


def entropy(seed: Any) -> Any:
    """Converts a seed for NumPy; a seed given as a tensor is computed, as in `default_rng(rng.integers(10))`."""
    return np.asarray(seed)[()] if isinstance(seed, Tensor) else seed


def reserve_doubles(drawer: np.random.Generator, count: int) -> Stream | None:
    """Stream of the next `count` doubles of a PCG64; advances the generator. None for other bit generators."""
    if type(drawer.bit_generator) is not np.random.PCG64:
        return None
    stream, bits = Stream.of(drawer), cast(Any, drawer.bit_generator)
    left = {key: bits.state[key] for key in ("has_uint32", "uinteger")}
    bits.advance(count)  # drops the buffered half of a number, which is restored below
    bits.state = bits.state | left
    return stream


def open_generator(stream: tuple[bytes]) -> Drawer:
    """Generator in the state of a stream; after transport a stream may be a plain tuple."""
    state = json.loads(stream[0])
    bits = _KINDS[state["bit_generator"]](0)
    if "has_gauss" in state:
        older = np.random.RandomState(bits)
        older.set_state(state)
        return older
    bits.state = state
    return np.random.Generator(bits)


def _as_json(value: Any) -> Any:
    """Converts an array or scalar of a state for JSON."""
    return value.tolist()


def plain_argument(value: Any) -> Any:
    """Converts an argument of a draw to plain data: numbers to Python numbers, arrays to `PackedArray`."""
    if np.ndim(value) == 0:
        return value.item() if isinstance(value, np.generic | np.ndarray) else value
    array = np.ascontiguousarray(value)
    return (array.dtype.str, array.shape, array.tobytes())


def _array_argument(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    dtype, shape, data = value
    return np.frombuffer(data, dtype).reshape(shape)


def sample(
    drawer: Drawer, method: str, arguments: tuple[Any, ...], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """Draws from a NumPy generator.

    Parameters
    ----------
    drawer
        A Generator, or a RandomState with its legacy algorithms.
    method
        A method of `Generator`, also for a RandomState.
    arguments
        Arguments before `size`, arrays as `PackedArray`; for "choice" the options (or their number), and the cumulative
        probabilities or None.
    shape
        Shape of the draws; vectors add a last axis.
    dtype
        dtype of the result.
    """
    if method not in _METHODS:
        raise UnsupportedError(f"there is no draw named {method!r}; there are {', '.join(sorted(_METHODS))}")
    given = [_array_argument(one) for one in arguments]
    older = isinstance(drawer, np.random.RandomState)
    if method == "choice":
        return _draw_choice(drawer, given[0], given[1], shape)
    if method == "integers":
        function = drawer.randint if older else drawer.integers
        return np.asarray(function(*given, shape, dtype.type))
    function = getattr(drawer, "random_sample" if older and method == "random" else method)
    more: dict[str, Any] = {} if older or method not in _TYPED else {"dtype": dtype}
    if given and isinstance(given[-1], str):  # of an exponential or multivariate hypergeometric distribution
        more["method"] = given.pop()
    return np.asarray(function(*given, size=shape, **more))


def _draw_choice(drawer: Drawer, options: Any, cumulated: Array | None, shape: tuple[int, ...]) -> Array:
    """Draws options with replacement, uniformly or by cumulative probabilities."""
    count = options if isinstance(options, int) else len(options)
    if cumulated is not None:
        doubles = sample(drawer, "random", (), shape, np.dtype(np.float64))
        picked = np.asarray(cumulated.searchsorted(doubles, side="right"))
    else:
        picked = sample(drawer, "integers", (0, count), shape, np.dtype(np.int64))
    return picked if isinstance(options, int) else np.asarray(options[picked])


CELL_ELEMENTS = 1 << 17  # elements of an array that is a single cell, drawn by the user's generator itself
CELL = 1 << 12  # elements of a cell of a larger array (measured: 2^11 costs a sixth more, 2^13 twice the thin slabs)

Box = tuple[tuple[int, int], ...]  # (begin, end) on each axis


class Cell(NamedTuple):
    """A box of an array that is drawn from a stream of its own."""

    number: int  # in C order of all cells
    begin: tuple[int, ...]  # first index in the array
    shape: tuple[int, ...]

    def overlap(self, box: Box) -> Box:
        """Intersection with an overlapping box."""
        return tuple((max(a, lo), min(a + n, hi)) for a, n, (lo, hi) in zip(self.begin, self.shape, box))


class Cells(NamedTuple):
    """Division of an array into cells of equal sides.

    Examples
    --------
    >>> Cells.of((200_000,)).sides, Cells.of((10_000, 10_000)).sides, Cells.of((500, 3)).sides
    ((4096,), (32, 128), (500, 3))
    >>> [cell.number for cell in Cells.of((10_000, 10_000)).over(((0, 40), (100, 200)))]
    [0, 1, 79, 80]
    """

    shape: tuple[int, ...]
    sides: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int], vector: int = 0) -> Cells:
        """Chooses cells for an array whose last `vector` axes are drawn together."""
        whole = tuple(shape)
        own, room = len(whole) - vector, CELL // max(1, math.prod(whole[len(whole) - vector :]))
        if math.prod(whole) <= CELL_ELEMENTS:
            return cls(whole, tuple(max(n, 1) for n in whole))
        sides = [1] * own
        while grown := [i for i, side in enumerate(sides) if side < whole[i]]:
            if math.prod(sides) * 2 > room:
                break
            # grow the axis that is shortest relative to its target: each axis four times as long as the axis before
            sides[min(grown, key=lambda i: (sides[i] / 4**i, -i))] *= 2
        return cls(whole, (*sides, *whole[own:]))

    @property
    def is_one(self) -> bool:
        """Whether the array is a single cell."""
        return all(n <= side for n, side in zip(self.shape, self.sides))

    def over(self, box: Box) -> Iterator[Cell]:
        """Cells that overlap a box, in C order."""
        counts = [-(-n // side) for n, side in zip(self.shape, self.sides)]
        ranges = [range(a // side, -(-b // side)) for (a, b), side in zip(box, self.sides)]
        for place in itertools.product(*ranges):
            number = 0
            for i, count in zip(place, counts):
                number = number * count + i
            begin = tuple(i * side for i, side in zip(place, self.sides))
            shape = tuple(min(side, n - a) for side, n, a in zip(self.sides, self.shape, begin))
            yield Cell(number, begin, shape)


def align_splits(lengths: Sequence[int], side: int) -> tuple[int, ...]:
    """Chunk lengths near `lengths` that divide no cell.

    Examples
    --------
    >>> align_splits((30, 30, 40), 32), align_splits((3, 3, 3), 32)
    ((32, 32, 36), (9,))
    """
    total = sum(lengths)
    ends = {max(1, round(end / side)) * side for end in itertools.accumulate(lengths[:-1])}
    return tuple(b - a for a, b in itertools.pairwise([0, *sorted(end for end in ends if end < total), total]))


_HALF = 2**64 - 1


def run_axis(shape: tuple[int, ...], whole: tuple[int, ...]) -> int:
    """First axis of a chunk behind which the elements are contiguous in the whole array.

    Examples
    --------
    >>> run_axis((5, 2, 40), (9, 9, 40)), run_axis((5, 9, 40), (9, 9, 40)), run_axis((), ())
    (1, 0, 0)
    """
    axis = len(whole) - 1
    while axis > 0 and shape[axis] == whole[axis]:
        axis -= 1
    return max(axis, 0)


def open_doubles(params: tuple[Any, ...], arg: tuple[Stream, tuple[int, ...]], output: ChunkType) -> Fill:
    """Returns the function that writes the doubles of a chunk, with a jump per contiguous run."""
    scale, whole = params
    stream, corner = arg
    strides = [math.prod(whole[axis + 1 :]) for axis in range(len(whole))]
    axis = run_axis(output.shape, whole)
    lead, run = output.shape[:axis], math.prod(output.shape[axis:])
    begin = sum(c * s for c, s in zip(corner, strides))
    write = _by_c(stream, begin, run, lead, strides[:axis]) or _by_numpy(stream, begin, run, lead, strides[:axis])
    if scale is None:
        return write

    def fill(out: Array, start: int) -> None:
        write(out, start)
        np.multiply(out, scale[1], out=out)
        np.add(out, scale[0], out=out)

    return fill


def _by_numpy(stream: Stream, begin: int, run: int, lead: Sequence[int], strides: Sequence[int]) -> Fill:
    """Writes by NumPy: runs of `run` elements, whose positions follow from the `lead` shape and `strides`."""
    generator = open_generator(stream)
    advance = generator.bit_generator.advance
    at = 0  # position of the generator

    def fill(out: Array, start: int) -> None:
        nonlocal at
        done = 0
        while done < out.size:
            row, within = divmod(start + done, run)
            there = begin + within
            for length, stride in zip(reversed(lead), reversed(strides)):
                row, i = divmod(row, length)
                there += i * stride
            n = min(run - within, out.size - done)
            if there != at:
                advance(there - at)
            generator.random(out=out[done : done + n])
            at = there + n
            done += n

    return fill


def _by_c(stream: Stream, begin: int, run: int, lead: Sequence[int], strides: Sequence[int]) -> Fill | None:
    """Writes by native/draws.c; None if the library is missing."""
    loops = library()
    if loops is None or not loops.jm_doubles_there():
        return None
    state = json.loads(stream[0])["state"]
    halves = [state["state"] >> 64, state["state"] & _HALF, state["inc"] >> 64, state["inc"] & _HALF]
    generator, axes = (ctypes.c_uint64 * 4)(*halves), len(lead)
    lengths, steps = (ctypes.c_int64 * axes)(*lead), (ctypes.c_int64 * axes)(*strides)
    call, number = loops.jm_doubles, ctypes.c_int64

    def fill(out: Array, start: int) -> None:
        assert out.flags.c_contiguous
        to = ctypes.c_void_p(out.ctypes.data)
        call(generator, number(begin), number(start), number(out.size), number(run), number(axes), lengths, steps, to)

    return fill


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
        """Adds an operand per chunk, with the stream and the first index as argument."""
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
