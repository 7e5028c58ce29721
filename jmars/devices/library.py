"""Functions that a GPU runs by name, on arrays of NumPy or of CuPy: both libraries have the same functions.

Each function takes the library `xp` first and writes `out`, with NumPy's values and dtypes.

Functions of matrices are `svd`, `qr`, `eigh`, `inv` and others by cuSOLVER, and the blocks of TSQR. CuPy gives values
that are not finite, or unfinished ones, where NumPy raises LinAlgError. Here both raise, so that a core computes the
operand again and the error is NumPy's. Vectors may have other signs than LAPACK's.
Source: CuPy reference, "Comparison Table" and "Differences between CuPy and NumPy"; CuPy reference, `cupyx.errstate`
and the warnings of `cupy.linalg`.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from jmars.kernels.elementwise import REDUCTIONS
from jmars.kernels.program import Call
from jmars.tensor.ops import decompositions
from jmars.tensor.ops.blockwise import call_block, write_block
from jmars.tensor.ops.chunks import copy_overlaps, copy_slice, local_slice
from jmars.tensor.ops.fft import transform_block
from jmars.tensor.ops.map_blocks import call_user
from jmars.tensor.ops.matrix_operands import (
    linalg_row,
    linalg_value,
    multiply_q,
    q_part,
    r_alone,
    r_part,
    stacked_qr,
    sum_products,
)
from jmars.tensor.ops.shape import copy_reshaped, permute

# Functions of stacks of matrices, with the named arguments that CuPy has.
_NAMED_BY_FUNCTION: dict[str, set[str]] = {
    "svd": {"full_matrices", "compute_uv"}, "qr": {"mode"}, "eigh": {"UPLO"}, "eigvalsh": {"UPLO"}, "inv": set(),
    "det": set(), "slogdet": set(),
}  # fmt: skip
_PLAIN = ("hermitian", False)  # NumPy's default, which CuPy does not accept
_STACKS: dict[str, tuple[str, Callable[..., Any]]] = {
    "_call_linalg": ("linalg_value", decompositions._call_linalg),
    "_pack_results": ("linalg_row", decompositions._pack_results),
}
_BLOCKS: dict[Any, str] = {
    decompositions._stacked_qr: "stacked_qr",
    decompositions._multiply_q: "multiply_q",
    decompositions._r_alone: "r_alone",
    decompositions._r_part: "r_part",
    decompositions._q_part: "q_part",
}


def matrix_errors(xp: Any) -> AbstractContextManager[Any]:
    """Have the functions of matrices raise, by CuPy too."""
    if xp is np:
        return nullcontext()
    import cupyx

    return cupyx.errstate(linalg="raise")  # type: ignore[no-any-return]


def finite(xp: Any, name: str, value: Any) -> Any:
    """The value of a function.

    Raises
    ------
    LinAlgError
        If an element is not finite.

    Examples
    --------
    >>> finite(np, "inv", np.ones(2)).tolist()
    [1.0, 1.0]
    """
    if not bool(xp.isfinite(value).all()):
        raise np.linalg.LinAlgError(f"np.linalg.{name} gave elements that are not finite")
    return value


def _stack(function: Callable[..., Any]) -> Callable[..., None]:
    def run(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
        called, named = params
        with matrix_errors(xp):
            out[...] = finite(xp, called, function(xp, inputs[0], called, dict(named)))

    return run


def _stacked_qr(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    with matrix_errors(xp):
        stacked_qr(xp, out, inputs[0])


def _r_alone(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    with matrix_errors(xp):
        out[...] = r_alone(xp, inputs[0])


def _multiply_q(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    multiply_q(xp, out, *inputs, *params)


def _part(function: Callable[..., Any]) -> Callable[..., None]:
    def run(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
        out[...] = function(inputs[0], *params)

    return run


MATRIX_LIBRARY: dict[str, Callable[[Any, Any, Sequence[Any], Any, Any], None]] = {
    "linalg_value": _stack(linalg_value),
    "linalg_row": _stack(linalg_row),
    "stacked_qr": _stacked_qr,
    "r_alone": _r_alone,
    "multiply_q": _multiply_q,
    "r_part": _part(r_part),
    "q_part": _part(q_part),
}


def stack_function(module: str, name: str) -> Callable[..., Any] | None:
    """The function of `decompositions` that a pickle names; None for another function."""
    return _STACKS[name][1] if module == decompositions.__name__ and name in _STACKS else None


def stack_call(function: Callable[..., Any], named: Mapping[str, Any]) -> tuple[str, Any] | None:
    """The call of `np.linalg` for a stack of matrices, in the library; None where CuPy lacks the call.

    Examples
    --------
    >>> stack_call(decompositions._call_linalg, {"called": "eigvalsh", "UPLO": "L"})
    ('linalg_value', ('eigvalsh', (('UPLO', 'L'),)))
    """
    for entry, ours in _STACKS.values():
        if function is ours:
            called = named["called"]
            more = {key: value for key, value in named.items() if key != "called" and (key, value) != _PLAIN}
            if called not in _NAMED_BY_FUNCTION or not more.keys() <= _NAMED_BY_FUNCTION[called]:
                return None
            return entry, (called, tuple(sorted(more.items())))
    return None


def matrix_call(function: Any, more: tuple[Any, ...]) -> tuple[str, Any] | None:
    """The call of a block of TSQR in the library; None for another function."""
    return (_BLOCKS[function], more) if function in _BLOCKS else None


# Functions of NumPy that CuPy computes with the same dtypes; sums of a transform may differ in the last digits.
_FUNCTIONS = {
    *(f"fft.{name}" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")),
    "sort",
    "linalg.solve",
}  # fmt: skip
_LONGEST = 1000  # bytes of a pickle that is looked at
_NAMED = {"axis", "n", "norm"}  # arguments that both libraries know


def reduced(xp: Any, ufunc: str, values: Any, axes: tuple[int, ...], out: Any) -> None:
    """Reduce along `axes`, which `out` keeps; in the dtype of `out` where the ufunc adds or multiplies."""
    function = getattr(xp, REDUCTIONS[ufunc])
    if ufunc in ("add", "multiply"):
        function(values, axis=axes, dtype=out.dtype, out=out, keepdims=True)
    else:
        out[...] = function(values, axis=axes, keepdims=True)


def _permute(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    out[...] = inputs[0].transpose(params)


def _reshape(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    out[...] = inputs[0].reshape(out.shape)


def _slice(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    part = inputs[0][(*(local_slice(at, count, step) for at, (count, step) in zip(arg, params)), ...)]
    out[...] = part.reshape(out.shape)


def _rechunk(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    copy_overlaps(out, inputs, params, arg)


def _combine(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    """Merge states of a reduction by a ufunc."""
    ufunc = getattr(xp, params)
    out[...] = inputs[0].reshape(out.shape)
    for other in inputs[1:]:
        ufunc(out, other.reshape(out.shape), out=out)


def _divide(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    """Divide the sum of a mean by the count."""
    out[...] = xp.true_divide(inputs[0], params).reshape(out.shape)


def _products(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    """Sums of matrix products, as `sum_products`."""
    _, _, _, orders, _ = params
    for i in range(0, len(inputs), 2):
        a, b = inputs[i].transpose(orders[0]), inputs[i + 1].transpose(orders[1])
        if i:
            xp.add(out, xp.matmul(a, b), out=out)
        else:
            xp.matmul(a, b, out=out)


def _function(xp: Any, out: Any, inputs: Sequence[Any], params: Any, arg: Any) -> None:
    """A function of NumPy's name; `params` are the name, positional and named arguments behind the arrays."""
    name, more, named = params
    if name.startswith("linalg."):
        with matrix_errors(xp):
            result = finite(xp, name, _found(xp, name)(*inputs, *more, **dict(named)))
    else:
        result = _found(xp, name)(*inputs, *more, **dict(named))
    if result.dtype != out.dtype or result.shape != out.shape:
        raise TypeError(f"{name} gave {result.dtype} of shape {result.shape} in place of {out.dtype} of {out.shape}")
    out[...] = result


