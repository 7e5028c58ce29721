"""Shard: an OperandActor over a part of a job's operands, with placeholder rows (ghosts) for inputs that others own.

Operands are numbered within the shard: own operands first, then the ghosts. A ghost is never submitted here; the owner
finishes it, and gets it back after the last reader here.
Source: docs/explanation/seeds.md, "Operand states".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jmars.flow import Counters
from jmars.model.states import OperandState as S
from jmars.scheduler.lifecycle import Happened
from jmars.scheduler.operand_rows import Moved, OperandActor

__all__ = ["Shard"]


class Shard(OperandActor):
    """Part of a job's operands.

    Parameters
    ----------
    counters, nbytes, assign, workers
        As OperandActor's, of this part.
    ids
        Number in the whole job of each operand here.
    own
        How many of them are owned here; the others are ghosts.
    whole
        States of the whole job, kept in step with those owned here.
    load
        Operands by worker, as all shards see it.
    results
        Of those owned here: chunks that outlive the job, whoever reads them.
    """

    def __init__(
        self,
        counters: Counters,
        nbytes: list[int],
        assign: Sequence[int],
        workers: int,
        ids: Sequence[int],
        own: int,
        whole: bytearray,
        load: list[int],
        results: set[int],
    ) -> None:
        super().__init__(counters, nbytes, assign, workers)
        self.ids, self.own, self.load, self._results = ids, own, load, results
        self.state = _States(self.state, ids[:own], whole)
        self._ghosts = {one: local for local, one in enumerate(ids) if local >= own}
        self._holders: dict[int, set[int]] = {}  # owned here: other shards that read it and have not released it

    def grow(self, workers: int) -> None:
        """There are so many workers now; the load is common to all shards, and grows there."""
        self.held += [0] * (workers - len(self.held))

    def outside(self, operands: Iterable[int]) -> list[int]:
        """Numbers in the whole job of operands that are owned here."""
        return [self.ids[one] for one in operands if one < self.own]

    def start(self) -> tuple[list[int], list[int]]:
        """First operands that are owned here, and the worker of each."""
        ready = [one for one in self.counters.graph.initial if one < self.own]
        return ready, self._make_ready(ready)

    def held_here(self) -> list[int]:
        """Bytes of chunks that are owned here, by the worker that made them."""
        held = list(self.held)
        for ghost in self._ghosts.values():
            if self.state[ghost] == S.FINISHED and self.owner[ghost] >= 0:
                held[self.owner[ghost]] -= self.nbytes[ghost]
        return held

    def make_ready(self, operands: Sequence[int]) -> list[int]:
        """Make operands ready; returns the worker of each."""
        return self._make_ready(operands)

    def meet(self, operands: Iterable[int], what: Happened) -> Moved:
        """Apply an event to operands here, and not to their descendants."""
        return self._meet(operands, what, spread=False)

    # -- ghosts
    def arrived(self, operand: int, worker: int, size: int) -> tuple[list[int], list[int], list[int]]:
        """The chunk of a ghost is stored; returns as `finished`, for this shard."""
        ghost = self._ghosts[operand]
        if self._stopped or self.counters.finished[ghost]:  # the second: released, and computed again for others
            return [], [], []
        self.state[ghost], self.owner[ghost], self.nbytes[ghost] = S.FINISHED, worker, size
        self.held[worker] += size
        ready, freed = self.counters.finish([ghost])
        if self._withdrawn:
            ready = self._to_submit(ready, ())
        self._free(freed)
        return ready, self._make_ready(ready), freed

    def gone(self, operand: int) -> None:
        """The chunk of a ghost was lost; the owner computes the chunk again. No effect where the ghost was released
        before.
        """
        again, _, withdrawn, _ = self.counters.lost([self._ghosts[operand]])
        for ghost in again:
            self.held[self.owner[ghost]] -= self.nbytes[ghost]
            self.state[ghost], self.owner[ghost] = S.UNSCHEDULED, -1
        self._withdrawn.update(withdrawn)

    # -- what other shards read
    def hold(self, one: int, shard: int) -> None:
        """Count a shard that reads an operand."""
        holders = self._holders.setdefault(one, set())
        if not self.counters.held[one]:
            self.counters.hold([one])
        holders.add(shard)

    def released(self, one: int, shard: int) -> list[int]:
        """A shard has read an operand for the last time; returns the operand if no reader is left."""
        holders = self._holders[one]
        holders.discard(shard)
        if holders or one in self._results:
            return []
        freed = self.counters.drop([one])
        self._free(freed)
        return freed

    # -- lost chunks
    def compute_again(self, operands: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """Compute chunks again that are needed and lost.

        Returns
        -------
        again, ready, given
            What runs again, those of it that are owned here and can at once, and what was given and is read again;
            among the first and the last are ghosts that were released.
        """
        again, ready, withdrawn, given = self.counters.lost(operands)
        for one in again:
            if self.state[one] == S.FINISHED:
                self.held[self.owner[one]] -= self.nbytes[one]
            self.state[one], self.owner[one] = S.UNSCHEDULED, -1
        for one in given:
            self.state[one] = S.FINISHED if one >= self.own else self.state[one]
        self.meet([one for one in given if one < self.own], Happened.GIVEN_AGAIN)
        self._withdrawn.update(withdrawn)
        return again, [one for one in ready if one < self.own], given

    def _free(self, operands: Iterable[int]) -> None:
        for one in operands:
            self.state[one] = S.FREED
            if self.owner[one] >= 0:
                self.held[self.owner[one]] -= self.nbytes[one]


class _States(bytearray):
    """States of a shard; changes of its own operands are told to the whole job."""

    def __init__(self, states: bytearray, ids: Sequence[int], whole: bytearray) -> None:
        super().__init__(states)
        self._ids, self._whole = ids, whole
        for one, state in zip(ids, states):
            whole[one] = state

    def __setitem__(self, place: int, state: int) -> None:  # type: ignore[override]
        super().__setitem__(place, state)
        if place < len(self._ids):
            self._whole[self._ids[place]] = state
