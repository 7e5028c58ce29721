"""`Composite`: a value of the user's that is made of several tensors, as a masked array is of data and mask.

Whoever computes, keeps or rolls back tensors asks it for its parts; a function that knows tensors only refuses it by
name. Used by tensor/ma, tensor.py, client/session.py and notebook/namespace.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["Composite"]


class Composite:
    """What a value of several tensors tells of itself."""

    __slots__ = ()

    def parts(self) -> list[Tensor]:
        """The tensors that it is made of."""
        raise NotImplementedError

    def opened(self, values: Sequence[Any]) -> Any:
        """Its value, from those of its parts."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Its axes."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Its elements."""
        raise NotImplementedError

    def written(self, write: Callable[[Any], str]) -> str:
        """`write` (str or repr) of its value; of a large one as NumPy abbreviates it, computing no more."""
        raise NotImplementedError

    def state(self) -> Any:
        """What it holds now beside the nodes of its parts, for `restore`."""
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        """Hold again what `state` gave."""
        raise NotImplementedError
