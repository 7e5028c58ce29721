"""`np.random`: lazy and seeded. The same seed, calls and chunks give the same values, however many workers there are.

`Generator.random` and `uniform` give NumPy's own numbers, whatever the chunks, as long as nothing else was drawn
before. Other distributions have NumPy's algorithms and a stream for each chunk, so their values are those of no NumPy
call. The functions of the module draw from one generator, which `seed` sets.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.infer import check_dtype
from jmars.tensor.operand import Operand, new_data
from jmars.tensor.ops.creation import shape_of
from jmars.tensor.ops.distributions import DISTRIBUTIONS, parameters
from jmars.tensor.ops.random_chunks import Doubles, Draws, Entropy, Stream
from jmars.tensor.ops.taking import taken
from jmars.tensor.protocols import FUNCTIONS, call, offers, unsupported
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Generator", "RandomState", "default_rng", "seed"]

_F8, _I8 = np.dtype(np.float64), np.dtype(np.int64)


class Generator:
    """`numpy.random.Generator`, lazily: each call makes a tensor, cut as `chunk_size` or `chunks` says.

    Parameters
    ----------
    seed
        What `numpy.random.SeedSequence` takes; None: from the system.

    Examples
    --------
    >>> x = Generator(7).random((4, 4), chunk_size=3)
    >>> bool((x.fetch() == np.random.default_rng(7).random((4, 4))).all())
    True
    """

    def __init__(self, seed: Any = None) -> None:
        self._entropy = _entropy(seed)
        self._position = 0  # doubles of NumPy's sequence that were taken
        self._draws = 0  # calls that took something else

    def random(self, size: Any = None, dtype: Any = float, out: Any = None, *, chunk_size: ChunkSize = None,
               chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Floats in [0, 1); doubles are NumPy's own."""
        kind = np.dtype(dtype)
        if kind == _F8:
            result = self._doubles("random", size, None, chunk_size, chunks)
        else:
            result = self._draw("random", (), size, kind, chunk_size, chunks)
        return result if out is None else out._assign(result)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None, *, chunk_size: ChunkSize = None,
                chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Doubles in [low, high), NumPy's own; the bounds may be tensors."""
        if not _is_number(low) or not _is_number(high):
            size = _common_size(size, low, high)
            result: Tensor = low + (high - low) * self.random(size, chunk_size=chunk_size, chunks=chunks)
            return result
        if not math.isfinite(high - low):
            raise OverflowError("high - low range exceeds valid bounds")
        return self._doubles("uniform", size, (float(low), float(high) - float(low)), chunk_size, chunks)

    def standard_normal(self, size: Any = None, dtype: Any = float, out: Any = None, *, chunk_size: ChunkSize = None,
                        chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Normal, mean 0, deviation 1."""
        result = self._draw("standard_normal", (), size, np.dtype(dtype), chunk_size, chunks)
        return result if out is None else out._assign(result)

    def standard_exponential(self, size: Any = None, dtype: Any = float, *, chunk_size: ChunkSize = None,
                             chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Exponential, mean 1."""
        return self._draw("standard_exponential", (), size, np.dtype(dtype), chunk_size, chunks)

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False, *,
                 chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Integers in [low, high), or [0, low) without `high`; up to `high` itself with `endpoint`."""
        if high is None:
            low, high = 0, low
        if not _is_number(low) or not _is_number(high):
            raise UnsupportedError("integers with bounds that are arrays is not in jmars; scale random() instead")
        low, high = operator.index(low), operator.index(high) + bool(endpoint)
        kind = np.dtype(dtype)
        np.random.Generator(np.random.PCG64(0)).integers(low, high, 1, kind.type)  # raises what NumPy raises
        return self._draw("integers", (low, high), size, kind, chunk_size, chunks)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True,
               *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Elements of `a` (of range(a) for an int), with probabilities `p`."""
        options = a.fetch() if isinstance(a, Tensor) else np.asarray(a)
        chances = None if p is None else np.asarray(p.fetch() if isinstance(p, Tensor) else p, float)
        here = self._here()
        here.choice(options, 1, p=chances)  # raises what NumPy raises
        if not replace or options.ndim > 1 or axis:
            value = here.choice(options, size, replace, chances, axis, shuffle)
            return as_tensor(value, chunk_size=chunk_size, chunks=chunks)
        if options.ndim == 0 and chances is None:
            return self._draw("integers", (0, int(options)), size, _I8, chunk_size, chunks)
        options = np.arange(int(options)) if options.ndim == 0 else options
        cumulated = np.empty(0) if chances is None else np.cumsum(chances) / np.cumsum(chances)[-1]
        arguments = (options.tobytes(), options.dtype.str, cumulated.tobytes())
        return self._draw("choice", arguments, size, options.dtype, chunk_size, chunks)

    def permutation(self, x: Any, axis: int = 0, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
        """range(x) in any order, or the array `x` in any order of an axis; the order is drawn here and now."""
        if isinstance(x, int | np.integer):
            order = self._here().permutation(operator.index(x))
            return as_tensor(order, chunk_size=chunk_size, chunks=chunks)
        whole = as_tensor(x, chunk_size=chunk_size, chunks=chunks)
        axis = np.lib.array_utils.normalize_axis_index(axis, whole.ndim)
        return taken(whole, self._here().permutation(whole.shape[axis]), axis)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Bring the elements of a tensor into any order of an axis."""
        if not isinstance(x, Tensor):
            self._here().shuffle(x, axis)
            return
        x._check_write()
        x._rebind(self.permutation(x, axis).rechunk(chunks=x.chunks))

    def spawn(self, n_children: int) -> list[Generator]:
        """Generators whose sequences have nothing to do with one another."""
        first, self._draws = self._draws, self._draws + n_children
        parent = self._entropy if isinstance(self._entropy, tuple) else (self._entropy,)
        return [Generator((*parent, first + i + 1)) for i in range(n_children)]

    def __getattr__(self, name: str) -> Any:
        if name in DISTRIBUTIONS:
            return lambda *args, **kwargs: self._distribution(name, args, kwargs)
        if hasattr(np.random.Generator, name):
            raise unsupported(f"random.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _distribution(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """A distribution of the table; location and scale of a normal one may be tensors."""
        given, size, rest = parameters(name, args, kwargs)
        cut = (rest.pop("chunk_size", None), rest.pop("chunks", None))
        if rest:
            raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(rest))!r}")
        if all(map(_is_number, given)):
            numbers = tuple(getattr(value, "item", lambda value=value: value)() for value in given)
            probe = getattr(np.random.Generator(np.random.PCG64(0)), name)(*numbers, size=1)  # raises as NumPy does
            return self._draw(name, numbers, size, probe.dtype, *cut)
        if name not in ("normal", "exponential", "lognormal"):
            raise UnsupportedError(
                f"np.random.{name} with parameters that are arrays is not in jmars; draw with numbers, or in map_blocks"
            )
        size = _common_size(size, *given)
        if name == "exponential":
            result: Tensor = given[0] * self.standard_exponential(size, chunk_size=cut[0], chunks=cut[1])
        else:
            result = given[0] + given[1] * self.standard_normal(size, chunk_size=cut[0], chunks=cut[1])
        return call("exp", result) if name == "lognormal" else result

    def _doubles(self, name: str, size: Any, scale: tuple[float, float] | None, chunk_size: ChunkSize,
                 chunks: ChunkSize) -> Tensor:  # fmt: skip
        shape = () if size is None else shape_of(size)
        splits = decide_splits(shape, _F8, chunk_size, chunks)
        op = Doubles(name, Stream.of(self._entropy, self._position), scale, splits)
        self._position += math.prod(shape)
        return _tensor(op, shape, _F8, splits)

    def _draw(self, name: str, arguments: tuple[Any, ...], size: Any, dtype: np.dtype[Any], chunk_size: ChunkSize,
              chunks: ChunkSize) -> Tensor:  # fmt: skip
        shape = () if size is None else shape_of(size)
        splits = decide_splits(shape, check_dtype(dtype), chunk_size, chunks)
        op = Draws(name, Stream.of(self._entropy, self._draws), name, arguments, splits)
        self._draws += 1
        return _tensor(op, shape, dtype, splits)

    def _here(self) -> np.random.Generator:
        """NumPy's generator for a draw that is made in this process."""
        self._draws += 1
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self._entropy, spawn_key=(self._draws - 1,))))


