"""Chooses the worker of an operand whose inputs are stored: the worker that made most bytes of the inputs.

Among equals the worker with the least load wins. First operands follow the plan.
Source: docs/explanation/seeds.md, "Choosing workers".
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["choose_worker"]


def choose_worker(inputs: Sequence[int], owner: Sequence[int], nbytes: Sequence[int], load: Sequence[int]) -> int:
    """Worker for an operand.

    Parameters
    ----------
    inputs
        Operands that it reads, at least one.
    owner, nbytes
        Worker that made each operand's chunk (-1 for none) and the chunk's bytes, by operand.
    load
        Operands that wait or run, by worker.

    Examples
    --------
    >>> choose_worker([0, 1], owner=[0, 1], nbytes=[10, 90], load=[0, 5])
    1
    >>> choose_worker([0, 1], owner=[0, 1], nbytes=[50, 50], load=[7, 5])
    1
    """
    if len(inputs) == 1:
        only = owner[inputs[0]]
        return only if only >= 0 else load.index(min(load))
    bytes_of: dict[int, int] = {}
    for one in inputs:
        worker = owner[one]
        bytes_of[worker] = bytes_of.get(worker, 0) + nbytes[one]
    bytes_of.pop(-1, None)
    if not bytes_of:
        return load.index(min(load))
    if len(bytes_of) == 1:
        return next(iter(bytes_of))
    most = max(bytes_of.values())
    return min((load[worker], worker) for worker, size in bytes_of.items() if size == most)[1]
