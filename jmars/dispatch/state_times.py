"""How long operands were in the four states of a worker, packed for the event `OperandsTimed`.

ALLOCATING lasts from the task queue until all memory is at hand, PREPARING_INPUTS until the inputs are reloaded,
CALCULATING is the function itself, STORING the copy of the result to the slot with the wait for that slot. Kernels
write to the slot directly, and most operands find their memory free: a state that is 0 for all operands takes no byte.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

__all__ = ["StateTimes", "pack_numbers"]

_MOST = 2**32 - 1


class StateTimes:
    """Times that an executor does not report: in the allocation queue, and until inputs were reloaded.

    Examples
    --------
    >>> states = StateTimes()
    >>> states.waited(1, 7, allocating=2e-6, preparing=0.0)
    >>> [list(memoryview(one).cast("I")) for one in states.packed(1, [7, 8], [30, 40], [(1, 15, 5)])]
    [[2, 0], [], [30, 35], [0, 15]]
    """

    def __init__(self) -> None:
        self._waits: dict[tuple[int, int], tuple[int, int]] = {}  # (job number, operand): µs of the first two states

    def waited(self, number: int, operand: int, allocating: float, preparing: float) -> None:
        """An operand has its memory after `allocating` seconds, and its inputs after `preparing` more."""
        self._waits[number, operand] = int(allocating * 1e6), int(preparing * 1e6)

    def packed(
        self, number: int, operands: Sequence[int], elapsed: Sequence[int], stored: Sequence[tuple[int, int, int]]
    ) -> tuple[bytes, bytes, bytes, bytes]:
        """Times of finished operands in the four states, as little-endian uint32 in µs; b"" if all are 0.

        Parameters
        ----------
        elapsed
            µs of each operand's function, storing included.
        stored
            (Place in `elapsed`, µs of storing with its wait, µs of storing that `elapsed` contains).
        """
        allocating = preparing = storing = b""
        waits = self._waits
        if waits:
            both = [waits.pop((number, operand), (0, 0)) for operand in operands]
            allocating = _some([one for one, _ in both])
            preparing = _some([one for _, one in both])
        if stored:
            computing, stores = list(elapsed), [0] * len(elapsed)
            for place, micros, counted in stored:
                computing[place] -= counted
                stores[place] = micros
            elapsed, storing = computing, _some(stores)
        return allocating, preparing, pack_numbers(elapsed), storing

    def close_job(self, number: int) -> None:
        """Forget a job."""
        if self._waits:
            self._waits = {one: waits for one, waits in self._waits.items() if one[0] != number}


def pack_numbers(values: Sequence[int]) -> bytes:
    """Numbers as little-endian uint32, clipped to the range."""
    try:
        packed = array("I", values)
    except OverflowError:
        packed = array("I", [max(0, min(value, _MOST)) for value in values])
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _some(values: Sequence[int]) -> bytes:
    return pack_numbers(values) if any(values) else b""
