"""How long operands were in the four states of a worker, packed as the event `OperandsTimed` tells it.

ALLOCATING is from being taken from the queue to having all its memory, PREPARING_INPUTS from there to having its inputs
read back, CALCULATING the function itself, STORING the result's way to the place where it stays, with the wait for one.
Kernels write where the result stays, and most operands find their memory free: what is 0 for all takes no byte. Used by
`admission` and `reporting`. Source: seed 003, "Worker 中的执行细节" (the four states).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

__all__ = ["StateTimes", "pack_numbers"]

_MOST = 2**32 - 1


class StateTimes:
    """What is not known from an executor's report: how long operands stood in line and waited for reads.

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
        """An operand has its memory, and its inputs, after so many seconds of each."""
        self._waits[number, operand] = int(allocating * 1e6), int(preparing * 1e6)

    def packed(
        self, number: int, operands: Sequence[int], elapsed: Sequence[int], stored: Sequence[tuple[int, int, int]]
    ) -> tuple[bytes, bytes, bytes, bytes]:
        """The four states of operands that are done, each little-endian uint32 in µs; b"" where all are 0.

        Parameters
        ----------
        elapsed
            µs of each that the function took, storing included.
        stored
            (Place in `elapsed`, µs of storing with its waiting, µs that `elapsed` has of them) of those with any.
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
    """Numbers as little-endian uint32; what is larger is as large as that can be."""
    try:
        packed = array("I", values)
    except OverflowError:
        packed = array("I", [max(0, min(value, _MOST)) for value in values])
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _some(values: Sequence[int]) -> bytes:
    return pack_numbers(values) if any(values) else b""
