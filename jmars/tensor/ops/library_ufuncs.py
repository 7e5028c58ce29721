"""Ufuncs of other libraries on tensors: `scipy.special.erf`, `numba.vectorize`, `np.frompyfunc`.

Such a ufunc becomes a node of an elementwise expression, as NumPy's own do, so that it fuses; each worker calls the
library's function itself, and so gives its bits.
Source: NEP 13.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from jmars.errors import UnsupportedError
from jmars.kernels.expression import UfuncReference
from jmars.tensor.ops.formula import Formula
from jmars.tensor.ops.matrix_operands import along_core_axes
from jmars.tensor.ops.records_and_objects import python_objects
from jmars.tensor.ops.ufuncs import UfuncKeywords
from jmars.tensor.protocols import PythonUfunc, call, offers
from jmars.tensor.tensor import as_tensor

__all__ = [
    "library_ufunc",
]


@offers("method.library_ufunc")
def library_ufunc(reference: UfuncReference | PythonUfunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Calls a ufunc, or its method `outer`, with tensors among the arguments.

    Raises
    ------
    UnsupportedError
        For other methods, and for keywords of ufuncs that work along axes.
    """
    if isinstance(reference, PythonUfunc):
        return python_objects(reference, method, inputs, kwargs)
    if method == "outer":
        x, y = map(as_tensor, inputs)
        inputs = (call("reshape", x, x.shape + (1,) * y.ndim), y)
    elif method != "__call__":
        raise UnsupportedError(
            f"{reference.name}.{method} is not in jmars; compute it on the value, x.fetch(), or use NumPy's functions"
        )
    signature = getattr(reference.load(), "signature", None)
    if isinstance(signature, str):
        return _along_axes(reference.load(), inputs, **kwargs)
    name = reference.name.rpartition(".")[2]
    keywords = UfuncKeywords.of(name, reference.nin, reference.nout, inputs, kwargs)
    outputs = [replace(reference, part=part) for part in range(reference.nout)]
    return keywords.apply(Formula(name), outputs)


def _along_axes(
    theirs: Any, inputs: tuple[Any, ...], *, out: Any = None, axes: Any = None, axis: Any = None, keepdims: Any = False
) -> Any:
    """Calls a ufunc that works along axes."""
    outs = inputs[theirs.nin :] or (out if isinstance(out, tuple) else (out,))

    def function(*given: Any) -> Any:
        return call("apply_gufunc", theirs, theirs.signature, *given)

    return along_core_axes(theirs, function, inputs[: theirs.nin], outs, axes, axis, keepdims)
