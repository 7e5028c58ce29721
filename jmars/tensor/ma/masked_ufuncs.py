"""Elementwise functions of masked arrays: numpy.ma's functions, and NumPy's functions called with masked arrays.

The two differ as in NumPy: `np.ma.add(x, 1.0)` treats a Python number as float64 and leaves the first operand's data in
masked elements, `np.add(x, 1.0)` does neither. Where a function is undefined (`log` of 0, `x / 0`) the result is
masked.

Many of NumPy's functions respect masks (`np.sum`, `np.sqrt`). Other functions silently ignore masks (`np.median`,
`np.concatenate`); jmars refuses such calls. Once this package is imported, every call of the table goes through
`dispatch`.
Source: NumPy 2.4 `numpy/ma/core.py` (unary, binary and domained operations).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jmars.errors import UnsupportedError
from jmars.kernels.elementwise import UFUNCS
from jmars.tensor.ma.handle import MaskedTensor, data_of, fill_of, mask_of, whole_mask
from jmars.tensor.ops.arguments import write_out
from jmars.tensor.ops.numpy_code import on_tensors
from jmars.tensor.ops.setitem import is_element
from jmars.tensor.ops.shape import broadcast_to
from jmars.tensor.ops.ufuncs import astype, ufunc, where
from jmars.tensor.protocols import FUNCTIONS, call, find, offers, set_mask_hook
from jmars.tensor.tensor import Tensor, as_tensor

F = TypeVar("F", bound=Callable[..., Any])

_CORE: Any = np.ma.core
# function: (condition of its arguments under which it is undefined, value that NumPy's ufunc leaves there)
_DOMAINS: dict[str, tuple[Callable[..., Any], float]] = {
    op.__name__: (functools.partial(on_tensors(type(domain).__call__), domain), np.ravel(_CORE.ufunc_fills[op])[-1])
    for op, domain in _CORE.ufunc_domain.items()
    if domain is not None
}
# numpy.ma's functions made here, and other names of them
_FUNCTIONS = {"angle": (), "around": ("round_", "round")} | {
    name: op.others
    for name, op in UFUNCS.items()
    if hasattr(np.ma, name) and name not in ("left_shift", "maximum", "minimum", "power", "right_shift")
}


def masked_like(data: Any, mask: Tensor | None, *like: Any) -> MaskedTensor:
    """Make a masked array with the fill value and hardness of the first masked array in `like`; the mask broadcasts."""
    data = Tensor(as_tensor(data).data)
    if mask is not None and mask.data.shape != data.data.shape:
        mask = broadcast_to(mask, data.shape)
    mask = None if mask is None else Tensor(mask.data)
    source = next((one for one in like if isinstance(one, MaskedTensor)), None)
    return MaskedTensor(data, mask) if source is None else source._like(data, mask)


def combined_mask(*masks: Tensor | None) -> Tensor | None:
    """Combine masks by logical or; None if there is no mask."""
    there = [mask for mask in masks if mask is not None]
    result = there[0] if there else None
    for mask in there[1:]:
        result = ufunc("logical_or")(result, mask)
    return result


def takes_out(name: str) -> Callable[[F], F]:
    """Decorate a function: write data and mask of the result to `out`, or data alone if `out` has no mask."""

    def decorated(function: F) -> F:
        place = list(inspect.signature(function).parameters).index("out")

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            out = args[place] if len(args) > place else kwargs.pop("out", None)
            result = function(*args[:place], *((None,) if len(args) > place else ()), *args[place + 1 :], **kwargs)
            return result if out is None else _write_out(result, name, out)

        return called  # type: ignore[return-value]

    return decorated


def _write_out(result: Any, name: str, out: Any) -> Any:
    if isinstance(out, MaskedTensor):
        if out.shape != result.shape:
            raise ValueError(f"output array of shape {out.shape} does not match the result's {result.shape}")
        call("copyto", out._data, data_of(result), casting="unsafe")
        out.mask = False if mask_of(result) is None else mask_of(result)
        return out
    data, lost = as_tensor(data_of(result)), mask_of(result)
    if lost is not None and name not in _COUNTING:
        if out.dtype.kind in "biu" and bool(call("any", lost)):
            raise np.ma.MaskError("Masked data information would be lost in one or more location.")
        data = where(lost, np.nan, data) if out.dtype.kind in "fc" else data
    return write_out(data, name, out)


# masks are not written
_COUNTING = set("all any choose clip compress cumprod cumsum dot mean prod round sum take".split())  # noqa: SIM905


def _undefined(name: str, inputs: tuple[Any, ...], result: Any) -> Tensor | None:
    """Mask where a function is undefined or the result not finite; None for functions that are defined everywhere."""
    if name not in _DOMAINS:
        return None
    wrong: Tensor = ~ufunc("isfinite")(result) | _DOMAINS[name][0](*inputs)
    return wrong


def _function(name: str) -> Callable[..., Any]:
    """Make numpy.ma's function `name`."""
    theirs: Callable[..., Any] = FUNCTIONS[name]

    def function(a: Any, *others: Any, **kwargs: Any) -> MaskedTensor:
        more = others[: getattr(theirs, "nin", 1) - 1]
        inputs = tuple(data_of(one) for one in (a, *more))
        result = as_tensor(theirs(*inputs, *others[len(more) :], **kwargs))
        mask = combined_mask(_undefined(name, inputs, result), *(mask_of(one) for one in (a, *more)))
        made = masked_like(result, mask, a, *more)
        if made._lazy_mask is not None:
            made._data = _with_first_operand(made._lazy_mask, inputs[0], result, safe=name in _DOMAINS and bool(more))
        return made

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.ma.{name}`, lazily and chunk by chunk."
    return function


def _with_first_operand(mask: Tensor, first: Any, result: Tensor, safe: bool) -> Tensor:
    """Put the first operand's data into masked elements, as numpy.ma does, if the dtypes allow it."""
    kind = first.dtype
    casting = "safe" if safe else "unsafe" if result.dtype.kind == "b" or kind.kind == "b" else "same_kind"
    if not np.can_cast(kind, result.dtype, casting):  # type: ignore[arg-type]
        return where(mask, result.dtype.type(0), result) if safe else result
    return where(mask, astype(as_tensor(first), result.dtype), result)


for _name, _others in _FUNCTIONS.items():
    offers(*(f"ma.{one}" for one in (_name, *_others) if hasattr(np.ma, one)))(_function(_name))


@offers("ma.power")
def power(a: Any, b: Any, third: Any = None) -> MaskedTensor:
    """`numpy.ma.power`: compute powers; masked also where the result is not finite."""
    if third is not None:
        raise np.ma.MaskError("3-argument power not supported.")
    x, y = data_of(a), data_of(b)
    result = as_tensor(ufunc("power")(x, y))
    wrong = ~ufunc("isfinite")(result)
    mask = combined_mask(mask_of(a), mask_of(b))
    made = masked_like(result, combined_mask(mask, wrong), a)
    kept = result if mask is None else where(mask, x, result)
    made._data = astype(where(wrong, fill_of(kept.dtype, made._fill_value), kept), kept.dtype)
    return made


def _shifted(name: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`: masked elements count as 0.")
    def function(a: Any, n: Any) -> MaskedTensor:
        mask = mask_of(a)
        data = data_of(a) if mask is None else call("ma.filled", a, 0)
        return masked_like(ufunc(name)(data, n), mask)


