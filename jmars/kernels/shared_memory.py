"""Finds the values of a program that need no memory, because they lie in the memory of other values.

A slice that only elementwise steps read is a view of the sliced value; so are windows, also where they are reduced.
Values side by side that only elementwise steps read are not copied together. A value that is written to a slice is
computed there. `sharing` sees the steps only, so that planned and used memory agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jmars.kernels.program import Call, Elementwise, Generate, Reduce, Step

__all__ = ["Sharing", "sharing", "step_readers"]


class Sharing(NamedTuple):
    """Values, by number, in the memory of others."""

    views: dict[int, int]  # slice: the value that it is a view of
    inside: dict[int, int]  # value computed in a part of a later value: that value
    joined: dict[int, tuple[int, ...]]  # value: those that hold its elements, side by side

    @property
    def strided(self) -> frozenset[int]:
        """Values with rows apart in memory."""
        return frozenset((*self.views, *self.inside, *self.joined))


def sharing(steps: Sequence[Step], n: int) -> Sharing:
    """The values of `steps` that need no memory of their own; `n` is the number of inputs."""
    views: dict[int, int] = {}
    inside: dict[int, int] = {}
    joined: dict[int, tuple[int, ...]] = {}
    if not any(isinstance(step, Call) and (step.view or step.joins or step.target) for step in steps):
        return Sharing(views, inside, joined)
    readers = step_readers(steps, n)

    def is_pass(k: int) -> bool:
        """Whether a step is elementwise; sums keep the bits of sums of contiguous blocks."""
        reduced = len(readers[k]) == 1 and isinstance(steps[readers[k][0]], Reduce)
        return isinstance(steps[k], Elementwise) and not reduced

    def is_reading(k: int) -> bool:
        """Whether a step may read windows in place: a copy would be many times larger than the elements."""
        return isinstance(steps[k], Elementwise | Reduce)

    def in_cells(k: int, value: int) -> bool:
        """Whether an elementwise step has all elements at hand, so that it can run cell by cell."""
        made = [steps[v - n] for v in steps[k].inputs if v >= n]
        at_once = not any(isinstance(one, Generate) or (isinstance(one, Call) and one.by_rows) for one in made)
        return is_pass(k) and at_once and steps[k].output.shape == steps[value].output.shape

    for k, step in enumerate(steps[:-1]):
        if isinstance(step, Call) and step.joins and all(in_cells(reader, k) for reader in readers[k]):
            joined[n + k] = step.inputs
        if isinstance(step, Call) and step.view is not None and step.inputs[0] not in views:
            is_read = is_reading if step.repeats else is_pass
            if all(map(is_read, readers[k])):
                views[n + k] = step.inputs[0]
    for k, step in enumerate(steps):
        if isinstance(step, Call) and step.target is not None:
            value = step.inputs[-1]
            if value >= n and value not in step.inputs[:-1] and readers[value - n] == [k] and is_pass(value - n):
                inside[value] = n + k
    return Sharing(views, inside, joined)


def step_readers(steps: Sequence[Step], n: int) -> list[list[int]]:
    """List the readers of each step's value."""
    readers: list[list[int]] = [[] for _ in steps]
    for k, step in enumerate(steps):
        for value in dict.fromkeys(step.inputs):
            if value >= n:
                readers[value - n].append(k)
    return readers
