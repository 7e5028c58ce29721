"""Attributes of tensors about memory: `base`, `strides`, `flags`; and their state, to take back writes."""

from __future__ import annotations

from typing import Any

from jmars.tensor.buffers import MemoryFlags, PlaceState, View, layout_of

__all__ = ["MemoryAttributes"]


class MemoryAttributes:
    """Base class of `Tensor`."""

    __slots__ = ()

    @property
    def base(self: Any) -> Any:
        """The tensor that owns the memory of a view; None for the owner, and where the owner is gone."""
        return self._place.buffer.owner() if isinstance(self._place, View) else None

    @property
    def strides(self: Any) -> tuple[int, ...]:
        """Bytes between neighbours along each axis, as NumPy would have the elements in memory."""
        _ = self.shape  # known lengths
        layout = layout_of(self._place)
        assert layout is not None
        return tuple(layout.strides)

    @property
    def flags(self: Any) -> MemoryFlags:
        """Order in memory, as NumPy would have the elements, and whether the tensor may be written."""
        _ = self.data  # sets a view apart whose array is gone
        return MemoryFlags(self._place)

    def setflags(self: Any, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """Forbid or allow writes."""
        if write is not None:
            self.flags.writeable = write

    # State, to take back writes

    def state(self: Any) -> PlaceState:
        """Return place and values, for `restore`."""
        node, place = self.data, self._place
        return PlaceState(place, node, place.buffer.node)

    def restore(self: Any, state: PlaceState) -> None:
        """Take back all writes since `state`."""
        self._place = state.place
        state.place.buffer.take_back(state.whole)
        state.place.restore(state.node)
