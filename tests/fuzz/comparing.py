"""Runs statements with NumPy and with jmars, and says in which way jmars differs."""

from __future__ import annotations

import os
import random
import re
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jmars.errors import ChunkSizeError, UnsupportedError
from jmars.notebook.numpy_names import resolve
from jmars.tensor.tensor import Tensor, as_tensor
from tests.fuzz import statements
from tests.fuzz.values import Drawing, Made, drawn_arrays, inf, nan
from tests.tensor.engine import OneByOne

CONSTANTS = {"nan": nan, "inf": inf}
FINE = {"f2": 3e-2, "f4": 2e-4, "f8": 1e-8, "c8": 2e-4, "c16": 1e-8}
LAST = Path(tempfile.gettempdir(), f"jmars-fuzz-{os.getpid()}")  # the statement that runs
REFUSALS = (UnsupportedError, ChunkSizeError)  # a clear error where NumPy gives a value
CLEAR = (  # words of other errors by which jmars refuses a value that NumPy documents not, or gives by accident
    "does not match the result's shape",  # `out` of quantiles, which NumPy's pages want in the shape of the result
    "is not acceptable: the product has",  # `out` of products with a number, which NumPy casts for some dtypes
    "no common DType exists",  # for sets of times and numbers, of which the sizes decide whether NumPy joins them
    "is unsupported in linalg",  # times and text as matrices
    "numpy.strings.multiply",  # text times numbers by np.multiply
    "has wrong shape",  # `out` of transforms over no axes, which NumPy broadcasts to
    "weights should have the same shape",  # which NumPy does not check for no points
    "invalid literal for int",  # text as the element of an array without elements
    "is not a valid method",  # which NumPy does not check for no quantiles
    "booleans have no decimals",  # NumPy rounds them into an `out` of another dtype
    "does not fit into shape",  # a replacement for NaN with more axes than the array
    "malformed string",  # text as the element of an array without elements
    "arrays used as indices must be of integer",  # times as positions, of which NumPy takes a single one as a number
    "'float' object is not iterable",  # a float as an axis
    "into shape (0,)",  # an empty array of several axes as the value of no positions
    "Cannot cast ufunc 'is",  # times tested into an array of another dtype, for which NumPy checks no rule
)
LENIENT = (  # words of NumPy's errors where jmars gives a value
    "could not convert string", "invalid literal for int",  # in a value that no result needs, which is not computed
    "is a malformed string",
    "ISO datetime formatting was too short",  # likewise
    "dispatcher for __array_function__",  # of text without axes, which is no list
    "Cannot cast scalar from",  # NaN as the median, by its value
    "for -: 'float' and 'NoneType'",  # `mean=None` of functions that leave out NaN
    "unhashable type",  # an array as the order of a norm
    "not inexact",  # of an empty array, which has no singular values
    "has no attribute 'flat'",  # a number in place of an array
    "be a C-Array",  # the layout of `out` in memory, of no matter here
)  # fmt: skip
UNORDERED = ("sorted=False", "sorted=None", "sorted=()")  # whose elements NumPy gives in the order of a hash table


@dataclass
class Tally:
    """Counts of outcomes: values that agree, errors of NumPy, refusals of jmars alone.

    A statement with several faults may meet any of them first, so each error `of_arguments` stands for each other.
    """

    of_arguments: tuple[type[Exception], ...] = (
        TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RuntimeError, BufferError
    )  # fmt: skip
    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


