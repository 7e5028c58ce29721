"""Arguments drawn for one call of a NumPy function: arrays of any dtype, cut anyhow, with values that hurt.

A row of the table is a function of a `Draw` that gives a `Call`; `Given` stands for an array in its arguments, so that
the same call is made with NumPy's arrays and with ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from jmars.tensor.operand import Splits
from jmars.tensor.tensor import Tensor, as_tensor
from tests.tensor.cut import splits

Array = np.ndarray[Any, Any]
T = TypeVar("T")

DTYPES = {
    "b": ["?"],
    "i": ["i1", "i2", "i4", "i8"],
    "u": ["u1", "u2", "u4", "u8"],
    "f": ["f2", "f4", "f8"],
    "c": ["c8", "c16"],
    "M": ["M8[D]", "M8[ns]"],
    "m": ["m8[s]", "m8[D]"],
}
_FLOATS = [-2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0]
TAME = {
    "b": [False, True],
    "i": [-5, -3, -1, 0, 1, 2, 3, 7],
    "u": [0, 1, 2, 3, 7, 11],
    "f": _FLOATS,
    "c": [complex(a, b) for a in (-1.0, 0.0, 2.5) for b in (-2.0, 0.0, 0.5)],
    "M": [-3, 0, 1, 8, 400],
    "m": [-3, 0, 1, 8, 400],
}
NAT = np.iinfo("i8").min
WILD = {
    "b": [True],
    "i": [-(2**63), -128, 127, 2**63 - 1],
    "u": [255, 2**64 - 1],
    "f": [np.nan, np.inf, -np.inf, 1e-7, 6e4, -1e30],
    "c": [complex(np.nan, 0), complex(0, np.inf), complex(-np.inf, np.nan)],
    "M": [NAT],
    "m": [NAT],
}


@dataclass(frozen=True, eq=False)
class Given:
    """An array of the user's, and how it is cut; `hidden` rows stand behind it until a mask takes them away."""

    array: Array
    chunks: Splits
    hidden: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def numpys(self) -> Array:
        """A copy, so that a call may write to it."""
        return self.array.copy()

    def ours(self) -> Tensor:
        """As a tensor; of unknown length where rows are hidden."""
        if not self.hidden or not self.ndim:
            return as_tensor(self.array.copy(), chunks=self.chunks)
        rows = self.array.shape[0]
        more = np.concatenate([self.array, np.ones((3, *self.array.shape[1:]), self.dtype)], dtype=self.dtype)
        cut = tuple(n for n in self.chunks[0] if n)
        kept = as_tensor(np.arange(rows + 3), chunks=((*cut, 3),)) < rows
        return as_tensor(more, chunks=((*cut, 3), *self.chunks[1:]))[kept]

    def __repr__(self) -> str:
        return f"Given({self.array!r}, cut={self.chunks}{', hidden' if self.hidden else ''})"


