"""Functions of matrices that a GPU runs: `svd`, `qr`, `eigh`, `inv` and others by cuSOLVER, and the blocks of TSQR.

CuPy gives values that are not finite, or unfinished ones, where NumPy raises LinAlgError. Here both raise, so that a
core computes the operand again and the error is NumPy's. Vectors may have other signs than LAPACK's.
Source: CuPy reference, `cupyx.errstate` and the warnings of `cupy.linalg`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from jmars.tensor.ops.linalg import decompositions
from jmars.tensor.ops.linalg.matrix_blocks import (
    linalg_row,
    linalg_value,
    multiply_q,
    q_part,
    r_alone,
    r_part,
    stacked_qr,
)

__all__ = ["MATRIX_LIBRARY", "finite", "matrix_call", "matrix_errors", "stack_call", "stack_function"]

# Functions of stacks of matrices, with the named arguments that CuPy has.
_NAMED: dict[str, set[str]] = {
    "svd": {"full_matrices", "compute_uv"}, "qr": {"mode"}, "eigh": {"UPLO"}, "eigvalsh": {"UPLO"}, "inv": set(),
    "det": set(), "slogdet": set(),
}  # fmt: skip
_PLAIN = ("hermitian", False)  # NumPy's default, which CuPy does not take
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
            if called not in _NAMED or not more.keys() <= _NAMED[called]:
                return None
            return entry, (called, tuple(sorted(more.items())))
    return None


def matrix_call(function: Any, more: tuple[Any, ...]) -> tuple[str, Any] | None:
    """The call of a block of TSQR in the library; None for another function."""
    return (_BLOCKS[function], more) if function in _BLOCKS else None
