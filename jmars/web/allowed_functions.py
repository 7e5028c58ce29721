"""The functions that a graph sent as JSON may call: names of `jmars.tensor` and the functions behind them.

Made from the function table of jmars.tensor and closed by default: a function may be called from outside only if one of
the modules listed here defines it, and if it takes no function, no file and no array to write into.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from jmars.tensor.ops.random.distributions import DISTRIBUTIONS, VECTORS
from jmars.tensor.ops.random.numpy_random import Generator
from jmars.tensor.protocols import FUNCTIONS, call

__all__ = ["MODULES", "allowed_functions", "describe_functions", "find_function"]

MODULES = set(
    """attributes chunks.rechunk create.constants create.convert create.ranges elementwise.ufuncs index.boolean_mask
    index.select index.delete index.getitem index.nonzero index.put index.setitem
    linalg.decompositions linalg.matrix_products linalg.norms linalg.tensor_equations
    reduce.covariance reduce.cumulative reduce.derived_reductions reduce.histograms
    reduce.reduction shape.axes shape.concatenate shape.pad shape.repeat shape.reshape shape.resize
    signal.fft signal.polynomials signal.calculus signal.convolution signal.windows
    elementwise.bits index.flat_index sort.quantiles sort.sort sort.unique""".split()  # noqa: SIM905
)
_EXCLUDED = {  # of those modules
    "from_dlpack", "fromfunction", "piecewise",  # they take a function or an object
    "copyto", "put", "putmask", "place", "fill_diagonal", "put_along_axis",  # they write into an array
    "asarray_chkfinite",  # it computes at once
    "array2string", "array_str", "array_repr", "shares_memory", "may_share_memory", "poly1d",  # they give no array
    "method.pow", "method.cast_and_broadcast", "method.reduce",  # other names of power, or inner ones
}  # fmt: skip
_RANDOM = "random.default_rng."
_EXCLUDED_DRAWS = ("shuffle", "spawn", "bytes", "bit_generator")  # they write into an array, or return no array


def _draw(method: str, *args: Any, seed: Any = None, **kwargs: Any) -> Any:
    """Calls a method of a new generator `random.default_rng(seed)`."""
    return getattr(call("random.default_rng", seed), method)(*args, **kwargs)


@cache
def allowed_functions() -> dict[str, Callable[..., Any]]:
    """All functions that may be called from outside, by the name that a document uses."""
    found: dict[str, Callable[..., Any]] = {}
    for name, function in FUNCTIONS.items():
        module = str(getattr(inspect.unwrap(function), "__module__", ""))
        if module.removeprefix("jmars.tensor.ops.") in MODULES and name not in _EXCLUDED:
            found[name.removeprefix("method.")] = function
    for method in [*vars(Generator), *DISTRIBUTIONS, *VECTORS]:
        if not method.startswith("_") and method not in _EXCLUDED_DRAWS:
            found[_RANDOM + method] = partial(_draw, method)
    return dict(sorted(found.items()))


def find_function(name: str) -> Callable[..., Any] | None:
    """The function of a name, or None."""
    return allowed_functions().get(name)


@cache
def describe_functions() -> list[dict[str, str]]:
    """Name, parameters and summary of each function, for authors of documents."""
    return [
        {"name": name, "parameters": _parameters(name, function), "summary": _summary(name, function)}
        for name, function in allowed_functions().items()
    ]


def _parameters(name: str, function: Callable[..., Any]) -> str:
    if not name.startswith(_RANDOM):
        return ", ".join(
            str(one.replace(annotation=inspect.Parameter.empty)) for one in _signature(function) if one.name != "out"
        )
    method = name.removeprefix(_RANDOM)
    if method in DISTRIBUTIONS or method in VECTORS:
        return ", ".join((*(DISTRIBUTIONS | VECTORS)[method], "size=None", "chunk_size=None", "seed=None"))
    own = [one.replace(annotation=inspect.Parameter.empty) for one in _signature(getattr(Generator, method))[1:]]
    return ", ".join([*(str(one) for one in own if one.name != "out"), "seed=None"])


def _signature(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _summary(name: str, function: Callable[..., Any]) -> str:
    method = name.removeprefix(_RANDOM)
    if method in DISTRIBUTIONS or method in VECTORS:
        return f"`np.random.Generator.{method}`."
    shown = function if method == name else getattr(Generator, method)
    return (inspect.getdoc(shown) or f"`np.{name}`.").split("\n")[0]
