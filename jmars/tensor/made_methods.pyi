"""Types of the methods that `jmars/tensor/methods.py` makes of functions; written by `.ci/stubs`."""

import builtins
from typing import Any

from jmars.tensor.tensor import Tensor

class MadeMethods:
    __slots__ = ()

    def round(self, decimals: int = 0, out: Any = None) -> Tensor:
        """Round the elements to `decimals` places."""

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = ..., where: Any = True) -> Tensor:
        """Sum along axes."""

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = ..., where: Any = True) -> Tensor:
        """Product along axes."""

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Tensor:
        """Mean along axes."""

    def var(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *, where: Any = True, mean: Any = None) -> Tensor:
        """Variance along axes, over n - ddof."""

    def std(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *, where: Any = True, mean: Any = None) -> Tensor:
        """Standard deviation along axes, over n - ddof."""

    def min(self, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = ..., where: Any = True) -> Tensor:
        """Smallest element along axes."""

    def max(self, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = ..., where: Any = True) -> Tensor:
        """Largest element along axes."""

    def any(self, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Tensor:
        """Whether any element is true."""

    def all(self, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Tensor:
        """Whether all elements are true."""

    def argmin(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tensor:
        """Position of the smallest element."""

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tensor:
        """Position of the largest element."""

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
        """Cumulative sums."""

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
        """Cumulative products."""

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Tensor:
        """Sum along a diagonal."""

    def ravel(self, order: str = 'C') -> Tensor:
        """Flatten to a single axis."""

    def squeeze(self, axis: Any = None) -> Tensor:
        """Remove axes of length 1."""

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """Elements of a diagonal of two axes."""

    def nonzero(self) -> Any:
        """Positions of the nonzero elements, as an array of positions per axis."""

    def take(self, indices: Any, axis: int | None = None, out: Any = None, mode: str = 'raise') -> Tensor:
        """Take elements at positions along an axis."""

    def repeat(self, repeats: Any, axis: int | None = None) -> Tensor:
        """Repeat elements."""

    def argsort(self, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
        """Positions that sort along an axis."""

    def argpartition(self, kth: Any, axis: int | None = -1, kind: str = 'introselect', order: Any = None) -> Tensor:
        """Positions of the elements in the order of `partition`."""

    def searchsorted(self, v: Any, side: str = 'left', sorter: Any = None) -> Tensor:
        """Positions at which to insert values into this sorted tensor."""

