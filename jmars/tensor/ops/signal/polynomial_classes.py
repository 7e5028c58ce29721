"""NumPy's classes of polynomials, `np.poly1d` and `np.polynomial.Polynomial`, with coefficients or points from tensors.

A polynomial has few coefficients, so they are NumPy's: a tensor of coefficients, and a fit, is computed at once. What
a polynomial is evaluated at, and fitted to, stays on the cluster.
"""

from __future__ import annotations

import operator
from abc import ABCMeta
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.numpy_classes import StandIn
from jmars.tensor.ops.signal.polynomials import polyfit, polyval
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Polynomial", "poly1d"]


class poly1d(np.poly1d, metaclass=StandIn):  # NumPy's spelling
    """`np.poly1d` inside a cell: makes a NumPy polynomial; the values at the elements of a tensor are lazy.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     p = poly1d(mt.asarray([1, 0, 2]))
    ...     p.deriv(), p(mt.arange(3)).fetch()
    (poly1d([2, 0]), array([2, 3, 6]))
    """

    numpy_class = np.poly1d
    lazy_classes = ()

    def __new__(cls, c_or_r: Any, r: bool = False, variable: str | None = None) -> Any:
        """Make a polynomial of NumPy's."""
        if cls is not poly1d:
            return super().__new__(cls)
        return np.poly1d(_value(c_or_r), r, variable)


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
        super().__init__(_value(coef), _value(domain), _value(window), symbol)

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
            domain = np.array([_value(xs.min()), _value(xs.max())], float)
            domain += [-1, 1] if domain[0] == domain[1] else [0, 0]
        elif isinstance(domain, list) and not domain:
            domain = cls.domain
        window = cls.window if window is None else window
        offset, scale = np.polynomial.polyutils.mapparms(domain, window)
        coef = polyfit(offset + scale * xs, y, operator.index(deg), rcond, w=w)
        return cls(coef[::-1], domain=domain, window=window, symbol=symbol)


def _value(x: Any) -> Any:
    return x.fetch() if isinstance(x, Tensor) else x


FUNCTIONS["poly1d"] = poly1d
FUNCTIONS["polynomial.Polynomial"] = Polynomial
