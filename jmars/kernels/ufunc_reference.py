"""A ufunc that is none of NumPy's functions, as data: how an expression names `scipy.special.erf`.

The ufunc travels by its pickle, which for a ufunc of a module is the module's name and its own. Only the processes that
run a kernel load the pickle.
"""

from __future__ import annotations

import pickle
from functools import lru_cache
from typing import Any

from jmars.model.record import record

__all__ = ["UfuncReference"]


@record
class UfuncReference:
    """An output of a ufunc: the ufunc's name and pickle, and the number of the output.

    Examples
    --------
    >>> import numpy as np
    >>> UfuncReference("numpy.hypot", pickle.dumps(np.hypot), 2, 1).load()(3.0, 4.0)
    np.float64(5.0)
    """

    name: str  # with the public name of its module: "scipy.special.erf"
    blob: bytes
    nin: int
    nout: int
    part: int = 0

    def load(self) -> Any:
        """The ufunc; loaded once for each process."""
        return _loaded(self.blob)


@lru_cache(maxsize=256)
def _loaded(blob: bytes) -> Any:
    return pickle.loads(blob)
