"""Arrays as Python text, of every kind of dtype and layout that a user may have, and how jmars cuts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Splits = tuple[tuple[int, ...], ...]

nan, inf = float("nan"), float("inf")
NAT = "NaT"
OTHER_BYTE_ORDER = 10  # per cent of arrays
INTS = [-3, -2, -1, 0, 1, 2, 3, 7]
FLOATS = [-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0]
DTYPES = {
    "b": ["?"],
    "i": ["i1", "i2", "i4", "i8"],
    "u": ["u1", "u2", "u4", "u8"],
    "f": ["f2", "f4", "f8"],
    "c": ["c8", "c16"],
    "M": ["M8[D]", "M8[ns]", "M8[s]"],
    "m": ["m8[D]", "m8[ns]", "m8[s]"],
    "U": ["U1", "U4"],
    "S": ["S3"],
    "V": ["[('x', 'i4'), ('y', 'f8')]", "[('p', 'u1', (2,)), ('q', 'U2')]"],
}
# The order of a sum decides about infinities in complex numbers, and about numbers of very different sizes.
VALUES: dict[str, tuple[list[Any], list[Any]]] = {  # kind: ordinary values, values that hurt
    "b": ([False, True], []),
    "i": (INTS, [-128, 127]),
    "u": ([0, 1, 2, 3, 7, 11], [255]),
    "f": (FLOATS, [nan, inf, -inf, -0.0]),
    "c": ([complex(a, b) for a in (-1.0, 0.0, 2.5) for b in (-2.0, 0.0, 0.5)], []),
    "M": ([-3, 0, 1, 8, 400], [NAT]),
    "m": ([-3, 0, 1, 8, 400], [NAT]),
    "U": (["", "a", "b", "Zz", "10", "-2"], ["ß", "long"]),
    "S": ([b"", b"a", b"b", b"Zz", b"10"], []),
}
RECORDS = {0: [(0, 0.5), (2, -1.0), (-3, 2.0), (1, nan)], 1: [((1, 2), "a"), ((0, 7), ""), ((3, 3), "bc")]}


@dataclass
class Drawing:
    """Choices, all made by one function, so that a seed gives the same program."""

    int: Callable[[int, int], int]  # a number from the first to the second, as Random.randint gives it

    def one(self, *values: T) -> T:
        """One of these."""
        return values[self.int(0, len(values) - 1)]

    def rarely(self, times: int = 5) -> bool:
        """True once in so many draws."""
        return self.int(0, times - 1) == times - 1

    def splits(self, shape: tuple[int, ...]) -> Splits:
        """A cut of each axis into chunks that are not empty."""
        return tuple(self._axis(n) for n in shape)

    def _axis(self, n: int) -> tuple[int, ...]:
        if n < 2:
            return (n,)
        edges = sorted({self.int(1, n - 1) for _ in range(self.int(0, 3))})
        return tuple(int(k) for k in np.diff([0, *edges, n]))


@dataclass(frozen=True)
class Made:
    """An array as text, as NumPy makes it, and its cut."""

    text: str
    array: np.ndarray[Any, Any]
    splits: Splits

    def again(self) -> np.ndarray[Any, Any]:
        """Another array of this text."""
        return np.asarray(eval(self.text, {"np": np, "nan": nan, "inf": inf}))


def dtype_text(d: Drawing, kinds: str) -> str:
    """A dtype of one of these kinds, now and then with the other byte order."""
    name = d.one(*DTYPES[d.one(*kinds)])
    if name[0] in "iufcMm" and np.dtype(name).itemsize > 1 and d.int(1, 100) <= OTHER_BYTE_ORDER:
        return ">" + name
    return name


def made(d: Drawing, kinds: str, finite: bool = False, high: int = 3, longest: int = 5) -> Made:
    """An array of at most `high` axes, contiguous, transposed, reversed, with steps, or part of a larger one."""
    dtype = dtype_text(d, kinds)
    kind = np.dtype(eval(dtype) if dtype[0] == "[" else dtype).kind
    shape = tuple(d.int(0 if d.rarely(3) else 2, longest) for _ in range(d.int(0, high)))
    layout = d.one("", "", "", "T", "reversed", "steps", "part") if shape else ""
    whole = {"T": shape[::-1], "steps": (*shape[:-1], 2 * shape[-1])}.get(layout, shape) if shape else shape
    if layout == "part":
        whole = (shape[0] + 2, *shape[1:])
    n = int(np.prod(whole, dtype=int))
    values = [_value(d, kind, dtype, finite) for _ in range(min(n, 8))]
    picks = np.random.default_rng(d.int(0, 999)).integers(0, max(len(values), 1), n).tolist() if n > 8 else range(n)
    text = _literal([values[k] for k in picks], dtype, kind, whole)
    text += {"T": ".T", "reversed": "[::-1]", "steps": "[..., ::2]", "part": "[1:-1]"}.get(layout, "")
    array = eval(text, {"np": np, "nan": nan, "inf": inf})
    return Made(text, array, d.splits(array.shape))


def _value(d: Drawing, kind: str, dtype: str, finite: bool) -> Any:
    if kind == "V":
        return d.one(*RECORDS["'p'" in dtype])
    tame, wild = VALUES[kind]
    return d.one(*wild) if wild and not finite and d.rarely(8) else d.one(*tame)


def _literal(values: list[Any], dtype: str, kind: str, shape: tuple[int, ...]) -> str:
    if dtype[0] != "[":
        dtype = repr(dtype)
    if kind in "Mm":
        numbers = [np.iinfo("i8").min if one == NAT else one for one in values]
        text = f"np.array({numbers}, 'i8').astype({dtype})"
    else:
        text = f"np.array({values}, {dtype})"
    return text if len(shape) == 1 else f"{text}.reshape({shape})"


def drawn_arrays(d: Drawing, finite: bool = False) -> dict[str, Made]:
    """Two or three arrays by name, most of them of the kind and shape of the first."""
    kinds = "iiiifffffbucMmUSV"
    kind = d.one(*kinds)
    found = {"a": made(d, kind, finite)}
    for name in "bc"[: d.int(1, 2)]:
        found[name] = made(d, kind if d.int(0, 1) else d.one(*kinds), finite)
        if d.int(0, 2):
            found[name] = Made(found["a"].text, found["a"].array, d.splits(found["a"].array.shape))
    return found
