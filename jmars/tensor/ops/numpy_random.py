"""The functions of `np.random`, lazy; a seed gives the same values for all chunk sizes and numbers of workers.

Module functions draw from the global generator of NumPy's module functions; `RandomState` has the legacy names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.tensor.ops.random_generator import Generator, draws_small_first
from jmars.tensor.ops.random_streams import DISTRIBUTIONS, Drawer, entropy
from jmars.tensor.protocols import FUNCTIONS, offers, unsupported
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor


class RandomState(Generator):
    """Lazy `numpy.random.RandomState`; arrays of at most 2^17 elements equal NumPy's.

    Parameters
    ----------
    seed
        A seed for `numpy.random.RandomState`, or a NumPy RandomState to wrap.

    Examples
    --------
    >>> RandomState(42).rand(2).fetch()
    array([0.37454012, 0.95071431])
    """

    def __init__(self, seed: Any = None) -> None:
        self._begin(seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(entropy(seed)))

    def _begin(self, older: np.random.RandomState) -> None:
        self._older = older
        self._set(np.random.Generator(older._bit_generator), True)

    @property
    def _drawer(self) -> Drawer:
        return self._older

    def rand(self, *size: int, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
        """Doubles in [0, 1) in the shape of the arguments."""
        return self._random("rand", size, float, None, chunk_size, chunks)

    def randn(self, *size: int, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
        """Normal, mean 0, deviation 1, in the shape of the arguments."""
        return self.standard_normal(size, chunk_size=chunk_size, chunks=chunks)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int, *,
                chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Integers in [low, high), or [0, low) without `high`."""
        return self.integers(low, high, size, dtype, chunk_size=chunk_size, chunks=chunks)

    def random_integers(self, low: Any, high: Any = None, size: Any = None, *, chunk_size: ChunkSize = None,
                        chunks: ChunkSize = None) -> Tensor:  # fmt: skip
        """Integers in [low, high], or [1, low] without `high`; NumPy advises `randint`."""
        low, high = (1, low) if high is None else (low, high)
        return self.integers(low, high, size, endpoint=True, chunk_size=chunk_size, chunks=chunks)

    def tomaxint(self, size: Any = None, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
        """Integers from 0 to the largest of int64."""
        return self.integers(0, 2**63, size, chunk_size=chunk_size, chunks=chunks)

    def random_sample(self, size: Any = None, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Tensor:
        """Doubles in [0, 1)."""
        return self._random("random_sample", size, float, None, chunk_size, chunks)

    ranf = sample = random_sample

    def seed(self, seed: Any = None) -> None:
        """Seeds the generator again."""
        self._older.seed(entropy(seed))

    def get_state(self, legacy: bool = True) -> Any:
        """State of the wrapped NumPy RandomState."""
        older: Any = self._older
        return older.get_state(legacy)

    def set_state(self, state: Any) -> None:
        """Restores a state from `get_state`."""
        self._older.set_state(state)


draws_small_first(RandomState, "rand randn randint random_sample")


@offers("random.default_rng")
def default_rng(seed: Any = None) -> Generator:
    """`np.random.default_rng`: makes a `Generator`; returns a `Generator` unchanged."""
    return seed if isinstance(seed, Generator) else Generator(seed)


_NUMPYS: Any = np.random
_shared = RandomState(_NUMPYS.mtrand._rand)


def _module_function(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(_shared, name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`np.random.{name}`, from the generator that `seed` sets."
    offers(f"random.{name}")(function)
    return function


seed = _module_function("seed")
_METHODS = """rand randn randint random random_sample ranf sample uniform standard_normal standard_exponential
standard_gamma choice permutation shuffle random_integers bytes get_state set_state multivariate_normal multinomial
dirichlet""".split()  # noqa: SIM905
for _name in (*_METHODS, *DISTRIBUTIONS):
    globals()[_name] = _module_function(_name)
FUNCTIONS["random.Generator"] = Generator
FUNCTIONS["random.RandomState"] = RandomState


@offers("random.get_bit_generator")
def get_bit_generator() -> Any:
    """`np.random.get_bit_generator`: bit generator of the module functions."""
    return _NUMPYS.get_bit_generator()


@offers("random.set_bit_generator")
def set_bit_generator(bitgen: Any) -> None:
    """`np.random.set_bit_generator`: replaces the bit generator of the module functions, in NumPy too."""
    _NUMPYS.set_bit_generator(bitgen)
    _shared._begin(_NUMPYS.mtrand._rand)


# NumPy's own: they make seeds and bits, and no array
for _name in ("SeedSequence", "BitGenerator", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
    FUNCTIONS[f"random.{_name}"] = globals()[_name] = getattr(np.random, _name)


def __getattr__(name: str) -> Any:
    if hasattr(np.random, name) and not name.startswith("_"):
        raise AttributeError(str(unsupported(f"random.{name}")))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
