"""NumPy's array classes as a cell sees them: `isinstance(x, np.ndarray)` holds for NumPy's arrays and for lazy ones.

Each is made by `StandIn` and can do what NumPy's can: it is called, inherited from, written in annotations, is equal
to NumPy's own, as `type(a) == np.ndarray` asks. Tensors without axes stand for NumPy's numbers, which are no arrays.
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
    """The class of classes with `theirs`, which has instances of it, and `ours`, of which those with axes are too."""

    theirs: type
    ours: tuple[type[Tensor | Composite], ...]

    def __instancecheck__(cls, value: Any) -> bool:
        if "theirs" not in vars(cls):  # a class of the user's that inherits
            return super().__instancecheck__(value)
        return isinstance(value, cls.theirs) or (isinstance(value, cls.ours) and value.ndim > 0)

    def __subclasscheck__(cls, other: type) -> bool:
        if "theirs" not in vars(cls):
            return super().__subclasscheck__(other)
        return issubclass(other, (cls.theirs, *cls.ours))

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is vars(cls).get("theirs", cls)

    def __hash__(cls) -> int:
        return type.__hash__(vars(cls).get("theirs", cls))


class ndarray(np.ndarray[Any, Any], metaclass=StandIn):  # NumPy's name
    """`np.ndarray` inside a cell.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
    >>> isinstance(ones(3), ndarray), isinstance(np.ones(3), ndarray), isinstance(ones(3).sum(), ndarray)
    (True, True, False)
    """

    theirs = np.ndarray
    ours = (Tensor, Composite)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """One of NumPy's own, at once."""
        return super().__new__(np.ndarray if cls is ndarray else cls, *args, **kwargs)


FUNCTIONS["ndarray"] = ndarray
