"""Number of histogram bins by a named rule, as `bins="auto"` or "fd".

The rules need a few statistics of the data, which are computed at once; "stone" needs a histogram for each number of
bins that it tries.
Source: NumPy `lib/_histograms_impl.py` and the papers cited there.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from jmars.tensor.engine import get_engine
from jmars.tensor.operand import warn_user
from jmars.tensor.protocols import call
from jmars.tensor.tensor import Tensor

__all__ = ["number_of_bins"]

_TOGETHER = 50  # histograms that a job computes for "stone"


def number_of_bins(x: Tensor, rule: str, range_: Any) -> int:
    """Number of equal-width bins that NumPy would choose by a rule.

    Raises
    ------
    ValueError
        If NumPy does not know the rule, or the range of the data is not finite.
    """
    np.histogram_bin_edges(np.zeros(2), rule, range_)  # raises NumPy's errors
    x = call("ravel", x)
    if range_ is not None:
        x = x[call("logical_and", x >= range_[0], x <= range_[1])]
    n = x.size
    if not n:
        return 1
    low, high = (float(one) for one in np.asarray(call("stack", [call("min", x), call("max", x)])))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"autodetected range of [{low}, {high}] is not finite")
    first, last = (low, high) if range_ is None else range_
    if first == last:  # NumPy widens an empty range by one half on each side
        first, last = first - 0.5, last + 0.5
    if rule == "stone":
        width = _stone_width(x, n, high - low, (first, last))
    else:
        width = _width(x, rule, n, high - low)
    if width and x.dtype.kind in "iu":
        width = max(width, 1)
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
    if rule == "doane":
        return _doane_width(x, n, spread)
    quarter, three = np.asarray(call("percentile", x, [25, 75]))
    freedman = 2.0 * float(three - quarter) / third
    if rule == "fd":
        return freedman
    sturges = _width(x, "sturges", n, spread)
    if _is_bounded():
        return min(max(freedman, _width(x, "sqrt", n, spread) / 2), sturges)
    return min(freedman, sturges) if freedman else sturges


def _doane_width(x: Tensor, n: float, spread: float) -> float:
    """Width by the rule of Doane: Sturges's rule with the skewness of the data."""
    sigma = float(call("std", x).fetch()) if n > 2 else 0.0
    if not sigma > 0.0:
        return 0.0
    skewness = float(call("mean", ((x - call("mean", x)) / sigma) ** 3).fetch())
    error = math.sqrt(6.0 * (n - 2) / ((n + 1.0) * (n + 3)))
    return spread / (1.0 + math.log2(n) + math.log2(1.0 + abs(skewness) / error))


def _stone_width(x: Tensor, n: int, spread: float, edges: tuple[float, float]) -> float:
    """Width by the rule of Stone: the number of bins, up to sqrt(n), with the least estimated error."""
    if n <= 1 or not spread:
        return 0.0
    most = max(100, int(math.sqrt(n)))
    best, least = 1, math.inf
    for first in range(1, most + 1, _TOGETHER):
        tried = range(first, min(first + _TOGETHER, most + 1))
        counts = [call("histogram", x, bins, edges)[0] for bins in tried]
        get_engine().execute([one.data for one in counts])
        for bins, one in zip(tried, counts):
            share = one.fetch(copy=False) / n
            error = (2 - (n + 1) * float(share.dot(share))) / (spread / bins)
            best, least = (bins, error) if error < least else (best, least)
    if best == most:
        warn_user("The number of bins estimated may be suboptimal.", RuntimeWarning)
    return spread / best


@cache
def _is_bounded() -> bool:
    """Whether this NumPy version bounds the number of bins of "auto"."""
    return len(np.histogram_bin_edges([0.0] * 98 + [1.0, 2.0], "auto")) > 10
