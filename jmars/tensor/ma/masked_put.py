"""Writes to positions of masked arrays: `put` and `putmask`."""

from __future__ import annotations

from typing import Any

from jmars.errors import UnsupportedError
from jmars.tensor.ma.handle import MaskedTensor, data_of, mask_of, whole_mask
from jmars.tensor.protocols import call, offers

__all__ = ["put", "putmask"]


@offers("ma.put")
def put(a: Any, indices: Any, values: Any, mode: str = "raise") -> None:
    """`numpy.ma.put`: write values, masked or not, at positions of the flattened array; values repeat as needed.

    Raises
    ------
    IndexError
        If a position is out of bounds and `mode` is "raise".
    UnsupportedError
        For an array with a hard mask.
    """
    if not isinstance(a, MaskedTensor):
        call("put", a, indices, data_of(values), mode)
        return
    if a.hardmask and a._mask is not None:
        raise UnsupportedError("np.ma.put into a hard mask is not in jmars; write x[...] = v, or soften_mask() first")
    lost = mask_of(values)
    _writable(a, lost)
    call("put", a._data, indices, data_of(values), mode)
    if a._mask is not None:
        call("put", a._mask, indices, False if lost is None else lost, mode)


@offers("ma.putmask")
def putmask(a: Any, mask: Any, values: Any) -> None:
    """`numpy.ma.putmask`: write values, masked or not, where `mask` is true; values broadcast."""
    where, lost = mask if isinstance(mask, list) else data_of(mask), mask_of(values)
    if not isinstance(a, MaskedTensor):
        call("copyto", a, data_of(values), where=where)
        return
    hard = a.hardmask and a._mask is not None
    _writable(a, lost)
    call("copyto", a._data, data_of(values), where=where)
    if a._mask is not None and not (hard and lost is None):
        new = False if lost is None else a._mask | lost if hard else lost
        call("copyto", a._mask, new, where=where)


def _writable(a: MaskedTensor, lost: Any) -> None:
    """Make a mask if masked values come in."""
    if lost is not None and a._mask is None:
        a._mask = whole_mask(a)
