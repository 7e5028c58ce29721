"""`np.polynomial.Polynomial` with coefficients or points from tensors; imported on first use, as NumPy's is.

A polynomial has few coefficients, so they are NumPy's: a tensor of coefficients, and a fit, is computed at once. What
a polynomial is evaluated at, and fitted to, stays on the cluster. `np.poly1d` is in ops/signal/polynomials.py.
"""

from __future__ import annotations

import operator
from abc import ABCMeta
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.ops.signal.polynomials import numpys_value, polyfit, polyval
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Polynomial"]


class _NumPysToo(ABCMeta):
    """Metaclass of `Polynomial`: NumPy's polynomials are instances.

    `StandIn` would ask NumPy's abstract class, which asks its subclasses, and so on.
    """

    def __instancecheck__(cls, value: Any) -> bool:
        return cls.__subclasscheck__(type(value))

    def __subclasscheck__(cls, other: type) -> bool:
        return type.__subclasscheck__(np.polynomial.Polynomial if cls is Polynomial else cls, other)


class Polynomial(np.polynomial.Polynomial, metaclass=_NumPysToo):
    """`np.polynomial.Polynomial` inside a cell: coefficients are NumPy's, values at the elements of a tensor are lazy.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     x = mt.linspace(0, 4, 9)
    ...     p = Polynomial.fit(x, x**2 + 1, 2)
    ...     p.convert().coef.round(6) + 0, p(x)[-1].fetch().round(6)
    (array([1., 0., 1.]), np.float64(17.0))
    """

    def __init__(self, coef: Any, domain: Any = None, window: Any = None, symbol: str = "x") -> None:
        super().__init__(numpys_value(coef), numpys_value(domain), numpys_value(window), symbol)

    def __call__(self, arg: Any) -> Any:
        """The value at each element; lazy for a tensor."""
        if not isinstance(arg, Tensor):
            return super().__call__(arg)
        offset, scale = self.mapparms()
        return polyval(self.coef[::-1], offset + scale * arg)

    @classmethod
    def fit(  # type: ignore[override]  # NumPy's overloads have no tensors
        cls, x: Any, y: Any, deg: Any, domain: Any = None, rcond: float | None = None, full: bool = False,
        w: Any = None, window: Any = None, symbol: str = "x"
    ) -> Any:  # fmt: skip
        """Least squares fit; computes at once where a tensor is given."""
        if not any(isinstance(one, Tensor) for one in (x, y, w)):
            numpys: Any = super().fit
            return numpys(x, y, deg, domain, rcond, full, w, window, symbol)
        if full or np.ndim(deg):
            raise UnsupportedError(
                "np.polynomial.Polynomial.fit of tensors with full=, or a list of degrees, is not in jmars; "
                "fit the values, x.fetch(), or use np.linalg.lstsq of np.vander"
            )
        xs = as_tensor(x)
        if domain is None:
            domain = np.array([numpys_value(xs.min()), numpys_value(xs.max())], float)
            domain += [-1, 1] if domain[0] == domain[1] else [0, 0]
        elif isinstance(domain, list) and not domain:
            domain = cls.domain
        window = cls.window if window is None else window
        offset, scale = np.polynomial.polyutils.mapparms(domain, window)
        coef = polyfit(offset + scale * xs, y, operator.index(deg), rcond, w=w)
        return cls(coef[::-1], domain=domain, window=window, symbol=symbol)


FUNCTIONS["polynomial.Polynomial"] = Polynomial
