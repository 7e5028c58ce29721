"""`np.polynomial` of tensors: NumPy's classes and functions; imported on first use, as NumPy's are.

A polynomial has few coefficients, so they are NumPy's: a tensor of coefficients, and a fit, is computed at once. The
points of an evaluation, and of `Polynomial.fit`, stay on the cluster. `np.poly1d` is in ops/signal.py.
"""

from __future__ import annotations

import functools
import operator
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.tensor.buffers import SmallValues
from jmars.tensor.numpy_modules import NumPyModule, as_values
from jmars.tensor.ops.signal import numpys_value
from jmars.tensor.protocols import FUNCTIONS, call
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial"]


class _NumPysToo(ABCMeta):
    """Metaclass of polynomials: NumPy's polynomials of the class `numpy_class` are instances.

    `StandIn` would ask NumPy's abstract class, which asks its subclasses, and so on.
    """

    def __instancecheck__(cls, value: Any) -> bool:
        return cls.__subclasscheck__(type(value))

    def __subclasscheck__(cls, other: type) -> bool:
        return type.__subclasscheck__(vars(cls).get("numpy_class", cls), other)


class _OfTensors:
    """Coefficients are NumPy's, values at the elements of a tensor are lazy; comes before a class of NumPy's."""

    def __init__(self, coef: Any, domain: Any = None, window: Any = None, symbol: str = "x") -> None:
        theirs: Any = super().__init__
        theirs(numpys_value(coef), numpys_value(domain), numpys_value(window), symbol)

    def __call__(self: Any, arg: Any) -> Any:
        """The values at all elements; lazy for a tensor."""
        if not isinstance(arg, Tensor):
            return super().__call__(arg)  # type: ignore[misc]
        offset, scale = self.mapparms()
        return self._val(offset + scale * arg, self.coef)

    @classmethod
    def fit(cls, *args: Any, **kwargs: Any) -> Any:
        """Least squares fit of the values of tensors."""
        theirs: Any = super().fit  # type: ignore[misc]
        return theirs(*as_values(args), **as_values(kwargs))


class Polynomial(_OfTensors, np.polynomial.Polynomial, metaclass=_NumPysToo):
    """`np.polynomial.Polynomial` inside a cell.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     x = mt.linspace(0, 4, 9)
    ...     p = Polynomial.fit(x, x**2 + 1, 2)
    ...     p.convert().coef.round(6) + 0, p(x)[-1].fetch().round(6)
    (array([1., 0., 1.]), np.float64(17.0))
    """

    numpy_class = np.polynomial.Polynomial

    @classmethod
    def fit(  # type: ignore[override]  # NumPy's overloads have no tensors
        cls, x: Any, y: Any, deg: Any, domain: Any = None, rcond: float | None = None, full: bool = False,
        w: Any = None, window: Any = None, symbol: str = "x"
    ) -> Any:  # fmt: skip
        """Least squares fit; computes at once, on the cluster where a tensor is given."""
        large = [
            one for one in (x, y, w) if isinstance(one, Tensor) and (not SmallValues.limit or one._place.memory is None)
        ]
        if full or np.ndim(deg) or not large:
            return super().fit(x, y, deg, domain, rcond, full, w, window, symbol)
        xs = as_tensor(x)
        if domain is None:
            domain = np.array([numpys_value(xs.min()), numpys_value(xs.max())], float)
            domain += [-1, 1] if domain[0] == domain[1] else [0, 0]
        elif isinstance(domain, list) and not domain:
            domain = cls.domain
        window = cls.window if window is None else window
        offset, scale = np.polynomial.polyutils.mapparms(domain, window)
        coef = call("polyfit", offset + scale * xs, y, operator.index(deg), rcond, w=w)
        return cls(coef[::-1], domain=domain, window=window, symbol=symbol)


class Chebyshev(_OfTensors, np.polynomial.Chebyshev, metaclass=_NumPysToo):
    """`np.polynomial.Chebyshev` inside a cell."""

    numpy_class = np.polynomial.Chebyshev


class Legendre(_OfTensors, np.polynomial.Legendre, metaclass=_NumPysToo):
    """`np.polynomial.Legendre` inside a cell."""

    numpy_class = np.polynomial.Legendre


class Hermite(_OfTensors, np.polynomial.Hermite, metaclass=_NumPysToo):
    """`np.polynomial.Hermite` inside a cell."""

    numpy_class = np.polynomial.Hermite


class HermiteE(_OfTensors, np.polynomial.HermiteE, metaclass=_NumPysToo):
    """`np.polynomial.HermiteE` inside a cell."""

    numpy_class = np.polynomial.HermiteE


class Laguerre(_OfTensors, np.polynomial.Laguerre, metaclass=_NumPysToo):
    """`np.polynomial.Laguerre` inside a cell."""

    numpy_class = np.polynomial.Laguerre


def _evaluation(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's evaluation of a series, lazy at the elements of a tensor: the recurrence takes any array."""

    @functools.wraps(theirs)
    def values(x: Any, c: Any, tensor: bool = True) -> Any:
        coefficients = as_values(c)
        if not isinstance(x, Tensor):
            return theirs(as_values(x), coefficients, tensor)
        coefficients = np.array(coefficients, ndmin=1)
        return theirs(x, coefficients.reshape(coefficients.shape + (1,) * x.ndim) if tensor else coefficients, False)

    return values


for _class, _module, _name in (
    (Polynomial, "polynomial", "polyval"),
    (Chebyshev, "chebyshev", "chebval"),
    (Legendre, "legendre", "legval"),
    (Hermite, "hermite", "hermval"),
    (HermiteE, "hermite_e", "hermeval"),
    (Laguerre, "laguerre", "lagval"),
):
    _path = f"polynomial.{_module}."
    FUNCTIONS[f"polynomial.{_class.__name__}"] = FUNCTIONS[_path + _class.__name__] = _class
    FUNCTIONS[_path + _name] = _evaluation(getattr(getattr(np.polynomial, _module), _name))


def __getattr__(name: str) -> Any:
    return NumPyModule.of("numpy.polynomial").look_up(name)