def attempt(line: str, space: dict[str, Any], names: Sequence[str] = ()) -> Any:
    """The value of a line, computed, None for a statement; or the error that it raises, then or in one of the names."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                code = compile(line, "<statement>", "eval")
            except SyntaxError:
                exec(compile(line, "<statement>", "exec"), space)
                value = None
            else:
                value = eval(code, space)
            computed = [np.asarray(one) for one in (*_leaves(value), *(space[name] for name in names))]
            return None if value is None else (value, computed)
    except Exception as error:
        return error


def _leaves(value: Any) -> list[Any]:
    return [one for part in value for one in _leaves(part)] if isinstance(value, list | tuple) else [value]


def compare(line: str, ours: Any, theirs: Any, tally: Tally, coarse: float = 0) -> str:
    """What differs between two outcomes of a line, in words; empty if they agree."""
    if isinstance(theirs, MemoryError):
        return ""
    if isinstance(theirs, Exception):
        tally.counts["refused by NumPy"] += 1
        if not isinstance(ours, Exception):
            if any(words in str(theirs) for words in LENIENT):
                return ""
            return f"NumPy raises {theirs!r}, and jmars gives {_shown(ours)}"
        family = tuple(one for one in type(theirs).__mro__ if one.__module__ == "builtins" and one not in _ROOTS)
        if isinstance(ours, (*family, *tally.of_arguments, *REFUSALS)):
            return ""
        return f"NumPy raises {theirs!r}, and jmars raises {ours!r}"
    if is_refusal(ours):
        tally.refused[line] += 1
        return ""
    if isinstance(ours, Exception):
        return f"jmars raises {ours!r}, and NumPy gives {_shown(theirs)}"
    tally.counts["values"] += 1
    if theirs is None:
        return ""
    return differs(*(_comparable(one[0], line) for one in (ours, theirs)), coarse)


def is_refusal(outcome: Any) -> bool:
    """Whether jmars refuses by a clear error what NumPy gives."""
    clear = isinstance(outcome, Exception) and any(words in str(outcome) for words in CLEAR)
    return clear or isinstance(outcome, REFUSALS)


def _comparable(value: Any, line: str) -> Any:
    """What of a value is the same for every right answer: the product of factors, elements in any order sorted."""
    kind = type(value).__name__
    if kind == "QRResult":  # of full rank; the signs are free
        return value.Q @ value.R, value.Q.shape
    if kind.startswith("UniqueInverse"):  # NaNs have numbers in any order
        values, inverse = map(np.asarray, value)
        return value[0], values[inverse]
    if line.startswith("np.unique(") and "equal_nan=False" in line and kind == "tuple":  # likewise
        return value[0]
    if line.startswith("np.linalg.cond("):  # of a singular matrix rounding decides
        return np.where(np.asarray(value) * np.finfo(value.dtype).eps > 1e-2, inf, value)
    if kind in ("SVDResult", "EighResult"):
        return value[kind == "SVDResult"], *(one.shape for one in value)
    return np.sort(value) if any(words in line for words in UNORDERED) and not isinstance(value, tuple) else value


_SETS = ("isin", "setdiff1d")
_ON_SCALARS = ("any", "all", "sum", "prod", "max", "min", "amax", "amin", "mean", "std", "var", "ptp")
_ROOTS = (Exception, BaseException, object)


def _shown(outcome: Any) -> str:
    return "no error" if outcome is None else repr(outcome[0])


def differs(ours: Any, theirs: Any, coarse: float = 0) -> str:
    """In which way a value differs from NumPy's; empty if it does not. Numbers may differ by `coarse`, relatively.

    The last bits of float32 in a float64 array depend on where NumPy's elements lie, as in `np.asinh(x, out=wide)`.
    """
    if isinstance(theirs, tuple | list):
        if not isinstance(ours, tuple | list) or len(ours) != len(theirs):
            return f"{ours!r} in place of {theirs!r}"
        return next((found for one, other in zip(ours, theirs) if (found := differs(one, other, coarse))), "")
    if not isinstance(theirs, np.ndarray | np.generic | bool | int | float | complex):
        return "" if _same_object(ours, theirs) else f"{ours!r} in place of {theirs!r}"
    if isinstance(theirs, int | float) and type(theirs) in (int, float) and np.shape(ours):
        return f"{ours!r} in place of the Python number {theirs!r}"
    value, expected = np.asarray(ours), np.asarray(theirs)
    if isinstance(theirs, np.str_ | np.bytes_):  # of the width of this text, which a lazy value does not know
        return "" if value.dtype.kind == expected.dtype.kind and value == expected else f"{value!r}, not {expected!r}"
    if isinstance(ours, Tensor) and (ours.dtype, ours.shape) != (value.dtype, value.shape):
        return f"announced {ours.dtype} {ours.shape}, computed {value.dtype} {value.shape}"
    is_nan = isinstance(theirs, np.floating | np.timedelta64) and np.isnan(expected)
    if is_nan and value.dtype.kind == expected.dtype.kind and np.isnan(value).all():
        return ""  # the quantile of a line with NaN is an element of the line, so that elements decide the dtype
    if (value.dtype, value.shape) != (expected.dtype, expected.shape):
        kinds = f"{value.dtype.str} {value.shape} in place of {expected.dtype.str} {expected.shape}"
        return f"{kinds}: {value!r}, {expected!r}"
    return "" if _equal(value, expected, coarse) else f"{value!r} in place of {expected!r}"


def _same_object(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, Tensor):
        return False
    try:
        return bool(ours == theirs)
    except ValueError:
        return repr(ours) == repr(theirs)


def _equal(value: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], coarse: float = 0) -> bool:
    if value.dtype.names:
        return all(_equal(value[name], expected[name], coarse) for name in value.dtype.names)
    if value.dtype.hasobject:
        return repr(value) == repr(expected)
    if value.dtype.kind not in "fc":
        return np.array_equal(value, expected, equal_nan=value.dtype.kind in "mM")
    fine = max(FINE.get(value.dtype.str[1:], 1e-8), coarse)
    with np.errstate(all="ignore"):
        there = np.abs(expected[np.isfinite(expected)]).astype("f8")
        near = fine * max(1.0, float(there.max(initial=0.0)))
        if value.dtype.kind == "c":  # which part of an infinite number is NaN, the order of the steps decides
            finite = np.isfinite(value)
            same = np.array_equal(finite, np.isfinite(expected))
            return same and bool(np.allclose(value[finite], expected[finite], rtol=fine, atol=near))
        return bool(np.allclose(value, expected, rtol=fine, atol=near, equal_nan=True))


@dataclass
class Pair:
    """The same names on both sides: NumPy's arrays, and tensors cut as drawn."""

    ours: dict[str, Any]
    theirs: dict[str, Any]

    @classmethod
    def of(cls, arrays: dict[str, Made]) -> Pair:
        """Tensors and arrays of the same values; neither side shares memory with the other."""
        theirs = {name: made.again() for name, made in arrays.items()}  # of the same layout, which a copy has not
        ours = {name: as_tensor(made.array, chunks=made.splits) for name, made in arrays.items()}
        lazy = resolve("numpy")
        return cls({"np": lazy, **CONSTANTS, **ours}, {"np": np, **CONSTANTS, **theirs})

    def side_effects(self, names: Sequence[str], coarse: float = 0) -> str:
        """Which of the names has another value than by NumPy."""
        for name in names:
            if found := differs(self.ours[name], self.theirs[name], coarse):
                return f"after it, {name} is {found}"
        return ""