@dataclass(frozen=True)
class Call:
    """What a function is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def given(self, change: Callable[[Given], Any]) -> tuple[Any, Any]:
        """The arguments with `change` of every array."""
        seen: dict[int, Any] = {}  # the same array twice is the same array twice

        def mapped(value: Any) -> Any:
            if isinstance(value, Given):
                if id(value) not in seen:
                    seen[id(value)] = change(value)
                return seen[id(value)]
            if isinstance(value, list | tuple) and type(value) in (list, tuple):
                return type(value)(mapped(one) for one in value)
            return value

        return mapped(self.args), {key: mapped(value) for key, value in self.kwargs.items()}


def call(*args: Any, **kwargs: Any) -> Call:
    """A call with these arguments."""
    return Call(args, kwargs)


class Draw:
    """What rows of the table ask for."""

    def __init__(self, draw: Any, hidden: bool = False) -> None:
        self._draw, self._hidden = draw, hidden

    def one(self, *values: T) -> T:
        """One of these."""
        return self._draw(st.sampled_from(values))  # type: ignore[no-any-return]

    def int(self, low: int, high: int) -> int:
        """A number from `low` to `high`."""
        return self._draw(st.integers(low, high))  # type: ignore[no-any-return]

    def flag(self) -> bool:
        """True or False."""
        return self._draw(st.booleans())  # type: ignore[no-any-return]

    def some(self, **options: Any) -> dict[str, Any]:
        """Each of the options or not."""
        return {name: value for name, value in options.items() if self.flag()}

    def shape(self, low: int = 0, high: int = 3, longest: int = 6, shortest: int = 0) -> tuple[int, ...]:
        """A shape of `low` to `high` axes."""
        length = st.integers(shortest, longest) | st.integers(min(2, longest), longest)
        return tuple(self._draw(st.lists(length, min_size=low, max_size=high)))

    def dtype(self, kinds: str) -> np.dtype[Any]:
        """A dtype of one of these kinds, now and then in the other byte order."""
        dtype = np.dtype(self.one(*DTYPES[self.one(*kinds)]))
        return dtype.newbyteorder() if self.int(0, 7) == 7 else dtype

    def values(self, shape: tuple[int, ...], dtype: Any, wild: bool = True) -> Array:
        """An array of values that repeat, now and then with NaN, infinities and limits."""
        dtype = np.dtype(dtype)
        rng = np.random.default_rng(self.int(0, 2**16))
        pool = TAME[dtype.kind]
        if wild and self.int(0, 2) == 0:
            pool = pool + WILD[dtype.kind]
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            pool = [int(v) for v in pool if limits.min <= v <= limits.max]
        wide: Any = {"u": "u8", "i": "i8", "M": "i8", "m": "i8"}.get(dtype.kind)
        with np.errstate(all="ignore"):
            return np.asarray(rng.choice(np.array(pool, wide), shape)).astype(dtype)

    def cut(self, array: Any) -> Given:
        """An array cut anyhow."""
        array = np.asarray(array)
        return Given(array, tuple(self._draw(splits(n)) for n in array.shape), self._hidden)

    def array(self, kinds: str = "biufc", *shape: int, low: int = 0, high: int = 3, longest: int = 6,
              shortest: int = 0, wild: bool = True) -> Given:  # fmt: skip
        """An array of one of these kinds, of that shape or of any of `low` to `high` axes."""
        dtype = self.dtype(kinds)
        return self.cut(self.values(shape or self.shape(low, high, longest, shortest), dtype, wild))

    def like(self, x: Given, kinds: str = "", wild: bool = True) -> Given:
        """An array of the shape of another, of its dtype unless kinds are given."""
        return self.cut(self.values(x.shape, self.dtype(kinds) if kinds else x.dtype, wild))

    def fits(self, x: Given, kinds: str = "biufc", wild: bool = True) -> Any:
        """Something that broadcasts with an array: another one, with axes of length 1 or fewer axes, or a number."""
        if self.int(0, 4) == 0:
            return self.one(2, 0.5, -1, True, np.float32(1.5), np.int8(3))
        shape = tuple(n if self.int(0, 3) else 1 for n in x.shape[self.int(0, x.ndim) :])
        return self.cut(self.values(shape, self.dtype(kinds), wild))

    def axis(self, x: Given) -> int:
        """An axis of an array that has one."""
        return self.int(-x.ndim, x.ndim - 1)

    def axes(self, x: Given) -> Any:
        """None, an axis, or several."""
        if not x.ndim or self.int(0, 3) == 0:
            return None
        if self.flag():
            return self.axis(x)
        chosen = self._draw(st.sets(st.integers(0, x.ndim - 1)))
        return tuple(i - x.ndim if self.flag() else i for i in sorted(chosen))

    def order(self, x: Given) -> list[int]:
        """The axes in any order."""
        return list(self._draw(st.permutations(range(x.ndim))))

    def positions(self, length: int, *shape: int, beyond: bool = False) -> Array:
        """Positions on an axis that has elements."""
        rng = np.random.default_rng(self.int(0, 2**16))
        low, high = (-2 * length, 2 * length) if beyond else (-length, length)
        return np.asarray(rng.integers(low, max(high, low + 1), shape))


Row = Callable[[Draw], Call]
