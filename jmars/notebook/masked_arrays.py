"""Masked arrays of the user in a `%%jmars` cell: masked tensors meanwhile, written in place after the cell.

Source: docs/decisions/0044-arrays-written-by-cells.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jmars import tensor as mt
from jmars.errors import UnsupportedError
from jmars.notebook.user_arrays import UserArrays
from jmars.tensor.composite import Composite
from jmars.tensor.source_line import SourceLine
from jmars.tensor.tensor import as_tensor

__all__ = ["MaskedArrays", "has_mask"]


@dataclass(frozen=True)
class _Entered:
    """A masked array in the cell."""

    name: str
    array: Any  # numpy.ma.MaskedArray
    memory: Any  # its data, as UserArrays knows them
    lazy: Composite
    state: Any  # of `lazy` at the start of the cell


@dataclass
class MaskedArrays:
    """The masked arrays that a cell's text mentions."""

    beside: UserArrays  # the other arrays
    _entered: dict[int, _Entered] = field(default_factory=dict)  # by id of the array
    _written: dict[int, _Entered] = field(default_factory=dict)  # by id of the masked tensor

    def enter(self, name: str, array: Any, line: SourceLine | None) -> Composite:
        """The masked tensor of an array, the same under each of its names.

        Raises
        ------
        UnsupportedError
            For objects.
        """
        if id(array) not in self._entered:
            lazy, memory = _masked(array, line), array.data
            self._entered[id(array)] = _Entered(name, array, memory, lazy, lazy.state())
            self.beside.beside(name, memory)
        return self._entered[id(array)].lazy

    def write(self, value: Composite) -> None:
        """Note a masked tensor that the cell wrote to; of another shape or dtype it stays a masked tensor.

        Raises
        ------
        UnsupportedError
            If another array of the cell shares the memory of this one.
        """
        found = next((one for one in self._entered.values() if one.lazy is value), None)
        if found is None or _form(value) != _form(found.array) or not found.array.data.flags.writeable:
            return
        if (other := self.beside.sharing(found.memory)) is not None:
            raise UnsupportedError(
                f"the cell writes to {found.name!r} and mentions {other!r}, which shares its memory; write to a copy, "
                "or use one of both names in the cell"
            )
        self._written[id(value)] = found

    def array_of(self, value: Any) -> Any:
        """The masked array that a written masked tensor stands for; None for other values."""
        found = self._written.get(id(value))
        return None if found is None else found.array

    def write_back(self, fetch: Callable[[Any, bool], Any]) -> Callable[[], None]:
        """Fetch the values; returns the function that writes them to the arrays."""
        values = [(one, [fetch(part.data, False) for part in one.lazy.parts()]) for one in self._written.values()]

        def write() -> None:
            for one, parts in values:
                _put(one, *parts)

        return write


def _put(one: _Entered, data: Any, mask: Any = None) -> None:
    array, (_, _, fill, hard) = one.array, one.lazy.state()
    np.copyto(one.memory, data, casting="equiv")
    if mask is not None and array.mask is np.ma.nomask:
        array.mask = mask
    elif mask is not None:
        np.copyto(array.mask, mask)  # a view, so views of the array see it
    if fill != one.state[2]:
        array.fill_value = fill
    if hard != one.state[3]:
        (array.harden_mask if hard else array.soften_mask)()


def _form(value: Any) -> tuple[Any, Any]:
    return value.shape, value.dtype


def has_mask(value: Any) -> bool:
    """Whether a value is a masked array of NumPy."""
    return isinstance(value, np.ndarray) and type(value).__name__ == "MaskedArray"  # numpy.ma may not be imported


def _masked(value: Any, line: SourceLine | None) -> Composite:
    """Makes a masked tensor of a user's masked array."""
    masked = mt.ma.array  # imported here with numpy.ma, which NumPy, too, imports where it is used
    data = as_tensor(value.data, line=line)
    made: Composite = masked(data, mask=value.mask, fill_value=value.fill_value, hard_mask=value.hardmask)
    return made
