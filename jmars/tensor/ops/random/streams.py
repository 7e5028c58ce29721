"""States of NumPy's bit generators as data, so that any process can continue a random stream.

Only `sample` calls NumPy's distributions: in the client, whose generator advances as NumPy's does, and on the workers.
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
