"""Refers to ufuncs that are none of NumPy's functions: of SciPy, of numba, of `np.frompyfunc`.

A ufunc of a module pickles by the names of module and ufunc. A ufunc of `np.frompyfunc` does not pickle: the Python
function that it calls is pickled in its place.
"""

from __future__ import annotations

import gc
import pickle
import warnings
from collections.abc import Callable
from functools import lru_cache
from pickle import whichmodule  # type: ignore[attr-defined]
from typing import Any

import cloudpickle
import numpy as np

from jmars.errors import UnsupportedError
from jmars.kernels.expression import UfuncReference

__all__ = ["PythonUfunc", "reference_to"]


class PythonUfunc:
    """A ufunc of `np.frompyfunc`: calls a Python function for each element, and gives objects.

    Examples
    --------
    >>> PythonUfunc(divmod, 2, 2).ufunc(7, 2)
    (3, 1)
    """

    def __init__(self, function: Callable[..., Any], nin: int, nout: int) -> None:
        self.function, self.nin, self.nout = function, nin, nout
        self.ufunc = np.frompyfunc(function, nin, nout)

    def __reduce__(self) -> Any:
        return PythonUfunc, (self.function, self.nin, self.nout)


def reference_to(ufunc: Any) -> UfuncReference | PythonUfunc:
    """Make the reference by which an expression names a ufunc; for `np.frompyfunc` the function itself.

    Raises
    ------
    UnsupportedError
        If the ufunc does not pickle, so that no other process can have it.

    Examples
    --------
    >>> reference_to(np.hypot).name.rpartition(".")[2]
    'hypot'
    >>> reference_to(np.frompyfunc(hex, 1, 1)).function
    <built-in function hex>
    """
    function = _python_function(ufunc)
    if function is not None:
        return PythonUfunc(function, ufunc.nin, ufunc.nout)
    return _reference(ufunc)


@lru_cache(maxsize=256)
def _reference(ufunc: Any) -> UfuncReference:
    name = str(ufunc.__name__)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of modules such as numpy.core, which are searched
            blob = cloudpickle.dumps(ufunc)
            module: str = whichmodule(ufunc, name) if isinstance(ufunc, np.ufunc) else ""
        if module == "__main__":
            raise pickle.PicklingError("no module has it")
    except Exception as error:
        raise UnsupportedError(
            f"the ufunc {name} cannot be sent to the workers ({error}); call it there by map_blocks, in a function "
            "that imports or makes it"
        ) from error
    public = [part for part in module.split(".") if not part.startswith("_") or module.startswith("numpy.")]
    return UfuncReference(".".join([*filter(None, public), name]), blob, ufunc.nin, ufunc.nout)


def _python_function(ufunc: Any) -> Callable[..., Any] | None:
    """The function that a ufunc of `np.frompyfunc` calls; NumPy tells it to the garbage collector only."""
    if (
        not isinstance(ufunc, np.ufunc)
        or not ufunc.__name__.endswith(" (vectorized)")
        or set(ufunc.types[0]) - set("O->")
    ):
        return None
    return next((one for one in gc.get_referents(ufunc) if callable(one)), None)
