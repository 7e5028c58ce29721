"""Adapts xarray's internals to points of tensors, `d.sel(lat=points, lon=points)`.

xarray has an adapter for arrays of the array API standard, which knows no indices of several arrays; tensors know them,
as NumPy does. Without such an adapter in xarray, this has no effect. Source: xarray `core/nputils.py`,
`NumpyVIndexAdapter`.
"""

from __future__ import annotations

from typing import Any

from xarray.core import indexing, nputils

import jmars.tensor as mt
from jmars.tensor.tensor import Tensor

__all__ = ["teach_points"]


def teach_points() -> None:
    """Let xarray index tensors by points."""
    adapter = getattr(indexing, "ArrayApiIndexingAdapter", None)
    places = getattr(nputils, "_advanced_indexer_subspaces", None)
    before = getattr(adapter, "_vindex_get", None)
    if before is None or places is None or getattr(before, "of_jmars", False):
        return

    def at_points(self: Any, indexer: Any) -> Any:
        if not isinstance(self.array, Tensor):
            return before(self, indexer)
        key = indexer.tuple
        return mt.moveaxis(self.array[key], *places(key))

    at_points.of_jmars = True  # type: ignore[attr-defined]
    adapter._vindex_get = at_points  # type: ignore[union-attr]
