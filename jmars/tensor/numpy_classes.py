"""NumPy's array classes inside a cell: `isinstance(x, np.ndarray)` holds for NumPy's arrays and for tensors.

The classes are made by the metaclass `StandIn`. Like NumPy's, they can be called, inherited from and used in
annotations, and they are equal to NumPy's classes, so `type(a) == np.ndarray` holds. Tensors without axes correspond to
NumPy's scalars and are no instances of `ndarray`.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

import numpy as np

from jmars.tensor.composite import Composite
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.tensor import Tensor

__all__ = ["StandIn", "ndarray"]


class StandIn(ABCMeta):  # so that a class may inherit from `ABC`, too
    """Metaclass of stand-ins: instances are NumPy's (`numpy_class`), and instances of `lazy_classes` with axes."""

    numpy_class: type
    lazy_classes: tuple[type[Tensor | Composite], ...]

    def __instancecheck__(cls, value: Any) -> bool:
        if "numpy_class" not in vars(cls):  # a subclass defined by the user
            return super().__instancecheck__(value)
        return isinstance(value, cls.numpy_class) or (isinstance(value, cls.lazy_classes) and value.ndim > 0)

    def __subclasscheck__(cls, other: type) -> bool:
        if "numpy_class" not in vars(cls):
            return super().__subclasscheck__(other)
        return issubclass(other, (cls.numpy_class, *cls.lazy_classes))

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is vars(cls).get("numpy_class", cls)

    def __hash__(cls) -> int:
        return type.__hash__(vars(cls).get("numpy_class", cls))


class ndarray(np.ndarray[Any, Any], metaclass=StandIn):  # NumPy's spelling
    """`np.ndarray` inside a cell.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
    >>> isinstance(ones(3), ndarray), isinstance(np.ones(3), ndarray), isinstance(ones(3).sum(), ndarray)
    (True, True, False)
    """

    numpy_class = np.ndarray
    lazy_classes = (Tensor, Composite)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a NumPy array, at once."""
        return super().__new__(np.ndarray if cls is ndarray else cls, *args, **kwargs)


FUNCTIONS["ndarray"] = ndarray
