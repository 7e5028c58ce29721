"""Streams of random numbers as data: the state of a generator of NumPy's, so that any process goes on from there.

`sample` is the one place that calls NumPy's distributions: in the client, whose generator thereby moves on as NumPy's
does, and on the workers. Used by random_chunks.py, random_given.py and the generators.
Source: numpy.random (NumPy 2); O'Neill 2014 (PCG, jumping ahead).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ops.random.distributions import DISTRIBUTIONS, VECTORS
from jmars.tensor.tensor import Tensor

__all__ = [
    "Drawer",
    "PackedArray",
    "Stream",
    "entropy",
    "open_generator",
    "plain_argument",
    "reserve_doubles",
    "sample",
]

Array = np.ndarray[Any, Any]
Drawer = Any  # np.random.Generator or np.random.RandomState, whose methods differ too much for one type
PackedArray = tuple[str, tuple[int, ...], bytes]  # an array among the arguments of a draw: dtype, shape, elements

_KINDS: dict[str, Callable[[int], Any]] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
_METHODS = {"random", "standard_normal", "standard_exponential", "uniform", "integers", "choice"}
_METHODS |= DISTRIBUTIONS.keys() | VECTORS.keys()
_TYPED = ("random", "standard_normal", "standard_exponential", "standard_gamma")  # they take a dtype


class Stream(NamedTuple):
    """Where random numbers come from; each operand brings it, so that another seed is neither planned nor compiled."""

    state: bytes  # of a generator, as JSON

    @classmethod
    def of(cls, drawer: Drawer) -> Stream | None:
        """The stream that a generator goes on with; None if its bit generator is none of NumPy's."""
        legacy = isinstance(drawer, np.random.RandomState)
        state = drawer.get_state(legacy=False) if legacy else drawer.bit_generator.state
        known = state["bit_generator"] in _KINDS
        return cls(json.dumps(state, default=_plain, separators=(",", ":")).encode()) if known else None

    @classmethod
    def fresh(cls, drawer: np.random.Generator) -> Stream:
        """A stream of its own, whose seed is drawn from a generator."""
        seed = np.random.SeedSequence(int.from_bytes(drawer.bytes(32), "little"))
        stream = cls.of(np.random.Generator(np.random.PCG64(seed)))
        assert stream is not None
        return stream


def entropy(seed: Any) -> Any:
    """A seed as NumPy takes it; that of a tensor is computed now, as `default_rng(rng.integers(10))` needs it."""
    return np.asarray(seed)[()] if isinstance(seed, Tensor) else seed


def reserve_doubles(drawer: np.random.Generator, count: int) -> Stream | None:
    """The stream of the next `count` doubles of a PCG64, which goes on behind them; None for another bit generator."""
    if type(drawer.bit_generator) is not np.random.PCG64:
        return None
    stream, bits = Stream.of(drawer), cast(Any, drawer.bit_generator)
    left = {key: bits.state[key] for key in ("has_uint32", "uinteger")}
    bits.advance(count)  # which forgets the half of a number that is left over
    bits.state = bits.state | left
    return stream


def open_generator(stream: tuple[bytes]) -> Drawer:
    """A generator in the state that a stream, which may have become a plain tuple on its way, tells."""
    state = json.loads(stream[0])
    bits = _KINDS[state["bit_generator"]](0)
    if "has_gauss" in state:
        older = np.random.RandomState(bits)
        older.set_state(state)
        return older
    bits.state = state
    return np.random.Generator(bits)


def _plain(value: Any) -> Any:
    """An array or scalar of a state, for JSON."""
    return value.tolist()


def plain_argument(value: Any) -> Any:
    """An argument of a draw as plain data: numbers as Python's, arrays as `PackedArray`."""
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
    """What a generator draws next, as NumPy draws it.

    Parameters
    ----------
    drawer
        A Generator; or a RandomState, whose algorithms are the older ones.
    method
        Of `Generator`, also for a RandomState.
    arguments
        Its parameters before `size`, arrays as `PackedArray`; of "choice" the options (or how many), and the cumulated
        probabilities or None.
    shape
        Of the draws; what a draw gives may have an axis of its own behind.
    dtype
        Of the result.
    """
    if method not in _METHODS:
        raise UnsupportedError(f"there is no draw named {method!r}; there are {', '.join(sorted(_METHODS))}")
    given = [_array_argument(one) for one in arguments]
    older = isinstance(drawer, np.random.RandomState)
    if method == "choice":
        return _chosen(drawer, given[0], given[1], shape)
    if method == "integers":
        function = drawer.randint if older else drawer.integers
        return np.asarray(function(*given, shape, dtype.type))
    function = getattr(drawer, "random_sample" if older and method == "random" else method)
    more: dict[str, Any] = {} if older or method not in _TYPED else {"dtype": dtype}
    if method == "standard_exponential" and given:
        more["method"] = given.pop()
    return np.asarray(function(*given, size=shape, **more))


def _chosen(drawer: Drawer, options: Any, cumulated: Array | None, shape: tuple[int, ...]) -> Array:
    """Options drawn with replacement, evenly or by cumulated probabilities."""
    count = options if isinstance(options, int) else len(options)
    if cumulated is not None:
        doubles = sample(drawer, "random", (), shape, np.dtype(np.float64))
        picked = np.asarray(cumulated.searchsorted(doubles, side="right"))
    else:
        picked = sample(drawer, "integers", (0, count), shape, np.dtype(np.int64))
    return picked if isinstance(options, int) else np.asarray(options[picked])
