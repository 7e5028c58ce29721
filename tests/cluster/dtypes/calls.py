"""Calls drawn for the child: a row of the NumPy table with arrays of any dtype, or a function that gives any dtype."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

import numpy as np
from hypothesis import strategies as st

from tests.tensor.table import ROWS
from tests.tensor.table.draws import Array, Draw, call

DTYPES: list[Any] = [
    "?", "i1", "u8", "i8", "f2", "f4", "f8", "c8", "c16", "g", "G", ">i4", ">f8", ">c16", ">M8[s]", ">U3",
    "M8[D]", "M8[ns]", "M8", "m8[s]", "m8", "S3", "U5", "S", "U", "V4", "V", "O",
    np.dtypes.StringDType(), np.dtypes.StringDType(na_object=None),
    [("a", "f8"), ("b", "U3")], [("a", "i1"), ("b", ">f8", (2,))], [("a", "O")], [("a", "i4"), ("b", [("c", "O")])],
    ("f8", (2,)), ("O", (2,)), {"names": ["x"], "formats": ["i2"], "offsets": [3], "itemsize": 8}, [],
]  # fmt: skip
ODD = [1, -2.5, True, "text", b"bytes", None, (1, 2), {"a": 1}, 10**30, 1j, np.datetime64("2020-01-01"), object]


@dataclass(frozen=True)
class Asked:
    """One call that the child makes."""

    function: str  # a name of `FUNCTIONS`, or one of `WAYS`
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outside: bool = False  # whether arrays are handed over as they are, not as tensors


WAYS = ["map_blocks", "map_blocks of a dtype", "spawn", "astype", "view", "getitem", "setitem", "reduce", "apply"]


def any_array(dtype: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """An array of a dtype, with values of all kinds where it holds objects."""
    kind = np.dtype(dtype)
    if kind.kind == "O":
        found = np.empty(shape, object)
        for place in np.ndindex(shape):
            found[place] = ODD[int(rng.integers(len(ODD)))]
        return found
    numbers = rng.integers(0, 9, (*shape, *kind.shape)) if kind.subdtype else rng.integers(0, 9, shape)
    try:
        return numbers.astype(kind.base)
    except (TypeError, ValueError):
        return np.zeros(shape, kind)


def _takes_dtype(name: str) -> bool:
    """Whether NumPy's function of that name is told a dtype."""
    function = reduce(getattr, name.split("."), np)
    if isinstance(function, np.ufunc):
        return True
    try:
        return "dtype" in inspect.signature(cast(Any, function)).parameters
    except ValueError:
        return False


class AnyDtype(Draw):
    """Draws arrays of any dtype, whatever kind a row asks for, half of the time."""

    def dtype(self, kinds: str) -> np.dtype[Any]:
        return super().dtype(kinds) if self.flag() else np.dtype(self.one(*DTYPES))

    def values(self, shape: tuple[int, ...], dtype: Any, wild: bool = True) -> Array:
        try:
            return super().values(shape, dtype, wild)
        except (KeyError, TypeError, ValueError):
            return any_array(dtype, shape, np.random.default_rng(math.prod(shape)))


@st.composite
def calls(draw: Any) -> Asked:
    """A call of any function."""
    d = AnyDtype(draw, draw(st.integers(0, 5)) == 0)
    name = draw(st.sampled_from([*sorted(ROWS), *WAYS * 12]))
    if name in WAYS:
        x = d.cut(any_array(d.one(*DTYPES), d.shape(1, 2), np.random.default_rng(d.int(0, 99))))
        return Asked(name, (x, d.one(*DTYPES)), {}, d.int(0, 3) == 0)
    try:
        found = ROWS[name](d)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, np.exceptions.DTypePromotionError):
        found = call(d.cut(any_array(d.one(*DTYPES), d.shape(), np.random.default_rng(0))))
    more = {"dtype": d.one(*DTYPES)} if _takes_dtype(name) and d.flag() else {}
    return Asked(name, found.args, found.kwargs | more, d.int(0, 3) == 0)
