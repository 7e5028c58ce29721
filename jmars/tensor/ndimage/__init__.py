"""`jmars.tensor.ndimage`: the names of `scipy.ndimage`, for tensors; imported on first use, since SciPy is optional.

- filters.py: filters and morphology, on chunks with their neighbours
- labels.py: connected components
- measurements.py: sums, extremes, centres, boxes of labelled elements

Other names are SciPy's own; their functions take the value of a tensor.
"""

from __future__ import annotations

from typing import Any

from scipy import ndimage

from jmars.tensor.ndimage import filters, labels, measurements
from jmars.tensor.protocols import FUNCTIONS

__all__ = ["filters", "labels", "measurements"]


def __getattr__(name: str) -> Any:
    found = FUNCTIONS.get(f"ndimage.{name}")
    return getattr(ndimage, name) if found is None else found


def __dir__() -> list[str]:
    return sorted({*__all__, *ndimage.__all__})
