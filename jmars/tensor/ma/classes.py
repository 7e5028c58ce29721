"""`np.ma.MaskedArray` inside a cell: instances are NumPy's and lazy masked arrays; calling it makes a lazy array."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.ma.construction import masked_array
from jmars.tensor.ma.handle import MaskedTensor
from jmars.tensor.numpy_classes import StandIn
from jmars.tensor.protocols import FUNCTIONS

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


FUNCTIONS["ma.MaskedArray"] = FUNCTIONS["ma.masked_array"] = MaskedArray
