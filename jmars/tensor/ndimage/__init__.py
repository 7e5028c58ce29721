"""`jmars.tensor.ndimage`: the names of `scipy.ndimage`, for tensors; imported on first use, since SciPy is optional.

- filters.py: filters and morphology, on chunks with their neighbours

Other names are SciPy's own; their functions take the value of a tensor.
"""

from __future__ import annotations

from typing import Any

from scipy import ndimage

from jmars.tensor.ndimage import filters
from jmars.tensor.protocols import FUNCTIONS

__all__ = ["filters"]


def __getattr__(name: str) -> Any:
    found = FUNCTIONS.get(f"ndimage.{name}")
    return getattr(ndimage, name) if found is None else found


def __dir__() -> list[str]:
    return sorted({*__all__, *ndimage.__all__})
