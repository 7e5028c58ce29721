"""`np.ma.MaskedArray` inside a cell: instances are NumPy's and lazy masked arrays; calling it makes a lazy array."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.ma.construction import masked_array
from jmars.tensor.ma.handle import MaskedTensor, data_of, mask_of, whole_mask
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.tensor import StandIn, as_tensor

__all__ = ["MaskedArray"]


class MaskedArray(np.ma.MaskedArray[Any, Any], metaclass=StandIn):
    """`np.ma.MaskedArray` inside a cell; a call makes a `MaskedTensor`.

    Examples
    --------
    >>> x = MaskedArray([1, 2], mask=[0, 1])
    >>> isinstance(x, MaskedArray), type(x).__name__, isinstance(np.ma.array([1]), MaskedArray)
    (True, 'MaskedTensor', True)
    """

    numpy_class = np.ma.MaskedArray
    lazy_classes = (MaskedTensor,)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a lazy masked array."""
        if cls is MaskedArray:
            return masked_array(*args, **kwargs)
        return super().__new__(cls, *args, **kwargs)  # a subclass defined by the user


class _Concatenator:
    """`np.ma.mr_`: joins arrays, ranges and numbers in brackets, data and masks alike."""

    def __getitem__(self, key: Any) -> MaskedTensor:
        if isinstance(key, str):
            raise np.ma.MAError("Unavailable for masked array.")  # NumPy's words
        entries = key if isinstance(key, tuple) else (key,)
        data = as_tensor(np.r_[tuple(map(data_of, entries))])
        if all(isinstance(one, str | slice) or mask_of(one) is None for one in entries):
            return MaskedTensor(data, None)
        falses = (np.zeros(len(np.r_[one]), bool) if isinstance(one, slice) else one for one in entries)
        return MaskedTensor(
            data, as_tensor(np.r_[tuple(one if isinstance(one, str) else whole_mask(one) for one in falses)])
        )


FUNCTIONS["ma.mr_"] = _Concatenator()  # type: ignore[assignment]  # has brackets in the place of a call
FUNCTIONS["ma.MaskedArray"] = FUNCTIONS["ma.masked_array"] = MaskedArray