_shifted("left_shift")
_shifted("right_shift")


def _extreme(name: str, compare: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`, element by element.")
    def function(a: Any, b: Any) -> MaskedTensor:
        found: MaskedTensor = call("ma.where", call(f"ma.{compare}", a, b), a, b)
        return found


_extreme("maximum", "greater")
_extreme("minimum", "less")


@offers("ma.operator")
def binary_operator(name: str, a: Any, b: Any) -> Any:
    """Apply a Python operator: numpy.ma's function where `MaskedArray` defines the operator, else NumPy's ufunc.

    Operands without axes are numbers, as in numpy.ma: NumPy's ufunc lets Python numbers take the other dtype.
    """
    numbers = not any(np.ndim(one) for one in (a, b))
    if name in ("add", "subtract", "multiply", "divide", "floor_divide", "power") and not numbers:
        return call(f"ma.{name}", a, b)
    return array_ufunc(name, a, b)


@offers("ma.comparison")
def comparison(name: str, a: Any, b: Any) -> MaskedTensor:
    """Compare elements; below the result's mask, `==` and `!=` compare the masks."""
    x, y = data_of(a), data_of(b)
    result = as_tensor(ufunc(name)(x, y))
    mask = combined_mask(mask_of(a), mask_of(b))
    if mask is not None and name in ("equal", "not_equal"):
        result = where(mask, ufunc(name)(whole_mask(a), whole_mask(b)), result)
    made = masked_like(result, mask, a, b)
    if made._fill_value is not None:
        try:
            made._fill_value = fill_of(result.dtype, made._fill_value)
        except (TypeError, ValueError):  # of text, as in numpy.ma
            made._fill_value = None
    return made


@offers("ma.ufunc")
def array_ufunc(name: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
    """Call NumPy's ufunc `name`; masked where an operand is masked or the function is undefined.

    Raises
    ------
    UnsupportedError
        For ufuncs that jmars lacks or that are not elementwise, such as matmul.
    """
    found, n_inputs = find(getattr(np, name)), getattr(np, name).nin
    if len(inputs) > n_inputs:
        inputs, out = inputs[:n_inputs], inputs[n_inputs]
    if found is None or name not in UFUNCS:
        raise UnsupportedError(f"np.{name} of masked arrays is not in jmars; use it on x.data or x.filled()")
    given = [data_of(one) if hasattr(one, "__array__") or isinstance(one, list | tuple) else one for one in inputs]
    result = found(*given, **kwargs)
    mask = combined_mask(*map(mask_of, inputs))
    if isinstance(result, tuple):
        return tuple(masked_like(one, mask, *inputs) for one in result)
    if name in _DOMAINS:
        where_not, put = _DOMAINS[name]
        wrong = where_not(*given)
        result = where(wrong, np.asarray(put).astype(result.dtype)[()], result)
        mask = combined_mask(mask, wrong)
    made = masked_like(result, mask, *inputs)
    target = out[0] if isinstance(out, tuple) else out
    if target is None:
        return made
    if not isinstance(target, MaskedTensor):
        raise TypeError("out= must be a masked tensor if an operand is masked, since other arrays have no mask")
    return target._take(made)


# NumPy's functions that respect masks, since they call a masked array's methods or operators.
_RESPECT_MASKS = set(
    """all any argmax argmin argsort asanyarray clip compress copy count_nonzero cumprod cumsum diagonal expand_dims max
    mean min ndim nonzero prod ptp ravel repeat reshape resize round shape size sort squeeze std sum swapaxes take trace
    transpose var zeros_like ones_like empty_like""".split()  # noqa: SIM905
)
_OF_THE_DATA = {"method.getitem", "method.setitem", "asarray", "array", "tensor", "rechunk", "iscomplexobj"}


def dispatch(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the masked version of the function `name`; NotImplemented if no argument is masked.

    Raises
    ------
    UnsupportedError
        If NumPy's function ignores masks, or jmars lacks a masked version.
    """
    if name.startswith("ma.") or not any(map(_is_masked, (*args, *kwargs.values()))):
        return NotImplemented
    if name == "method.pow":
        name = "power"
    if name == "diff":  # NumPy's calls operators
        return on_tensors(np.diff.__wrapped__)(*args, **kwargs)  # type: ignore[attr-defined]
    if name == "array" and kwargs.get("subok"):
        return FUNCTIONS["ma.array"](*args, **{"copy": True, **kwargs})
    if name in UFUNCS:
        return FUNCTIONS["ma.ufunc"](name, *args, **kwargs)
    if name in _RESPECT_MASKS and f"ma.{name}" in FUNCTIONS:
        return FUNCTIONS[f"ma.{name}"](*args, **kwargs)
    if name in _OF_THE_DATA:
        plain = {key: _plain(value) for key, value in kwargs.items()}
        if name == "method.setitem":
            args = (*args[:2], _written(*args))
        return FUNCTIONS[name](*map(_plain, args), **plain)
    known = f"ma.{name}" in FUNCTIONS
    raise UnsupportedError(
        f"np.{name.removeprefix('method.')} silently ignores the mask of a masked array, so jmars refuses it; use "
        + (f"np.ma.{name}, or " if known else "")
        + "the values: x.filled(...), x.compressed() or x.data"
    )


def _written(x: Any, index: Any, value: Any) -> Any:
    """The value that `x[index] = value` writes into a plain array: of a masked element NumPy's text, or NumPy's error.

    NumPy raises for integers, writes NaN to floats with a warning, and a text of zero to text.
    """
    if isinstance(value, list) and not any(isinstance(one, MaskedTensor) for one in value):
        return np.array(value, x.dtype)
    if isinstance(value, MaskedTensor) and not value.ndim and is_element(x, index):
        found = value.fetch()  # the mask decides where to write
        is_array = found is np.ma.masked and value._data._place.is_array  # an array without axes keeps its element
        value = np.ma.array(value._data.fetch(), mask=True) if is_array else found
    if isinstance(value, np.ma.MaskedArray) and not value.ndim and is_element(x, index):
        line = np.zeros(1, x.dtype)
        line[0] = value
        return line[0]
    return value


def _is_masked(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(isinstance(one, MaskedTensor | np.ma.MaskedArray) for one in value[:100])
    return isinstance(value, MaskedTensor | np.ma.MaskedArray)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, list) and _is_masked(value):
        if not any(isinstance(one, MaskedTensor) for one in value):
            return np.asarray(value)
        return [data_of(one) if isinstance(one, MaskedTensor) else one for one in value]
    return data_of(value) if isinstance(value, MaskedTensor | np.ma.MaskedArray) else value


set_mask_hook(dispatch)