def _found(xp: Any, name: str) -> Any:
    for part in name.split("."):
        xp = getattr(xp, part)
    return xp


LIBRARY: dict[str, Callable[[Any, Any, Sequence[Any], Any, Any], None]] = {
    "permute": _permute,
    "reshape": _reshape,
    "slice": _slice,
    "rechunk": _rechunk,
    "combine": _combine,
    "divide": _divide,
    "products": _products,
    "function": _function,
    **MATRIX_LIBRARY,
}
_OURS: dict[Any, str] = {permute: "permute", copy_reshaped: "reshape", copy_slice: "slice", copy_overlaps: "rechunk"}


def library_call(step: Call) -> tuple[str, Any] | None:
    """Name in `LIBRARY` and parameters for a step; None where a GPU has no function.

    Examples
    --------
    >>> from jmars.kernels.program import ChunkType
    >>> chunk = ChunkType((2, 2), np.dtype("f8"))
    >>> library_call(Call(permute, (1, 0), (0,), chunk))
    ('permute', (1, 0))
    """
    if step.function in _OURS:
        return _OURS[step.function], step.params
    if step.function is sum_products:
        name, factors, *_ = step.params
        plain = name == "matmul" and factors == 2 and step.output.dtype.kind in "fc"
        return ("products", step.params) if plain else None
    if step.function in (call_block, write_block):
        function, more = step.params
        if (found := matrix_call(function, tuple(more))) is not None:
            return found
        return None if step.function is write_block else _numpys(function, tuple(more), ())
    if step.function is transform_block:
        name, n, axis, norm = step.params
        return _numpys(getattr(np.fft, name), (), (("axis", axis), ("n", n), ("norm", norm)))
    if step.function is call_user and not step.takes_args:
        return _pickled_call(step.params[1])
    return None


def _pickled_call(blob: bytes) -> tuple[str, Any] | None:
    """The call in a pickle of a function of NumPy; a user's function is not unpickled."""
    if len(blob) > _LONGEST:
        return None
    try:
        function, fixed, named = _OnlyNumpy(io.BytesIO(blob)).load()
    except pickle.UnpicklingError:
        return None
    if fixed:
        return None
    return stack_call(function, named) or _numpys(function, (), tuple(sorted(named.items())))


class _OnlyNumpy(pickle.Unpickler):
    """Unpickles functions of the table, and plain values."""

    def find_class(self, module: str, name: str) -> Any:
        """A function of the tables."""
        if (found := stack_function(module, name)) is not None:
            return found
        for full in (name, f"{module.removeprefix('numpy.')}.{name}"):
            if module.partition(".")[0] == "numpy" and full in _FUNCTIONS:
                return _found(np, full)
        raise pickle.UnpicklingError(f"{module}.{name} stays on the CPU")


def _numpys(function: Any, more: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> tuple[str, Any] | None:
    """The call of a function of NumPy that stands in the table, without arguments that CuPy lacks."""
    if any(key not in _NAMED and value is not None for key, value in named):
        return None
    named = tuple((key, value) for key, value in named if key in _NAMED)
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    for full in (name, f"{module.removeprefix('numpy.')}.{name}"):
        if full in _FUNCTIONS and _found(np, full) is function:
            return "function", (full, more, named)
    return None
