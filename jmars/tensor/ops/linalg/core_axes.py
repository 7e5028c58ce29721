"""The keywords `axes=`, `axis=` and `keepdims=` of ufuncs that work on vectors or matrices, such as `np.matmul`.

The core axes are moved to the end, where the functions of jmars expect them, and those of the results back.
Source: NumPy reference, "Universal functions: optional keyword arguments"; NEP 20.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.tensor.ops.out_argument import assign_out
from jmars.tensor.ops.shape.axes import expand_dims, moveaxis
from jmars.tensor.tensor import as_tensor

__all__ = ["along_core_axes", "takes_core_axes"]


def takes_core_axes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the keywords to a function of the ufunc with its name."""
    theirs: np.ufunc = getattr(np, function.__name__)

    @functools.wraps(function)
    def called(*inputs: Any, axes: Any = None, axis: Any = np._NoValue, keepdims: Any = False, **kwargs: Any) -> Any:
        axis = None if axis is np._NoValue else operator.index(axis)
        if axes is None and axis is None and not keepdims:
            return function(*inputs, **kwargs)  # which lays out its result
        outs = (*inputs[theirs.nin :], kwargs.pop("out", None))
        partial = functools.partial(function, **kwargs)
        return along_core_axes(theirs, partial, inputs[: theirs.nin], outs[:1], axes, axis, keepdims)

    return called


def along_core_axes(
    theirs: np.ufunc, function: Callable[..., Any], inputs: Any, outs: Any, axes: Any, axis: Any, keepdims: Any
) -> Any:
    """Results of `function` along other axes than the last ones, written to `outs`, of which each may be None.

    Raises
    ------
    TypeError, ValueError, AxisError
        As NumPy raises them.
    """
    tensors = [as_tensor(one) for one in inputs]
    given = {
        name: one for name, one in (("axes", axes), ("axis", axis), ("keepdims", keepdims or None)) if one is not None
    }
    if given:
        signature = str(theirs.signature)
        if not re.search(r"\d", signature):
            theirs(*(np.ones((1,) * x.ndim, x.dtype) for x in tensors), **given)  # raises NumPy's errors
        before, after = (re.findall(r"\(([^()]*)\)", side) for side in signature.split("->"))
        counts = [_count(core, x.ndim) for core, x in zip(before, tensors)]
        results = [len([name for name in core.split(",") if name]) for core in after]
        if "?" in signature:  # of matmul: a vector has no row or column, nor has the result
            results = [sum(counts) - 2]
        if axis is not None:
            axes = [(axis,)] * len(tensors) + [(axis,) if keepdims or n else () for n in results]
        axes = list(axes) if axes is not None else [tuple(range(-n, 0)) for n in counts]
        axes += [tuple(range(-counts[0] if keepdims else -n, 0)) for n in results][len(axes) - len(tensors) :]
        axes = [one if isinstance(one, tuple) else (one,) for one in axes]
        tensors = [moveaxis(x, one, range(-len(one), 0)) if one else x for x, one in zip(tensors, axes)]
    found = function(*tensors)
    made = list(found) if isinstance(found, tuple) else [found]
    for i, at in enumerate(axes[len(tensors) :] if given else ()):
        if keepdims:
            made[i] = expand_dims(made[i], tuple(k % (made[i].ndim + len(at)) for k in at))
        elif at:
            made[i] = moveaxis(made[i], range(-len(at), 0), at)
    written = [assign_out(one, out, theirs.__name__) for one, out in zip(made, [*outs, *[None] * len(made)])]
    return tuple(written) if isinstance(found, tuple) else written[0]


def _count(core: str, ndim: int) -> int:
    """Number of core axes of an input, of which those with "?" may be missing."""
    names = [name for name in core.split(",") if name]
    return min(len(names), ndim) if "?" in core else len(names)
