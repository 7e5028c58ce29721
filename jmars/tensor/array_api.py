"""The Python array API standard (2025.12) on jmars.

`x.__array_namespace__()` returns this module, also named `jmars.array_api`, so that libraries written for the standard
work on tensors. NumPy 2's main namespace follows the standard, so most functions are `jmars.tensor`'s. `dir` lists the
names of the standard.
Source: https://data-apis.org/array-api/2025.12/.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from jmars.tensor import linalg as _linalg
from jmars.tensor.from_array import written_back
from jmars.tensor.methods import TensorMethods
from jmars.tensor.numpy_modules import NumPyModule
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.tensor import as_tensor

__all__ = ["argsort", "asarray", "broadcast_arrays", "clip", "fft", "linalg", "meshgrid", "sort"]

fft = NumPyModule.of("numpy.fft")
__array_api_version__ = "2025.12"

_NUMPYS = """
    e inf nan newaxis pi finfo iinfo isdtype broadcast_shapes
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
""".split()  # noqa: SIM905
_REDUCTIONS = "all any argmax argmin count_nonzero max mean min prod std sum var".split()  # noqa: SIM905
_OURS = """
    arange empty empty_like eye from_dlpack full full_like linspace ones ones_like tril triu zeros
    zeros_like astype can_cast result_type abs acos acosh add asin asinh atan atan2 atanh bitwise_and
    bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil conj copysign cos cosh
    divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log
    log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative
    nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan
    tanh trunc take take_along_axis matmul matrix_transpose tensordot vecdot broadcast_to concat
    expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero
    isin nonzero searchsorted where unique_all unique_counts unique_inverse unique_values cumulative_sum
    cumulative_prod max mean min prod std sum var all any diff
""".split()  # noqa: SIM905


# Functions with a signature or result in the standard that differs from NumPy's


def asarray(obj: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Return an array as a tensor; what a library wrote to `np.asarray(x)` and hands back is written to `x`.

    So does SciPy with `output=x`. NumPy's arrays share their memory with `np.asarray(x)`.
    """
    return FUNCTIONS["asarray"](written_back(obj), *args, **kwargs)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Limit elements to [min, max]; either bound may be None."""
    return FUNCTIONS["clip"](x, min, max)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Sort along an axis."""
    found = FUNCTIONS["sort"](x, axis, stable=stable)
    return FUNCTIONS["flip"](found, axis) if descending else found


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the positions that sort an array along `axis`; with `stable`, equal elements keep their order."""
    if not descending:
        return FUNCTIONS["argsort"](x, axis, stable=stable)
    last = x.shape[axis] - 1  # flipped twice, so that equal elements keep their order
    return FUNCTIONS["flip"](last - FUNCTIONS["argsort"](FUNCTIONS["flip"](x, axis), axis, stable=stable), axis)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Make coordinate grids from 1-d arrays."""
    return tuple(FUNCTIONS["meshgrid"](*arrays, indexing=indexing))


def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """Broadcast arrays to their common shape."""
    return tuple(FUNCTIONS["broadcast_arrays"](*arrays))


class __array_namespace_info__(type(np.__array_namespace_info__())):  # type: ignore[misc]
    """NumPy's information on dtypes and capabilities; the only device is "cpu"."""

    def devices(self) -> tuple[str, ...]:
        """Return all devices."""
        return tuple(super().devices())


class _Linalg(ModuleType):
    """`jmars.tensor.linalg` with complex eigenvalues, as the standard demands."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_linalg, name)

    def eigvals(self, x: Any, /) -> Any:
        """Compute the complex eigenvalues of square matrices."""
        return _complex(_linalg.eigvals(x))

    def eig(self, x: Any, /) -> Any:
        """Compute the complex eigenvalues and eigenvectors of square matrices."""
        values, vectors = found = _linalg.eig(x)
        return type(found)(_complex(values), _complex(vectors))


def _complex(x: Any) -> Any:
    return x.astype(np.result_type(x.dtype, np.complex64))


linalg = _Linalg(f"{__name__}.linalg", _linalg.__doc__)


@functools.cache
def _reduction(name: str) -> Callable[..., Any]:
    """Wrap a reduction: results without axes are tensors in cells too, where small values are NumPy's."""

    @functools.wraps(FUNCTIONS[name])
    def reduction(*args: Any, **kwargs: Any) -> Any:
        found = FUNCTIONS[name](*args, **kwargs)
        return as_tensor(found) if isinstance(found, np.generic) else found

    return reduction


def __getattr__(name: str) -> Any:
    if name in _REDUCTIONS:
        return _reduction(name)
    if name in _NUMPYS or name in ("lib", "float16"):  # np.lib's functions call ours through NumPy's protocols
        return getattr(np, name)
    if name in FUNCTIONS:  # names beyond the standard, too: xarray needs einsum
        return FUNCTIONS[name]
    raise AttributeError(f"neither the array API standard {__array_api_version__} nor jmars.tensor knows {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_OURS, *_NUMPYS, "__array_api_version__", "__array_namespace_info__"])


TensorMethods._namespace = sys.modules[__name__]
