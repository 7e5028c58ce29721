"""Lazy `numpy.random.Generator`: a seed gives the same arrays for all chunk sizes and numbers of workers.

A `Generator` wraps a NumPy generator. Arrays of at most `CELL_ELEMENTS` elements, and doubles of a PCG64 of any number,
equal NumPy's. Any other array has a separate stream, with a seed drawn from the wrapped generator.

With tensors as parameters, the parameters are rechunked along cell borders, since cells are drawn as a whole
(random_streams.py), and the draws are rechunked to the requested chunks afterwards.
Source: numpy.random (NumPy 2).
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.buffers import Buffer, SmallValues
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta, check_dtype, new_data
from jmars.tensor.ops.arguments import assign_out
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, corners, rechunked
from jmars.tensor.ops.constants import shape_of
from jmars.tensor.ops.indexing import take_by_tensor, take_positions
from jmars.tensor.ops.random_draws import Doubles, Draws, box_index, cell_generators
from jmars.tensor.ops.random_streams import (
    CELL_ELEMENTS,
    DISTRIBUTIONS,
    VECTORS,
    Cells,
    Drawer,
    Permutation,
    Stream,
    align_splits,
    entropy,
    parameters,
    plain_argument,
    reserve_doubles,
    sample,
)
from jmars.tensor.ops.shape import reshape
from jmars.tensor.ops.sort import exceeds_chunk
from jmars.tensor.protocols import call, unsupported
from jmars.tensor.small_parts import AwayError, apply_small, here
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

_F8, _I8 = np.dtype(np.float64), np.dtype(np.int64)
_OPTIONS = 1 << 20  # bytes of options sent along with a draw; larger arrays of options are read as tensors


class Generator:
    """Lazy `numpy.random.Generator`; a method returns a tensor with chunks of `chunk_size` or `chunks`.

    Parameters
    ----------
    seed
        A seed for `numpy.random.default_rng`, or a NumPy bit generator or generator, which then advances too; None
        takes a seed from the system.

    Examples
    --------
    >>> x = Generator(7).normal(size=(4, 4), chunk_size=3)
    >>> bool((x.fetch() == np.random.default_rng(7).normal(size=(4, 4))).all())
    True
    """

    def __init__(self, seed: Any = None) -> None:
        self._set(np.random.default_rng(entropy(seed)), isinstance(seed, np.random.BitGenerator | np.random.Generator))

    def _set(self, numpys: np.random.Generator, shared: bool) -> None:
        """Wraps a NumPy generator; `shared` says whether the user may draw from the generator as well."""
        self._own, self._shared = numpys, shared
        self._owed: Callable[[], object] | None = None  # a draw to repeat here before the state is read

    @property
    def _numpy(self) -> np.random.Generator:
        """The NumPy generator, advanced to the start of the next draw."""
        if self._owed is not None:
            owed, self._owed = self._owed, None
            owed()
        return self._own

    @property
    def bit_generator(self) -> Any:
        """The NumPy bit generator."""
        return self._numpy.bit_generator

    @property
    def _drawer(self) -> Drawer:
        """The NumPy generator that draws small arrays."""
        return self._numpy

    def random(self, size: Any = None, dtype: Any = float, out: Any = None, *, chunk_size: ChunkSize = None,
               chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Floats in [0, 1); doubles equal NumPy's."""
        return self._random("random", size, dtype, out, chunk_size, chunks)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None, *, chunk_size: ChunkSize = None,
                chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Doubles in [low, high), equal to NumPy's; bounds may be tensors."""
        if not _is_number(low) or not _is_number(high):
            return self._draw_numbers("uniform", (low, high), size, _F8, chunk_size, chunks)
        if not math.isfinite(high - low):
            raise OverflowError("high - low range exceeds valid bounds")
        if high < low and self._drawer is self._numpy:
            raise ValueError("high < low")
        return self._doubles("uniform", size, (float(low), float(high)), chunk_size, chunks)

    def standard_normal(self, size: Any = None, dtype: Any = float, out: Any = None, *, chunk_size: ChunkSize = None,
                        chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Normal, mean 0, deviation 1."""
        drawn = self._draw("standard_normal", (), _draw_size(size, out), dtype, chunk_size, chunks)
        return self._assign_out(drawn, out)

    def standard_exponential(self, size: Any = None, dtype: Any = float, method: str = "zig", out: Any = None, *,
                             chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Exponential, mean 1; `method` is NumPy's "zig" or "inv"."""
        arguments = () if method == "zig" else (str(method),)
        drawn = self._draw("standard_exponential", arguments, _draw_size(size, out), dtype, chunk_size, chunks)
        return self._assign_out(drawn, out)

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = float, out: Any = None, *,
                       chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Gamma with a shape parameter, scale 1."""
        drawn = self._draw_numbers("standard_gamma", (shape,), _draw_size(size, out), dtype, chunk_size, chunks)
        return self._assign_out(drawn, out)

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False, *,
                 chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Integers in [low, high), or [0, low) without `high`; includes `high` with `endpoint`."""
        if high is None:
            low, high = 0, low
        if _is_number(low) and _is_number(high):
            low, high = (_integer_bound(bound) for bound in (low, high))
        if not isinstance(high, Tensor):
            high = high if np.ndim(high) == 0 else np.asarray(high)
        return self._draw_numbers("integers", (low, high + 1 if endpoint else high), size, dtype, chunk_size, chunks)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True,
               *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Elements of `a` (of range(a) for an int) along an axis, with probabilities `p`."""
        options = a if isinstance(a, Tensor) else np.asarray(a)
        axis = np.lib.array_utils.normalize_axis_index(axis, options.ndim) if options.ndim else 0
        length = operator.index(a) if not options.ndim and not isinstance(a, Tensor) else options.shape[axis]
        if replace and isinstance(p, Tensor) and p.shape == (length,) and exceeds_chunk(p, 0):
            sums = _cumulated(p)
            drawn = self.random(size, chunk_size=chunk_size, chunks=chunks)
            at = call("searchsorted", sums, drawn, side="right")
            return _take_options(options, at, axis) if options.ndim else at
        chances = None if p is None else np.asarray(p.fetch() if isinstance(p, Tensor) else p, float)
        np.random.default_rng(0).choice(length, 1, p=chances) if chances is not None else _check_choice(length, size)
        if not replace:
            at = self._without_replacement(length, size, chances, shuffle, chunk_size, chunks)
            return _take_options(options, at, axis) if options.ndim else at
        cumulated = None
        if chances is not None:
            cumulated = np.cumsum(chances)
            cumulated = plain_argument(cumulated / cumulated[-1])
        if not options.ndim:
            return self._draw("choice", (length, cumulated), size, _I8, chunk_size, chunks)
        if (
            isinstance(options, np.ndarray)
            and options.ndim == 1
            and options.nbytes <= _OPTIONS
            and options.dtype != "O"
        ):
            return self._draw("choice", (plain_argument(options), cumulated), size, options.dtype, chunk_size, chunks)
        return _take_options(options, self._draw("choice", (length, cumulated), size, _I8, chunk_size, chunks), axis)

    def permutation(self, x: Any, axis: int = 0, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
        """A random permutation of range(x), or of the array `x` along an axis."""
        if isinstance(x, int | np.integer):
            return self._permutation(operator.index(x), operator.index(x), chunk_size, chunks)
        whole = as_tensor(x, chunk_size=chunk_size, chunks=chunks)
        axis = np.lib.array_utils.normalize_axis_index(axis, whole.ndim)
        return self._shuffled(whole, axis, whole.ndim > 1)

    def permuted(self, x: Any, *, axis: int | None = None, out: Any = None) -> Tensor:
        """Permutes all 1-d slices along an axis independently, or the flattened array if `axis` is None."""
        whole = as_tensor(x)
        if axis is None:
            drawn = call("reshape", self._shuffled(call("ravel", whole), 0), whole.shape)
        else:
            axis = np.lib.array_utils.normalize_axis_index(axis, whole.ndim)
            if math.prod(whole.shape) <= CELL_ELEMENTS:
                line = np.arange(whole.shape[axis]).reshape([-1 if i == axis else 1 for i in range(whole.ndim)])
                order: Any = self._numpy.permuted(np.broadcast_to(line, whole.shape), axis=axis)
            else:
                order = call("argsort", self.random(whole.shape, chunks=whole.chunks), axis)
            drawn = call("take_along_axis", whole, order, axis)
        return self._assign_out(drawn, out)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Shuffles a tensor in place along an axis."""
        if not isinstance(x, Tensor):
            self._drawer.shuffle(x, *([axis] if self._drawer is self._numpy else []))
            return
        if apply_small(self._drawer.shuffle, x, *([axis] if self._drawer is self._numpy else [])):
            return
        axis = np.lib.array_utils.normalize_axis_index(axis, x.ndim)
        x._put(self._shuffled(x, axis, x.ndim > 1).rechunk(chunks=x.chunks))

    def multivariate_normal(self, mean: Any, cov: Any, size: Any = None, check_valid: str = "warn", tol: float = 1e-8,
                            *, method: str = "svd", chunk_size: ChunkSize = None,
                            chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Normal vectors with a mean and a covariance, along the last axis."""
        mean, cov = (np.asarray(one.fetch() if isinstance(one, Tensor) else one) for one in (mean, cov))
        batch = () if size is None else shape_of(size)
        more: Any = {"method": method} if self._drawer is self._numpy else {}
        if math.prod(batch) * mean.size <= CELL_ELEMENTS:
            value = self._drawer.multivariate_normal(mean, cov, batch, check_valid, tol, **more)
            return as_tensor(value, chunk_size=chunk_size, chunks=chunks)
        probe: Any = np.random.default_rng(0)
        probe.multivariate_normal(mean, cov, 1, check_valid, tol, method=method)  # raises NumPy's errors
        normal = self.standard_normal((*batch, mean.size), chunk_size=chunk_size, chunks=chunks)
        result: Tensor = mean + normal @ _covariance_root(cov, method).T
        return result

    def bytes(self, length: int) -> bytes:
        """Random bytes, drawn at once in the client."""
        return self._numpy.bytes(length)

    def spawn(self, n_children: int) -> list[Generator]:
        """Independent generators, from NumPy's `spawn`."""
        return [Generator(child) for child in self._numpy.spawn(n_children)]

    def __getattr__(self, name: str) -> Any:
        if name in DISTRIBUTIONS or name in VECTORS:
            return lambda *args, **kwargs: self._distribution(name, args, kwargs)
        if hasattr(np.random.Generator, name) and not name.startswith("_"):
            raise unsupported(f"random.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.bit_generator).__name__})"

    # Making a draw

    def _distribution(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Draws from a distribution of the tables in random_streams.py."""
        given, size, rest = parameters(name, args, kwargs)
        if (found := _small_draw(self, name, size, args, kwargs)) is not NotImplemented:
            return found  # type: ignore[no-any-return]
        cut = (rest.pop("chunk_size", None), rest.pop("chunks", None))
        algorithm = [rest.pop("method", "marginals")] if name == "multivariate_hypergeometric" else []
        if rest:
            raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(rest))!r}")
        if name in DISTRIBUTIONS:
            return self._draw_numbers(name, tuple(given), size, None, *cut)
        if any(isinstance(one, Tensor) for one in given):
            given = [one.fetch() if isinstance(one, Tensor) else one for one in given]
        return self._draw(name, (*map(plain_argument, given), *algorithm), size, None, *cut, vector=1)

    def _draw_numbers(self, name: str, given: tuple[Any, ...], size: Any, dtype: Any, chunk_size: ChunkSize,
                      chunks: ChunkSize) -> Tensor:  # fmt: skip
        """Draws numbers elementwise; parameters may be arrays or tensors."""
        if all(map(_is_number, given)):
            return self._draw(name, tuple(map(plain_argument, given)), size, dtype, chunk_size, chunks)
        own = np.broadcast_shapes(*(np.shape(one) for one in given))
        shape = own if size is None else shape_of(size)
        if not _broadcasts(own, shape):
            raise ValueError(f"Output size {shape} is not compatible with broadcast dimensions of inputs {own}.")
        if math.prod(shape) <= CELL_ELEMENTS and not any(isinstance(one, Tensor) for one in given):
            drawn = self._draw(name, tuple(map(plain_argument, given)), shape, dtype, -1, None)
            return as_tensor(drawn, chunk_size=chunk_size, chunks=chunks)
        kinds = [np.ones(1, one.dtype) if isinstance(one, Tensor) else np.asarray(one) for one in given]
        trial = _trial_parameters(name, kinds)
        kind = check_dtype(dtype) if dtype is not None else sample(_probe, name, trial, (1,), _F8).dtype
        if name in ("uniform", "normal", "exponential", "lognormal"):  # arithmetic, which fuses with the parameters
            drawn = self._by_location_scale(name, given, shape, chunk_size, chunks)
        else:
            splits = decide_splits(shape, kind, chunk_size, chunks)
            drawn = draw_by_tensors(
                name, Stream.fresh(self._numpy), [as_tensor(one) for one in given], shape, kind, splits
            )
        return drawn

    def _by_location_scale(self, name: str, given: tuple[Any, ...], shape: tuple[int, ...], *cut: ChunkSize) -> Tensor:
        draws: dict[str, Any] = {"uniform": self.random, "exponential": self.standard_exponential}
        standard = draws.get(name, self.standard_normal)(shape, chunk_size=cut[0], chunks=cut[1])
        if name == "exponential":
            result: Tensor = given[0] * standard
        else:
            scale = given[1] - given[0] if name == "uniform" else given[1]
            result = given[0] + scale * standard
        return call("exp", result) if name == "lognormal" else result

    def _random(self, name: str, size: Any, dtype: Any, out: Any, chunk_size: ChunkSize,
                chunks: ChunkSize) -> Tensor:  # fmt: skip
        size = _draw_size(size, out)
        if np.dtype(dtype) == _F8:
            return self._assign_out(self._doubles(name, size, (), chunk_size, chunks), out)
        return self._assign_out(self._draw("random", (), size, dtype, chunk_size, chunks, label=name), out)

    def _doubles(self, name: str, size: Any, bounds: tuple[float, ...], chunk_size: ChunkSize,
                 chunks: ChunkSize) -> Tensor:  # fmt: skip
        """Draws doubles in [0, 1), or within bounds."""
        shape = () if size is None else shape_of(size)
        count = math.prod(shape)
        with _lock:
            stream = reserve_doubles(self._numpy, count) if self._drawer is self._numpy else None
            if stream is None and count > CELL_ELEMENTS:
                stream = Stream.fresh(self._numpy)
        if stream is None:
            return self._draw("uniform" if bounds else "random", bounds, size, _F8, chunk_size, chunks, label=name)
        splits = decide_splits(shape, _F8, chunk_size, chunks)
        scale = (bounds[0], bounds[1] - bounds[0]) if bounds else None
        return _tensor(Doubles(name, stream, scale, splits), shape, _F8, splits)

    def _draw(self, method: str, arguments: tuple[Any, ...], size: Any, dtype: Any, chunk_size: ChunkSize,
              chunks: ChunkSize, vector: int = 0, label: str = "") -> Tensor:  # fmt: skip
        """Draws with numbers as parameters, or with small arrays as parameters of a small result."""
        batch = () if size is None else shape_of(size)
        kind = _F8 if dtype is None else check_dtype(dtype)
        few = batch if any(isinstance(one, tuple) for one in arguments) and not vector and method != "choice" else (1,)
        probe = sample(_probe, method, arguments, few, kind)  # raises NumPy's errors
        shape = (*batch, *probe.shape[probe.ndim - vector :])
        splits = decide_splits(shape, check_dtype(probe.dtype), chunk_size, chunks)
        with _lock:
            stream = Stream.of(self._drawer) if math.prod(shape) <= CELL_ELEMENTS else None
            if stream is None:
                stream = Stream.fresh(self._numpy)
            else:  # this generator advances as NumPy's does: at once if shared, else before the next draw
                self._owed = partial(sample, self._drawer, method, arguments, batch, kind)
                if self._shared:
                    _ = self._numpy
        op = Draws(label or method, stream, method, arguments, vector, splits)
        return _tensor(op, shape, probe.dtype, splits)

    def _assign_out(self, drawn: Tensor, out: Any) -> Tensor:
        return assign_out(drawn, out, "random")  # type: ignore[no-any-return]

    def _permutation(self, n: int, first: int, chunk_size: ChunkSize, chunks: ChunkSize) -> Tensor:
        """First elements of a random permutation of range(n)."""
        if n <= CELL_ELEMENTS:
            return as_tensor(self._drawer.permutation(n)[:first], chunk_size=chunk_size, chunks=chunks)
        splits = decide_splits((first,), _I8, chunk_size, chunks)
        return _tensor(Permutation(n, Stream.fresh(self._numpy), splits), (first,), _I8, splits)

    def _shuffled(self, x: Tensor, axis: int, by_rows: bool = False) -> Tensor:
        """Shuffles a tensor along an axis; as in NumPy, rows and numbers use different algorithms."""
        n = x.shape[axis]
        if n <= CELL_ELEMENTS:
            order = np.arange(n)[:, None] if by_rows else np.arange(n)
            self._drawer.shuffle(order)
            return take_positions(x, order.reshape(-1), axis)
        return take_by_tensor(x, self._permutation(n, n, None, None), axis)

    def _without_replacement(self, n: int, size: Any, chances: Any, shuffle: bool, *cut: ChunkSize) -> Tensor:
        """Draws distinct numbers of range(n)."""
        shape = () if size is None else shape_of(size)
        count = math.prod(shape)
        if count > n:
            raise ValueError("Cannot take a larger sample than population when replace is False")
        if chances is None and count > CELL_ELEMENTS:
            splits = decide_splits(shape, _I8, *cut)
            ordered: Tensor = call("reshape", self._permutation(n, count, None, None), shape).rechunk(chunks=splits)
            return ordered
        more: Any = {"shuffle": shuffle} if self._drawer is self._numpy else {}
        value = self._drawer.choice(n, size, False, chances, **more)
        return as_tensor(value, chunk_size=cut[0], chunks=cut[1])


def _small_draw(generator: Generator, name: str, size: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A draw of a few numbers in a cell, by NumPy's generator, at once; NotImplemented for other draws."""
    if not SmallValues.limit or not kwargs.keys().isdisjoint(("chunk_size", "chunks", "out")):
        return NotImplemented
    try:
        given, options = [here(one) for one in args], {key: here(one) for key, one in kwargs.items()}
    except AwayError:
        return NotImplemented
    sizes = [one.size for one in (*given, *options.values()) if isinstance(one, np.ndarray)]
    most = min(CELL_ELEMENTS, SmallValues.limit // 16)
    if math.prod(sizes, start=1 if size is None else math.prod(shape_of(size))) > most:
        return NotImplemented
    found = getattr(generator._drawer, name)(*given, **options)
    return Tensor.at(Buffer.of(found)) if isinstance(found, np.ndarray) else found


def _small_first(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `Generator` that draws a few numbers at once in a cell."""
    names = [*inspect.signature(ours).parameters][1:]
    at = names.index("size") if "size" in names else None
    most = names.index("out") if "out" in names else len(names)

    @functools.wraps(ours)
    def draw(self: Generator, *args: Any, **kwargs: Any) -> Any:
        if SmallValues.limit and len(args) <= most:
            size = kwargs.get("size") if at is None or at >= len(args) else args[at]
            if name in ("permutation", "permuted", "choice") and args and isinstance(args[0], int):
                size = max(args[0], math.prod(shape_of(size if size is not None else ())))  # of the positions
            elif name in ("rand", "randn"):
                size = args
            if (found := _small_draw(self, name, size, args, kwargs)) is not NotImplemented:
                return found
        return ours(self, *args, **kwargs)

    return draw


def draws_small_first(cls: type[Generator], names: str) -> None:
    """Let methods of a class draw a few numbers at once in a cell."""
    for name in names.split():
        setattr(cls, name, _small_first(name, vars(cls)[name]))


draws_small_first(Generator, """choice integers multivariate_normal permutation permuted random standard_exponential
standard_gamma standard_normal uniform""")  # fmt: skip
_lock = Lock()  # a generator's state is read and advanced atomically
_probe = np.random.Generator(np.random.PCG64(0))  # for trial draws, which show NumPy's errors and result dtypes


def _is_number(value: Any) -> bool:
    return not isinstance(value, Tensor) and np.ndim(value) == 0


def _broadcasts(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array of shape `own` broadcasts to `shape`."""
    return len(own) <= len(shape) and all(n in (1, m) for n, m in zip(own[::-1], shape[::-1]))


def _integer_bound(bound: Any) -> int:
    """Converts a bound of integers to int; accepts integral floats, as NumPy does."""
    value = bound.item() if isinstance(bound, np.generic | np.ndarray) else bound
    return int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)


def _draw_size(size: Any, out: Any) -> Any:
    """Size of a draw, from `size` or from `out`."""
    if out is None or size is None:
        return size if out is None else out.shape
    if shape_of(size) != out.shape:
        raise ValueError("size must match out.shape when used together")
    return size


def _trial_parameters(name: str, kinds: list[Any]) -> tuple[Any, ...]:
    """Valid parameters of a distribution, with the dtypes of the given parameters, for a trial draw."""
    fixed = {"integers": (0, 2), "triangular": (0.0, 0.5, 1.0), "zipf": (2.0,), "hypergeometric": (1, 1, 1)}
    return fixed.get(name) or tuple(0.5 if i or kind.dtype.kind == "f" else 1 for i, kind in enumerate(kinds))


def _check_choice(length: int, size: Any) -> None:
    if length < 1 and (size is None or 0 not in shape_of(size)):
        raise ValueError("a cannot be empty unless no samples are taken" if length == 0 else "a must be greater than 0")


def _take_options(options: Any, at: Tensor, axis: int) -> Tensor:
    found: Tensor = call("take", as_tensor(options), at, axis)
    return found


def _covariance_root(cov: Any, method: str) -> Any:
    """Matrix square root of a covariance, by NumPy's methods."""
    if method == "cholesky":
        return np.linalg.cholesky(cov)
    if method == "eigh":
        s, u = np.linalg.eigh(cov)
    else:
        u, s, _ = np.linalg.svd(cov)
    return u * np.sqrt(s)


def _tensor(op: Operand, shape: tuple[int, ...], dtype: np.dtype[Any], splits: Splits) -> Tensor:
    return Tensor(new_data(op, shape, dtype, splits))


def _cumulated(p: Tensor) -> Tensor:
    """Cumulated probabilities of a long tensor, kept on the cluster; raises NumPy's errors."""
    chances = p.astype(np.float64)
    sums = call("cumsum", chances)
    least, total = call("stack", [chances.min(), sums[-1]]).fetch().tolist()
    small = np.array([least, total - least]) if least < 0 else np.array([total])
    np.random.default_rng(0).choice(len(small), 1, p=small)
    return cast(Tensor, sums / sums[-1])


Array = np.ndarray[Any, Any]


def draw_by_tensors(
    function: str, stream: Stream, parameters: Sequence[Tensor], shape: tuple[int, ...], dtype: Any, splits: Splits
) -> Tensor:
    """Makes a tensor of draws, with `shape` and `splits`; the parameters broadcast to `shape`."""
    cells = Cells.of(shape)
    cut = tuple(align_splits(lengths, side) for lengths, side in zip(splits, cells.sides))
    fitting = []
    for x in parameters:
        x = reshape(x, (1,) * (len(shape) - x.ndim) + x.shape)
        wanted = tuple((1,) if n == 1 else lengths for n, lengths in zip(x.shape, cut))
        fitting.append(rechunked(x.data, wanted))
    unique = tuple(dict.fromkeys(fitting))
    op = TensorParameterDraws(function, stream, tuple(unique.index(one) for one in fitting), inputs=unique)
    return Tensor(rechunked(new_data(op, shape, dtype, cut), splits))


@dataclass(frozen=True, eq=False)
class TensorParameterDraws(Operand):
    """Draws with parameters from the inputs."""

    method: str  # of numpy.random.Generator
    stream: Stream
    which: tuple[int, ...]  # index into `inputs` for each parameter
    name: ClassVar[str] = "random"
    binds: ClassVar[str] = "stream"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.method

    def token(self) -> Hashable:
        """Identifies the operand by stream and method."""
        return ("given draws", self.stream, self.method, self.which)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk, with the stream and the first index as argument."""
        cells = Cells.of(output.shape)
        kinds, which = chunk_classes(output.chunks)

        def program(k: int) -> Program:
            made = ChunkType(kinds[k], output.dtype)
            types = [
                ChunkType(tuple(1 if cut == (1,) else n for n, cut in zip(kinds[k], one.splits)), one.dtype)
                for one in inputs
            ]
            params = (self.method, self.which, cells)
            return single(self.method, types, Call(draw_cells, params, tuple(range(len(types))), made, True))

        rows = [np.broadcast_to(one.ids, which.shape).reshape(-1) for one in inputs]
        args = [((self.stream, corner),) for (corner,) in corners(output.chunks)]
        return add_by_class(builder, program, which.reshape(-1), np.stack(rows, axis=1), args).reshape(which.shape)


def draw_cells(
    out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: tuple[Stream, tuple[int, ...]]
) -> None:
    """Draws the cells of a chunk, with their parts of the parameters."""
    method, which, cells = params
    stream, corner = arg
    drawer_of = cell_generators(stream, cells)
    for cell in cells.over(tuple((c, c + n) for c, n in zip(corner, out.shape))):
        part = box_index(tuple((a, a + n) for a, n in zip(cell.begin, cell.shape)), corner)
        given = [inputs[i][tuple(slice(None) if n == 1 else s for n, s in zip(inputs[i].shape, part))] for i in which]
        out[part] = sample(drawer_of(cell.number), method, tuple(given), cell.shape, out.dtype)
