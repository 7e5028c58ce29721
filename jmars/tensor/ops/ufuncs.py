"""Elementwise functions: a function per ufunc, NumPy's keywords of ufuncs, functions of several ufuncs.

All become `ElementwiseOperand`s (formula.py) with expressions that fuse. The keywords are `out`, `where`, `casting`,
`order`, `dtype`, `subok`, `signature`.
Source: NumPy reference, "Universal functions: optional keyword arguments".
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct

from jmars.kernels.elementwise import UFUNCS
from jmars.kernels.expression import UfuncReference
from jmars.tensor.buffers import fits_order
from jmars.tensor.operand import cast_dtype, kind_of, loses_imaginary, result_type, warn_user
from jmars.tensor.ops.arguments import assign_out, copied, trial, without_leading_ones
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.formula import Formula, FormulaValue, handled_errors
from jmars.tensor.protocols import call, call_numpy, offers, overriding_args
from jmars.tensor.small_parts import apply_small
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]

_METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")


def ufunc(name: str) -> Callable[..., Any]:
    """Makes the lazy function for NumPy's ufunc `name`, with NumPy's keywords and methods."""
    theirs: np.ufunc = getattr(np, name)
    outputs = (name,) if theirs.nout == 1 else tuple(f"{name}.{part}" for part in range(theirs.nout))

    def function(*inputs: Any, **kwargs: Any) -> Any:
        keywords = UfuncKeywords.of(name, theirs.nin, theirs.nout, inputs, kwargs)
        if name == "power":
            base, exponent = keywords.inputs
            _check_exponent(base, exponent, keywords.signature)
        return keywords.apply(Formula(name), outputs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`np.{name}`, lazily and chunk by chunk."
    for method in _METHODS:
        setattr(function, method, _ufunc_method(theirs, method))
    return function


def _ufunc_method(theirs: np.ufunc, name: str) -> Callable[..., Any]:
    """Makes a ufunc's method, as `np.add.reduce`; see ufunc_methods.py."""

    def method(array: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("initial", 0) is np._NoValue:
            del kwargs["initial"]
        if next(overriding_args((array, *args, *kwargs.values())), None) is not None:
            return call_numpy(getattr(theirs, name), (array, *args), kwargs, as_tensor)
        if name == "at" and not kwargs and apply_small(theirs.at, array, *args):
            return None
        return call(f"method.{name}", theirs, array, *args, **kwargs)

    return method


def _check_exponent(base: Any, exponent: Any, signature: Any = None) -> None:
    """Refuse a negative integer as exponent of integers, as NumPy does in computations with integers."""
    if signature is not None:
        return
    exponent = exponent[()] if isinstance(exponent, np.ndarray) else exponent
    if not isinstance(exponent, int | np.integer) or exponent >= 0:
        return
    kind = kind_of(base)
    if kind is int or (isinstance(kind, np.dtype) and kind.kind in "iu"):
        raise ValueError("Integers to negative integer powers are not allowed.")


for _name, _op in UFUNCS.items():
    offers(_name, *_op.others)(ufunc(_name))


@offers("method.pow")
def power(x: Any, exponent: Any, out: Any = None) -> Any:
    """`x ** exponent`, with the fast paths of NumPy's operator (`x ** 2` is `square(x)`)."""
    shortcut = "power"
    if type(exponent) in (int, float) and isinstance(x, Tensor):
        if x.dtype.kind in "fc":
            names = {2: "square", 1: "positive", 0.5: "sqrt", -1: "reciprocal"}
            shortcut = names.get(exponent, "power")
        elif x.dtype.kind in "biu" and type(exponent) is int and exponent == 2:
            shortcut = "square"
    if shortcut != "power":
        return ufunc(shortcut)(x, out=out)
    return ufunc("power")(x, exponent, out=out)


@offers("where")
def where_array(condition: Any, x: Any = np._NoValue, y: Any = np._NoValue, /) -> Tensor:
    """`np.where`; the result is an array also without axes."""
    found = where(condition, x, y)
    if isinstance(found, Tensor):
        found._place.buffer.is_array = True
    return found


def where(condition: Any, x: Any = np._NoValue, y: Any = np._NoValue) -> Tensor:
    """`np.where(condition, x, y)`; `np.where(condition)` is `nonzero`."""
    if x is np._NoValue and y is np._NoValue:
        return cast(Tensor, call("nonzero", condition))  # a tuple, as NumPy's
    if x is np._NoValue or y is np._NoValue:
        raise ValueError("either both or neither of x and y should be given")
    formula = Formula("where")
    return formula.tensor(formula.where(formula.read(condition), formula.read(x), formula.read(y)))


@offers("clip")
def clip(a: Any, a_min: Any = np._NoValue, a_max: Any = np._NoValue, out: Any = None, **kwargs: Any) -> Any:
    """`np.clip`: limits elements to [a_min, a_max]; either bound may be None."""
    if a_min is np._NoValue and a_max is np._NoValue:
        a_min, a_max = kwargs.pop("min", None), kwargs.pop("max", None)
    elif a_min is np._NoValue or a_max is np._NoValue:
        missing = "a_min" if a_min is np._NoValue else "a_max"
        raise TypeError(f"clip() missing 1 required positional argument: {missing!r}")
    elif "min" in kwargs or "max" in kwargs:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    keywords = UfuncKeywords.of("clip", 1, 1, (a,), kwargs if out is None else {**kwargs, "out": out})
    chosen = keywords.signature and (None, *keywords.signature)
    formula = Formula("clip")
    value = formula.read(a if isinstance(a, Tensor) else as_tensor(a))  # a Python number is an array to NumPy
    if isinstance(value.kind, np.dtype) and value.kind.kind in "iu":  # a Python int beyond the dtype bounds nothing
        limits = np.iinfo(value.kind)
        a_min = None if type(a_min) is int and a_min <= limits.min else a_min
        a_max = None if type(a_max) is int and a_max >= limits.max else a_max
    pairs = (("maximum", a_min), ("minimum", a_max))
    bounds = [(name, formula.read(bound)) for name, bound in pairs if bound is not None]
    if len(bounds) == 2 and chosen is None and keywords.casting == "same_kind":  # a single loop in NumPy
        common = result_type(value.kind, *(bound.kind for _, bound in bounds))
        if np.can_cast(value.kind, common, "same_kind"):
            value = formula.cast(value, common)
    for name, bound in bounds:
        value = formula.apply(name, value, bound, signature=chosen, casting=keywords.casting)
    if a_min is None and a_max is None:
        value = formula.apply("positive", value, signature=keywords.signature, casting=keywords.casting)
    return keywords.finish(formula, [value])


@offers("round", "around")
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """`np.round`: rounds to `decimals` places, halves to even."""
    decimals = operator.index(decimals)
    if out is not None:
        trial("round", as_tensor(a), decimals=decimals, out=out)  # raises NumPy's errors
    formula = Formula("round")
    x = formula.read(a)
    if x.number >= 0 and x.kind.kind == "c" and decimals:  # part by part: an infinite part would spoil the other part
        one = as_tensor(a)
        return _write_rounded(blockwise("round", np.round, [one], one.chunks, one.dtype, (decimals,), lines=()), out)
    if x.kind == np.dtype(bool):
        if decimals:
            raise TypeError("booleans have no decimals to round to; convert them with astype")
        value = formula.cast(x, np.float16)
    elif result_type(x.kind).kind in "iu":
        value = x
        if decimals < 0:
            scaled = formula.apply("rint", formula.apply("divide", x, formula.read(float(10**-decimals))))
            value = formula.cast(formula.apply("multiply", scaled, formula.read(float(10**-decimals))), x.kind)
    elif decimals == 0:
        value = formula.apply("rint", x)
        value = formula.cast(value, x.kind) if x.number >= 0 and x.kind.kind == "c" else value  # in its byte order
    else:
        there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
        factor = formula.read(float(10 ** builtins.abs(decimals)))
        value = formula.apply(back, formula.apply("rint", formula.apply(there, x, factor)), factor)
        value = formula.cast(value, x.kind) if x.number >= 0 else value  # in the order of bytes of the input
    result = formula.tensor(value)
    return _write_rounded(result if result.data.shape else native(result), out)  # NumPy's scalar


def _write_rounded(result: Tensor, out: Any) -> Any:
    """The result, or `out` of as many elements after the write."""
    if out is not None:
        if not isinstance(out, Tensor | np.ndarray):
            raise TypeError("output must be an array")
        if out.size != result.size:
            raise ValueError("invalid output shape")
        result = (
            without_leading_ones(result, out.ndim) if result.dtype.kind in "iu" else result
        )  # NumPy copies such arrays
    return assign_out(result, out, "round")


@offers("astype")
def _astype_of_array(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`np.astype`, of arrays and NumPy's scalars alone."""
    if not isinstance(x, Tensor | np.ndarray | np.generic):
        raise TypeError(f"Input should be a NumPy array or scalar. It is a {type(x)} instead.")  # NumPy's words
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')  # NumPy's words
    return astype(x, dtype, copy=copy)


@offers("method.astype")
def astype(x: Any, dtype: Any, /, *, copy: bool = True, casting: str = "unsafe", order: str = "K") -> Tensor:
    """`x.astype`: casts the elements to a different dtype; `x` itself with `copy=False` where dtype and order fit."""
    if not hasattr(x, "dtype"):
        raise TypeError(f"Input should be a NumPy array. It is a {type(x)} instead.")  # NumPy's words
    given = as_tensor(x)
    dtype = cast_dtype(given.dtype, dtype, casting)
    if not copy and given.dtype == dtype and fits_order(given._place, order):
        return given
    made = _astype(given, dtype)._laid_out_like([given._place], order, is_copy=True)
    made._place.buffer.is_array = given._place.is_array
    return made


def _astype(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Casts the elements; always returns a new handle."""
    if loses_imaginary(x.dtype, dtype):
        text = "Casting complex values to real discards the imaginary part"
        warn_user(text, np.exceptions.ComplexWarning)
    if x.data.has_unknown_lengths:
        if x.dtype == dtype:
            return Tensor(x.data)
        formula = Formula("astype")
        value = formula.read(x)
        formula.warns = handled_errors("cast")[1]
        return formula.tensor(formula.cast(value, dtype))
    return _cast(x, dtype, x.shape, None, handled_errors("cast")[1])


def as_bool(x: Tensor) -> Tensor:
    """Whether elements are not zero; of a record, whether any field is not."""
    if x.dtype.kind == "V":
        return blockwise("nonzero", _nonzero_block, [x], x.data.chunks, bool, lines=())
    return x if x.dtype == bool else astype(x, np.dtype(bool))


def _nonzero_block(block: Array) -> Array:
    found = np.zeros(block.size, bool)
    found[np.flatnonzero(block)] = True
    return found.reshape(block.shape)


def native(a: Any) -> Tensor:
    """An array as a tensor in the byte order of this machine, the order of results of functions that compute."""
    x = as_tensor(a)
    return x if x.dtype.isnative else astype(x, x.dtype.newbyteorder("="))


@offers("method.cast_and_broadcast")
def cast_and_broadcast(x: Tensor, dtype: np.dtype[Any], shape: tuple[int, ...], chunks: Any) -> Tensor:
    """Casts `x` to `dtype` and broadcasts to `shape`; always returns a new handle."""
    return _cast(x, dtype, shape, chunks, 0)


def astype_unsafe(x: Tensor, dtype: Any) -> Tensor:
    """Casts as NumPy's reductions do, without a warning of lost imaginary parts; `x` itself for the same dtype."""
    if x.dtype == dtype:
        return x
    formula = Formula("astype")
    return formula.tensor(formula.cast(formula.read(x), np.dtype(dtype)))


def _cast(x: Tensor, dtype: np.dtype[Any], shape: tuple[int, ...], chunks: Any, warns: int) -> Tensor:
    """Casts and broadcasts; `warns` are the floating point errors to warn of (formula.py)."""
    if x.dtype == dtype and x.shape == shape:
        return Tensor(x.data)._laid_out_like([x._place], is_copy=True)
    formula = Formula("astype" if x.shape == shape else "broadcast_to")
    value = formula.read(x)
    formula.warns = warns
    return formula.tensor(formula.cast(value, dtype), shape, chunks)


@offers("copy")
def copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    """`np.copy`: returns a new handle; chunks are immutable, so no data is copied."""
    x = as_tensor(a)
    made = Tensor(x.data)
    made._place.is_array = x._place.is_array
    return made._laid_out_like([x._place], order, is_copy=True)


@offers("fix")
def fix(x: Any, out: Any = None) -> Any:
    """`np.fix`: rounds towards zero."""
    return ufunc("trunc")(x, out=out)


def _offer_infinity_test(name: str, ufunc_of_sign: bool) -> None:
    @offers(name, does=f"`np.{name}`.")
    def function(x: Any, out: Any = None) -> Any:
        if isinstance(out, tuple):
            raise TypeError("return arrays must be of ArrayType")  # NumPy's words
        formula = Formula(name)
        value = formula.read(x)
        sign = formula.apply("signbit", value)
        sign = sign if ufunc_of_sign else formula.apply("logical_not", sign)
        result = formula.tensor(formula.apply("logical_and", formula.apply("isinf", value), sign))
        return assign_out(result, out, name)


_offer_infinity_test("isposinf", False)
_offer_infinity_test("isneginf", True)


@offers("nan_to_num")
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """`np.nan_to_num`: replaces NaN and infinities, with `copy=False` in `x` itself."""
    made = call("array", x, copy=copy)
    if made.dtype.kind in "fc":
        limits = np.finfo(made.dtype)
        puts = (nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf)
        for part in (made.real, made.imag) if made.dtype.kind == "c" else (made,):
            part[...] = _finite(part, puts)
    if isinstance(x, np.ndarray) and not copy:
        made = assign_out(made, x, "nan_to_num")
    return made if made.ndim else made[()]


def _finite(x: Tensor, puts: tuple[Any, Any, Any]) -> Tensor:
    """Replaces NaN, infinity and minus infinity.

    Raises
    ------
    TypeError, ValueError
        If the dtype or the shape of a replacement does not fit.
    """
    formula = Formula("nan_to_num")
    value = result = formula.read(x)
    tests = (
        formula.apply("isnan", value),
        formula.apply("equal", value, formula.read(np.inf)),
        formula.apply("equal", value, formula.read(-np.inf)),
    )
    for found, put in zip(tests, puts):
        result = formula.where(found, formula.read(copied(put, x.dtype, "same_kind")), result)
    return formula.tensor(formula.cast(result, x.dtype), x.shape, x.chunks)


def _check_tolerances(atol: Any, rtol: Any) -> None:
    """Warn, or raise, as NumPy does, of tolerances that are not finite; elements of tensors are not known."""
    if isinstance(atol, Tensor) or isinstance(rtol, Tensor) or np.isfinite(atol).all() and np.isfinite(rtol).all():
        return
    words = f"One of rtol or atol is not valid, atol: {atol}, rtol: {rtol}"
    if np.geterr()["invalid"] == "raise":
        raise FloatingPointError(words)
    if np.geterr()["invalid"] == "warn":
        warn_user(words, RuntimeWarning)


@offers("isclose")
def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """`np.isclose`: `|a - b| <= atol + rtol * |b|`, infinities equal to themselves."""
    _check_tolerances(atol, rtol)
    formula = Formula("isclose")
    x, y = formula.read(a), formula.read(float(b) if isinstance(b, int) else b)
    if isinstance(y.kind, np.dtype) and y.kind.kind in "biu":
        y = formula.cast(y, np.float64)  # NumPy compares in floating point, so that differences do not wrap
    apply, read = formula.apply, formula.read
    with np.errstate(invalid="ignore"):
        if all(isinstance(one, int | float | complex) for one in (b, atol, rtol)):
            allowed = read(atol + rtol * abs(b))  # Python's numbers stay weak
        else:
            allowed = apply("add", read(atol), apply("multiply", read(rtol), apply("absolute", y)))
        near = apply("less_equal", apply("absolute", apply("subtract", x, y)), allowed)
    close = apply("logical_or", apply("logical_and", near, apply("isfinite", y)), apply("equal", x, y))
    if equal_nan:
        close = apply("logical_or", close, apply("logical_and", apply("isnan", x), apply("isnan", y)))
    return formula.tensor(close)


_NAMES = ("out", "where", "casting", "order", "dtype", "subok", "signature", "sig")
_UNDEFINED = "'where' used without 'out', expect unitialized memory in output. If this is intentional, use out=None."


def checked_mask(where: Any) -> Any:
    """The argument `where`; an array must be boolean, other values count by their truth, as in NumPy."""
    dtype = np.dtype(np.bool) if isinstance(where, np.generic) else getattr(where, "dtype", np.dtype(np.bool))
    if dtype != np.bool:
        raise TypeError(f"Cannot cast array data from {dtype!r} to dtype('bool') according to the rule 'safe'")
    return where


def _check_names(name: str, kwargs: dict[str, Any]) -> None:
    """Raise TypeError for a keyword that ufuncs lack, and for a `subok` that is no boolean, as NumPy does."""
    for key in kwargs:
        if key not in _NAMES:
            raise TypeError(f"{name}() got an unexpected keyword argument {key!r}")
    if not isinstance(kwargs.get("subok", True), bool | np.bool_):
        raise TypeError("'subok' must be a boolean")
    if not isinstance(casting := kwargs.get("casting", ""), str):
        raise TypeError(f"casting must be str, not {type(casting).__name__}")


class UfuncKeywords(Struct, frozen=True):
    """Arguments of a ufunc's call, checked as NumPy checks them."""

    name: str
    inputs: tuple[Any, ...]
    outs: tuple[Any, ...]  # for each output an array, or None
    where: Any
    casting: str
    order: str
    signature: Any  # a tuple of dtypes, or text; None: the loop is chosen by the inputs
    gives_arrays: bool = False  # `out=...`: a result without axes is an array, not a scalar

    @classmethod
    def of(cls, name: str, nin: int, nout: int, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> UfuncKeywords:
        """Reads the arguments of `np.<name>(*inputs, **kwargs)`; outputs by position are read too.

        Raises
        ------
        TypeError, ValueError
            As NumPy raises them.

        Examples
        --------
        >>> UfuncKeywords.of("modf", 1, 2, (2.5,), {"order": "F"}).outs
        (None, None)
        """
        _check_names(name, kwargs)
        if not nin <= len(inputs) <= nin + nout:
            raise TypeError(
                f"{name}() takes from {nin} to {nin + nout} positional arguments but {len(inputs)} "
                f"{'was' if len(inputs) == 1 else 'were'} given"
            )
        inputs, behind = inputs[:nin], inputs[nin:]
        if behind and kwargs.get("out") is not None:
            raise TypeError("cannot specify 'out' as both a positional and keyword argument")
        out = behind or kwargs.get("out")
        if any(one is ... for one in behind):
            raise TypeError("out=... is only allowed as a keyword argument.")
        if isinstance(out, tuple) and any(one is ... for one in out):
            raise TypeError("must use `...` as `out=...` and not per-operand/in a tuple")
        gives_arrays = out is ...
        out = (None,) * nout if gives_arrays else out
        outs = out if isinstance(out, tuple) else (out,) if nout == 1 or "out" not in kwargs else None
        if outs is None:
            raise TypeError("'out' must be a tuple of arrays")
        if any(one is not None and not isinstance(one, Tensor | np.ndarray) for one in outs):
            raise TypeError("return arrays must be of ArrayType")
        if kwargs.get("out") is not None and isinstance(out, tuple) and len(outs) != nout:
            raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
        where = kwargs.get("where", True)
        where = False if where is None else where  # as NumPy reads None
        if where is not True and not behind and "out" not in kwargs:
            warn_user(_UNDEFINED, UserWarning)
        given = [key for key in ("dtype", "signature", "sig") if kwargs.get(key) is not None]
        if len(given) > 1:
            raise TypeError(f"cannot specify both {given[1]!r} and {given[0]!r}")
        signature = kwargs[given[0]] if given else None
        if given == ["dtype"]:
            signature = (None,) * nin + (np.dtype(signature),) * nout
        elif isinstance(signature, list):
            signature = tuple(signature)
        filled = outs + (None,) * (nout - len(outs))
        return cls(name, inputs, filled, where, kwargs.get("casting", "same_kind"), kwargs.get("order", "K"), signature,
                   gives_arrays)  # fmt: skip

    def apply(self, formula: Formula, outputs: Sequence[str | UfuncReference]) -> Any:
        """Make the tensors of the ufunc's outputs; `np.errstate` counts at the call (formula.py)."""
        values = [formula.read(value) for value in self.inputs]
        if self.where is True:  # else NumPy computes fewer elements than a formula
            formula.raises, formula.warns = handled_errors(self.name)
        if self.name == "power" and self.where is not True:  # no error of elements that are left out
            kept = formula.where(formula.read(checked_mask(self.where)), values[1], formula.read(np.int8(1)))
            values[1] = formula.cast(kept, result_type(values[1].kind))
        choice = {"signature": self.signature, "casting": self.casting}
        applied = [formula.apply(output, *values, **choice) for output in outputs]
        formula.raises, formula.warns = (), 0
        return self.finish(formula, applied)

    def finish(self, formula: Formula, values: Sequence[FormulaValue]) -> Any:
        """Make tensors of the outputs; elements where `where` is false are `out`'s, or 0."""
        results: list[Any] = []
        for value, target in zip(values, self.outs, strict=True):
            if self.where is not True:
                if target is not None and np.can_cast(value.kind, target.dtype, cast(Any, self.casting)):
                    value = formula.cast(value, target.dtype)  # the elements of `out` are not cast
                other = formula.read(np.zeros((), value.kind) if target is None else target)
                value = formula.where(formula.read(checked_mask(self.where)), value, formula.cast(other, value.kind))
            result = formula.tensor(value, order=self.order)
            result._place.buffer.is_array = result._place.is_array or self.gives_arrays
            results.append(assign_out(result, target, self.name, self.casting))
        return results[0] if len(results) == 1 else tuple(results)
