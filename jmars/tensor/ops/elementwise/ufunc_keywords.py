"""NumPy's keywords of ufuncs: `out`, `where`, `casting`, `order`, `dtype`, `subok`, `signature`.

Source: NumPy reference, "Universal functions: optional keyword arguments".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from jmars.kernels.expression import UfuncReference
from jmars.model.record import record
from jmars.tensor.operand import result_type, warn_user
from jmars.tensor.ops.elementwise.float_handling import handled_errors
from jmars.tensor.ops.elementwise.formula import Formula, FormulaValue
from jmars.tensor.ops.out_argument import assign_out
from jmars.tensor.tensor import Tensor

__all__ = ["UfuncKeywords", "checked_mask"]

_NAMES = ("out", "where", "casting", "order", "dtype", "subok", "signature", "sig")
_UNDEFINED = "'where' used without 'out', expect unitialized memory in output. If this is intentional, use out=None."


def checked_mask(where: Any) -> Any:
    """The argument `where`; an array must be boolean, anything else counts by its truth, as in NumPy."""
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


@record
class UfuncKeywords:
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
        """Make the tensor of each output of the ufunc; `np.errstate` counts where it runs (float_handling.py)."""
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
        """Make tensors of the outputs; elements where `where` is false are those of `out`, or 0."""
        results: list[Any] = []
        for value, target in zip(values, self.outs, strict=True):
            if self.where is not True:
                if target is not None and np.can_cast(value.kind, target.dtype, cast(Any, self.casting)):
                    value = formula.cast(value, target.dtype)  # the elements of `out` are not cast
                other = formula.read(np.zeros((), value.kind) if target is None else target)
                value = formula.where(formula.read(checked_mask(self.where)), value, formula.cast(other, value.kind))
            result = formula.tensor(value, order=self.order)
            result._place.buffer.is_array |= self.gives_arrays
            results.append(assign_out(result, target, self.name, self.casting))
        return results[0] if len(results) == 1 else tuple(results)
