"""Number of histogram bins by a named rule, as `bins="auto"` or "fd".

The rules need a few statistics of the data, which are computed at once.
Source: NumPy `lib/_histograms_impl.py` and the papers cited there.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.protocols import call
from jmars.tensor.tensor import Tensor

__all__ = ["number_of_bins"]

_RULES = ("auto", "fd", "rice", "scott", "sqrt", "sturges")


def number_of_bins(name: str, x: Tensor, rule: str, range_: Any) -> int:
    """Number of equal-width bins that NumPy would choose by a rule.

    Raises
    ------
    ValueError
        If NumPy does not know the rule, or the range of the data is not finite.
    UnsupportedError
        For "doane" and "stone", which need further passes over the data.
    """
    np.histogram_bin_edges(np.zeros(2), rule, range_)  # raises NumPy's errors
    if rule not in _RULES:
        raise UnsupportedError(
            f"np.{name} with bins={rule!r} is not in jmars; one of {', '.join(_RULES)} is, or give their number"
        )
    x = call("ravel", x)
    if range_ is not None:
        x = x[call("logical_and", x >= range_[0], x <= range_[1])]
    n = x.size
    if not n:
        return 1
    low, high = (float(one) for one in np.asarray(call("stack", [call("min", x), call("max", x)])))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"autodetected range of [{low}, {high}] is not finite")
    width = _width(x, rule, n, high - low)
    if width and x.dtype.kind in "iu":
        width = max(width, 1)
    first, last = (low, high) if range_ is None else range_
    if first == last:  # NumPy widens an empty range by one half on each side
        first, last = first - 0.5, last + 0.5
    return math.ceil((last - first) / width) if width else 1


def _width(x: Tensor, rule: str, n: float, spread: float) -> float:
    """Width of a bin by a rule, not yet rounded, for `n` elements."""
    third: float = n ** (1.0 / 3.0)
    if rule == "sqrt":
        return spread / math.sqrt(n)
    if rule == "rice":
        return spread / (2.0 * third)
    if rule == "sturges":
        return spread / (math.log2(n) + 1.0)
    if rule == "scott":
        factor: float = (24.0 * math.pi**0.5 / n) ** (1.0 / 3.0)
        return factor * float(call("std", x).fetch())
    quarter, three = np.asarray(call("percentile", x, [25, 75]))
    freedman = 2.0 * float(three - quarter) / third
    if rule == "fd":
        return freedman
    sturges = _width(x, "sturges", n, spread)
    if _is_bounded():
        return min(max(freedman, _width(x, "sqrt", n, spread) / 2), sturges)
    return min(freedman, sturges) if freedman else sturges


@cache
def _is_bounded() -> bool:
    """Whether this NumPy version bounds the number of bins of "auto"."""
    return len(np.histogram_bin_edges([0] * 98 + [1, 2], "auto")) > 10
