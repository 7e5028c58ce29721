"""Lazy masked arrays, with numpy.ma's names: the module that `np.ma` refers to in a `%%jmars` cell.

The import of this package registers functions in the table of protocols.py.

In reading order:

- handle.py: `MaskedTensor`, the handle
- masked_ufuncs.py: elementwise functions
- construction.py: making masked arrays, and access to masks and fill values
- functions.py: reductions, sorting, reshaping, joining, selection, products
- extras.py: covariances, fits, convolutions, distinct elements (NumPy: numpy/ma/extras.py)
"""

from typing import Any

import numpy as _np

from jmars.tensor.ma import construction, extras, functions, handle, masked_ufuncs
from jmars.tensor.ma.handle import MaskedTensor
from jmars.tensor.protocols import FUNCTIONS as _FUNCTIONS

__all__ = [
    "MaskedTensor",
    "construction",
    "extras",
    "functions",
    "handle",
    "masked_ufuncs",
]

# names taken over from numpy.ma
_PASSED_ON = set("masked masked_singleton nomask MaskType MaskError MAError masked_print_option".split())  # noqa: SIM905
_PASSED_ON |= {"bool_", "make_mask_descr"}


def __getattr__(name: str) -> Any:
    if f"ma.{name}" in _FUNCTIONS:
        return _FUNCTIONS[f"ma.{name}"]
    if name in _PASSED_ON:
        return getattr(_np.ma, name)
    if hasattr(_np.ma, name):
        raise AttributeError(f"np.ma.{name} is not in jmars yet; call it on the value, x.fetch()")
    raise AttributeError(f"module 'jmars.tensor.ma' has no attribute {name!r}, and neither has numpy.ma")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PASSED_ON, *(name[3:] for name in _FUNCTIONS if name.startswith("ma."))})