class RandomState(Generator):
    """`numpy.random.RandomState`: the older names for the same draws."""

    def rand(self, *size: int, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
        """Doubles in [0, 1) in the shape of the arguments."""
        return self._doubles("rand", size, None, chunk_size, chunks)

    def randn(self, *size: int, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
        """Normal, mean 0, deviation 1, in the shape of the arguments."""
        return self.standard_normal(size, chunk_size=chunk_size, chunks=chunks)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, *,
                chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Integers in [low, high), or [0, low) without `high`."""
        return self.integers(low, high, size, dtype, chunk_size=chunk_size, chunks=chunks)

    def random_sample(self, size: Any = None, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
        """Doubles in [0, 1)."""
        return self.random(size, chunk_size=chunk_size, chunks=chunks)

    ranf = sample = random_sample

    def seed(self, seed: Any = None) -> None:
        """Begin anew."""
        Generator.__init__(self, seed)


def _entropy(seed: Any) -> Entropy:
    """What identifies a sequence."""
    if isinstance(seed, np.random.SeedSequence):
        if seed.spawn_key:
            raise UnsupportedError("a spawned SeedSequence is no seed in jmars; use Generator.spawn or a list of ints")
        seed = seed.entropy
    if seed is None:
        seed = np.random.SeedSequence().entropy
    if isinstance(seed, np.random.BitGenerator | np.random.Generator | np.random.RandomState):
        raise UnsupportedError("a generator of NumPy's lives in this process and seeds no chunks; give an int")
    np.random.SeedSequence(seed)  # raises what NumPy raises
    if isinstance(seed, int | np.integer):
        return operator.index(seed)
    return tuple(operator.index(part) for part in np.asarray(seed, object).reshape(-1))


def _is_number(value: Any) -> bool:
    return not isinstance(value, Tensor) and np.ndim(value) == 0


def _common_size(size: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape of a draw whose parameters are arrays."""
    shapes = [x.shape if isinstance(x, Tensor) else np.shape(x) for x in parameters]
    return np.broadcast_shapes(*shapes) if size is None else shape_of(size)


def _tensor(op: Operand, shape: tuple[int, ...], dtype: np.dtype[Any], splits: Any) -> Tensor:
    return Tensor(new_data(op, shape, dtype, splits))


@offers("random.default_rng")
def default_rng(seed: Any = None) -> Generator:
    """`np.random.default_rng`: a new generator; a generator of ours as it is."""
    return seed if isinstance(seed, Generator) else Generator(seed)


_shared = RandomState()


def _of_the_module(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(_shared, name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`np.random.{name}`, from the generator that `seed` sets."
    offers(f"random.{name}")(function)
    return function


seed = _of_the_module("seed")
_METHODS = """rand randn randint random random_sample ranf sample uniform standard_normal standard_exponential choice
permutation shuffle""".split()  # noqa: SIM905
for _name in (*_METHODS, *DISTRIBUTIONS):
    globals()[_name] = _of_the_module(_name)
FUNCTIONS["random.Generator"] = Generator
FUNCTIONS["random.RandomState"] = RandomState


def __getattr__(name: str) -> Any:
    if hasattr(np.random, name) and not name.startswith("_"):
        raise AttributeError(str(unsupported(f"random.{name}")))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
