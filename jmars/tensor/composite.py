"""`Composite`: base class of values that consist of several tensors, as a masked array consists of data and mask.

Code that computes, fetches or restores tensors works on `parts()`. Functions that take tensors only refuse a Composite
with an error that names its class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["Composite"]


class Composite:
    """A value that consists of several tensors."""

    __slots__ = ()

    def parts(self) -> list[Tensor]:
        """Return the tensors."""
        raise NotImplementedError

    def decode(self, values: Sequence[Any]) -> Any:
        """Make the value from the fetched values of the parts."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Number of axes."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of elements."""
        raise NotImplementedError

    def formatted(self, write: Callable[[Any], str]) -> str:
        """Format the value by `write` (str or repr); of a large value only the corners are fetched."""
        raise NotImplementedError

    def state(self) -> Any:
        """Return the state for `restore`: parts and settings."""
        raise NotImplementedError

    def refusal(self) -> Exception | None:
        """Return the error for code that takes the value as a tensor; None: there is no more to say than its class."""
        return None

    def restore(self, state: Any) -> None:
        """Restore what `state` returned."""
        raise NotImplementedError