@dataclass
class Tried:
    """A drawn statement and the arrays that it may name."""

    arrays: dict[str, Made]
    line: str

    @classmethod
    def drawn(cls, d: Drawing, statement: Callable[[Drawing, Sequence[str]], str], finite: bool = False) -> Tried:
        """A statement on two or three arrays, of finite numbers if asked: LAPACK may go on for ever with others."""
        arrays = drawn_arrays(d, finite)
        return cls(arrays, statement(d, list(arrays)))

    @property
    def text(self) -> str:
        """The program that shows the difference."""
        lines = [f"{name} = {one.text}  # cut {one.splits}" for name, one in self.arrays.items()]
        return "\n".join([*(one for one in lines if one[0] in self.line), self.line])

    def _transforms(self) -> bool:
        """Whether a Fourier transform has an axis, and the function passes `out` on."""
        first = self.line.partition("(")[2]
        there = all(
            one.array.ndim - ("..., 0]" in first) for name, one in self.arrays.items() if first.startswith(name)
        )
        ignores = re.match(r"np.fft.(hfft|ifft2|irfft2)\(", self.line)
        return there and not ignores and "axes=()" not in self.line and first[0] in "abc["

    def _has_no_meaning(self) -> bool:
        """Whether NumPy's answer is one by accident: of memory, of an unstable order, or of an overflow."""
        used = [one.array for name, one in self.arrays.items() if re.search(rf"\b{name}\b", self.line)]
        kinds = {one.dtype.kind for one in used}
        function = self.line.partition("(")[0].removeprefix("np.")
        not_finite = any(one.dtype.kind in "fc" and not np.isfinite(one).all() for one in used)
        has_steps = not all(one.flags.contiguous for one in used)
        return (
            (function.startswith("fft.") and any(not one.size for one in used))  # NumPy reads memory nobody wrote
            or (function.startswith("fft.") and "out=" in self.line and not self._transforms())  # leaves `out` as it is
            or (function.endswith("prod") and kinds <= {"m", "M"})  # NaT as a number is too large to be multiplied
            or (function in _SETS and "assume_unique=" in self.line and "assume_unique=False" not in self.line)
            or (function.startswith(("poly", "roots")) and kinds & {"S", "U", "m", "M"} != set())
            or bool(re.match(r"np.place\((\w)\b.*,[^,]*\b\1\b[^,]*\)$", self.line))  # reads what it wrote
            or bool(re.match(r"np.(vecdot|busday\w+)\(.*\b(\w)\b.*out=\(?\2\b", self.line))  # reads what it wrote
            or (function == "unpackbits" and any(not one.size for one in used))  # memory that nobody wrote
            or ("'x'" in self.line and function in ("lexsort", "trim_zeros"))  # text as a sequence of letters
            # NumPy 2.4 errs for a number and an `out` with steps
            or (function in ("isnan", "isinf", "signbit") and "out=" in self.line and has_steps)
            or ("nan" in self.line and "casting='unsafe'" in self.line)  # NaN as an integer
            or (function in ("nanmedian", "nanpercentile", "nanquantile") and "M" in kinds)  # refused but for NaT
            or (function == "einsum" and any(one.dtype == np.dtype("f2") and np.isinf(one).any() for one in used))
            or (function.startswith("nan") and "axis=(" in self.line and "[[" in self.line)  # axes of `q` mixed up
            or (function.startswith("nanm") and "initial=nan" in self.line)  # by the class of the argument
            or (function.startswith(("nanq", "nanp")) and "[]" in self.line)  # no quantiles: NaN decides the dtype
            or (self.line.startswith("np.add.at") and "nan" in self.line and bool(kinds & {"i", "u"}))  # NaN as integer
            or (function == "gradient" and kinds & {"m", "M"} and not all(one.dtype.isnative for one in used))
            or ("byteswap" in self.line and "U" in kinds)  # bytes that are no text
            or (function == "put_along_axis" and self.line.endswith("None)"))  # NumPy writes to no view with steps
            or bool(re.match(r"(\w)\.flat\[.*\] = .*\b\1\b", self.line))  # NumPy reads what it has written
            or bool(re.match(r"np.copyto\((\w)(\[.*\])?, \1\W", self.line))  # returns before NumPy reads `where`
            or (function == "vecmat" and "out=" in self.line and "c" in kinds)  # NumPy 2.4 errs unless in C order
            # NumPy writes to `start`, or takes a float
            or (function == "rollaxis" and bool(re.search(r"start=([abc]|-?[0-9]+[.])", self.line)))
            or (bool(re.match(r"np.(inner|dot)\(.*\b0\b", self.line)) and not_finite)  # BLAS skips factors of 0
            or ("initial=nan" in self.line and "out=" in self.line)  # NaN as an integer
            or (function in ("round", "around") and "c" in kinds and "out=" in self.line)  # NumPy checks no shape
            or (
                function == "interp"
                and any(one.ndim and (np.diff(one.astype("f8")) < 0).any() for one in used if one.dtype.kind in "iufb")
            )
            or (function == "linalg.pinv" and bool(re.search(r"(rcond|rtol)=0\b", self.line)))  # inverts roundings
            or (function == "gradient" and "1j" in self.line and "edge_order=2" in self.line)  # by a number's class
            or (function in _ON_SCALARS and bool(re.match(r"[^(]*\((\w) > \1, .*out=", self.line)))  # a scalar of `out`
            or (self.line.startswith("np.put_along_axis") and not re.match(r"[^(]*\(\w,", self.line))  # nobody reads it
        )

    def difference(self, tally: Tally) -> str:
        """What jmars does otherwise than NumPy, in words; empty if nothing."""
        if self._has_no_meaning():
            return ""
        pair = Pair.of(self.arrays)
        names = [name for name in self.arrays if name in self.line]
        theirs, ours = (attempt(self.line, space, names) for space in (pair.theirs, pair.ours))
        kinds = [one.array.dtype.str[1:] for name, one in self.arrays.items() if name in names]
        kinds += re.findall(r"astype\('(\w+)'", self.line)
        coarse = max((FINE.get(kind, 0) for kind in kinds), default=0) if "out=" in self.line else 0
        if found := compare(self.line, ours, theirs, tally, coarse):
            return found
        if isinstance(theirs, Exception) or isinstance(ours, Exception) or "overwrite_input=" in self.line:
            return ""
        return pair.side_effects(names, coarse)


def differences(name: str, examples: int, seed: int, engine: OneByOne, tally: Tally) -> list[tuple[str, str]]:
    """Drawn statements of a function, or of another sort, that differ from NumPy, with words; shortest first."""
    found = []
    for k in range(examples):
        d = Drawing(random.Random(f"{seed} {name} {k}").randint)
        tried = Tried.drawn(d, partial(statements.statement, name), finite=name in statements.OF_FINITE)
        LAST.write_text(tried.text)
        try:
            difference = tried.difference(tally)
        except Exception:
            difference = traceback.format_exc()
        if difference:
            found.append((tried.text, difference))
        engine.chunks.clear()
    LAST.unlink(missing_ok=True)
    return sorted(found, key=lambda one: len(one[0]))
