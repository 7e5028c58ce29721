"""`real` and `imag`, as views that write."""

from __future__ import annotations

from typing import Any, cast

from jmars.tensor.ops.elementwise.formula import Formula
from jmars.tensor.protocols import call, offers
from jmars.tensor.steps import share, step
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["imag", "real"]


@offers("real")
def real(val: Any) -> Tensor:
    """`np.real`: a view of a complex array, a real array itself."""
    x = as_tensor(+val if isinstance(val, bool) else val)  # Python's True.real is 1
    return _half("real", x, val) if x.dtype.kind == "c" else x


@offers("imag")
def imag(val: Any) -> Tensor:
    """`np.imag`: a view of a complex array, zeros that cannot be written for other arrays."""
    x = as_tensor(+val if isinstance(val, bool) else val)
    if x.dtype.kind == "c":
        return _half("imag", x, val)
    zeros = cast(Tensor, call("zeros_like", x))
    zeros.flags.writeable = False
    return zeros


def _half(name: str, x: Tensor, val: Any) -> Tensor:
    halving = step(
        lambda whole: _read(name, whole),
        lambda whole, part: cast(Tensor, call("method.with_complex_part", whole, name, part)),
        lambda array: getattr(array, name),
    )
    return share(_read(name, x), val, halving)


def _read(name: str, x: Tensor) -> Tensor:
    formula = Formula(name)
    return formula.tensor(formula.part(name, formula.read(x)), x.shape, x.chunks)
