"""Shard: an OperandActor over a part of a job's operands, with placeholder rows (ghosts) for inputs that others own.

Operands are numbered within the shard: own operands first, then the ghosts. A ghost is never submitted here; the owner
finishes it, and gets it back after the last reader here. A shard is a deterministic function of its part and the calls
of `act`, so that the same calls give the same shard in another process.
Source: docs/explanation/seeds.md, "Operand states".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from jmars.model.states import OperandState as S
from jmars.scheduler.lifecycle import Happened
from jmars.scheduler.operand_rows import Moved, OperandActor

__all__ = ["Shard", "ShardAnswer", "ShardMail", "ShardPart", "parts_of"]


class ShardPart(NamedTuple):
    """The part of a job that a shard has.

    Attributes
    ----------
    number
        Of the shard.
    ids
        Number in the whole job of each operand here.
    own
        How many of them are owned here; the others are ghosts.
    ptr, idx
        Inputs of each operand here as rows of numbers here; ghosts have none.
    given, results
        Operands whose chunk was there before, and own operands whose chunk outlives the job.
    nbytes, assign, workers
        As OperandActor's, of this part.
    readers
        Of own operands: the other shards that read the chunk.
    homes
        Of ghosts: the shard that owns the operand.
    """

    number: int
    ids: list[int]
    own: int
    ptr: NDArray[np.int64]
    idx: NDArray[np.int64]
    given: list[int]
    results: list[int]
    nbytes: list[int]
    assign: list[int]
    workers: int
    readers: dict[int, list[int]]
    homes: dict[int, int]


class ShardMail(NamedTuple):
    """A message between shards about an operand; `worker` and `size` are those of a stored chunk."""

    to: int
    what: str
    operand: int
    sender: int
    worker: int = -1
    size: int = 0


@dataclass(slots=True)
class ShardAnswer:
    """Consequences of a call, by numbers in the whole job."""

    ready: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    odd: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    states: dict[S, list[int]] = field(default_factory=dict)
    mail: list[ShardMail] = field(default_factory=list)

    def add(self, other: ShardAnswer) -> None:
        """Consequences of another call; mail is not added."""
        for name in ("ready", "workers", "taken", "freed", "odd", "again", "given"):
            getattr(self, name).extend(getattr(other, name))
        for state, operands in other.states.items():
            self.states.setdefault(state, []).extend(operands)


class Shard(OperandActor):
    """A part of a job's operands.

    Parameters
    ----------
    part
        Operands, owned here and read here.
    whole
        States of the whole job; states of own operands are written there.
    load
        Operands by worker, as all shards see it.
    """

    def __init__(self, part: ShardPart, whole: Any, load: list[int]) -> None:
        graph = FlowGraph(
            Dag.from_inputs(part.ptr, part.idx),
            given=part.given,
            kept=sorted({*part.results, *part.readers}),
        )
        super().__init__(Counters(graph), list(part.nbytes), part.assign, part.workers)
        self.ids, self.own, self.load, self._results = part.ids, part.own, load, set(part.results)
        self.state = _States(self.state, part.ids[: part.own], whole)
        self._number, self._readers, self._homes = part.number, part.readers, part.homes
        self._place = {one: local for local, one in enumerate(part.ids)}
        self._holders = {one: set(readers) for one, readers in part.readers.items()}  # that have not released it

    def act(self, name: str, *args: Any) -> ShardAnswer:
        """Make one of the calls of `_CALLS`."""
        told = ShardAnswer()
        _CALLS[name](self, told, *args)
        return told

    def facts(self) -> dict[str, Any]:
        """Chosen workers, makers and tries by number in the whole job; bytes of own chunks by maker."""
        held = list(self.held)
        for ghost in range(self.own, len(self.ids)):
            if self.state[ghost] == S.FINISHED and self.owner[ghost] >= 0:
                held[self.owner[ghost]] -= self.nbytes[ghost]
        return {
            "chosen": {self.ids[one]: worker for one, worker in self.chosen.items()},
            "owner": {self.ids[one]: self.owner[one] for one in range(self.own) if self.owner[one] >= 0},
            "tries": {self.ids[one]: times for one, times in self.tries.items()},
            "held": held,
        }

    # -- calls: the way that all go
    def _begin(self, told: ShardAnswer) -> None:
        ready = [one for one in self.counters.graph.initial if one < self.own]
        self._tell_ready(told, ready, self._make_ready(ready))

    def _took(self, told: ShardAnswer, operands: Iterable[int], worker: int) -> None:
        told.taken += self._outside(self.started(self._here(operands), worker))

    def _ended(self, told: ShardAnswer, operands: Sequence[int], worker: int, sizes: Mapping[int, int]) -> None:
        mine = self._here(operands)
        for one, size in sizes.items():
            self.nbytes[self._place[one]] = size
        ready, workers, freed = self.finished(mine, worker)
        odd, self.odd = set(self.odd), []
        told.odd += self._outside(odd)
        self._tell_ready(told, ready, workers)
        for one in mine:
            if one not in odd:
                self._post_readers(told, one, "stored")
        self._post_freed(told, freed)

    def _planned(self, told: ShardAnswer, assign: Sequence[int]) -> None:
        self.replanned([assign[one] for one in self.ids])

    def _widen(self, told: ShardAnswer, workers: int) -> None:
        self.held += [0] * (workers - len(self.held))  # the load is common to all shards, and grows there

    def _kept_at(self, told: ShardAnswer, operands: Iterable[int], worker: int) -> None:
        self.kept(self._here(operands), worker)

    # -- calls: when something goes wrong
    def _moves(self, told: ShardAnswer, name: str, *args: Any) -> None:
        """A method of OperandActor that gives Moved, and whose first argument are operands, or one."""
        first, *more = args or [None]
        if first is None:
            moved = self.stop()
        else:
            here = self._place[first] if isinstance(first, int) else self._here(first)
            moved = _MOVES[name](self, here, *more)
        self._tell_moved(told, moved)

    def _hopeless_all(self, told: ShardAnswer, operands: Iterable[int]) -> None:
        self._tell_moved(told, self._meet(self._here(operands), Happened.HOPELESS, spread=False))

    def _free_all(self, told: ShardAnswer) -> None:
        told.freed += self._outside(self.free())

    def _again(self, told: ShardAnswer, operands: Iterable[int]) -> None:
        self._compute_again(told, [one for one in self._here(operands) if self.state[one] == S.FINISHED])

    # -- calls: what other shards say
    def _receive(self, told: ShardAnswer, mail: Iterable[ShardMail]) -> None:
        for _, what, operand, sender, worker, size in mail:
            one = self._place[operand]
            if what == "stored":
                self._arrived(told, one, worker, size)
            elif what == "gone":
                self._gone(one)
            elif what == "released":
                self._released(told, one, sender)
            else:
                self._needed(told, one, sender)

    def _arrived(self, told: ShardAnswer, ghost: int, worker: int, size: int) -> None:
        """The chunk of a ghost is stored."""
        if self._stopped or self.counters.finished[ghost]:  # the second: released, and computed again for others
            return
        self.state[ghost], self.owner[ghost], self.nbytes[ghost] = S.FINISHED, worker, size
        self.held[worker] += size
        ready, freed = self.counters.finish([ghost])
        if self._withdrawn:
            ready = self._to_submit(ready, ())
        self._free(freed)
        self._tell_ready(told, ready, self._make_ready(ready))
        self._post_freed(told, freed)

    def _gone(self, ghost: int) -> None:
        """The chunk of a ghost was lost; the owner computes the chunk again. No effect where the ghost was released
        before.
        """
        again, _, withdrawn, _ = self.counters.lost([ghost])
        for one in again:
            self.held[self.owner[one]] -= self.nbytes[one]
            self.state[one], self.owner[one] = S.UNSCHEDULED, -1
        self._withdrawn.update(withdrawn)

    def _released(self, told: ShardAnswer, one: int, shard: int) -> None:
        """A shard has read an operand for the last time; the operand is freed if no reader is left."""
        self._holders[one].discard(shard)
        if self._holders[one] or one in self._results:
            return
        freed = self.counters.drop([one])
        self._free(freed)
        self._post_freed(told, freed)

    def _needed(self, told: ShardAnswer, one: int, sender: int) -> None:
        """A shard reads an operand again that it had released."""
        if not self.counters.held[one]:
            self.counters.hold([one])
        self._holders[one].add(sender)
        if self.state[one] == S.FREED:
            if self.counters.graph.finished[one]:
                self._meet([one], Happened.GIVEN_AGAIN, spread=False)
                told.given.append(self.ids[one])
            else:
                self._compute_again(told, [one])
        elif self.state[one] == S.FINISHED and not self.counters.graph.finished[one]:
            self._post(told, sender, "stored", one)

    def _compute_again(self, told: ShardAnswer, operands: Sequence[int]) -> None:
        """Compute chunks again that are needed and lost; ask other shards for released inputs."""
        again, ready, withdrawn, given = self.counters.lost(operands)
        for one in again:
            if self.state[one] == S.FINISHED:
                self.held[self.owner[one]] -= self.nbytes[one]
            self.state[one], self.owner[one] = S.UNSCHEDULED, -1
        for one in given:
            self.state[one] = S.FINISHED if one >= self.own else self.state[one]
        self._meet([one for one in given if one < self.own], Happened.GIVEN_AGAIN, spread=False)
        self._withdrawn.update(withdrawn)
        for one in again + given:
            if one >= self.own:
                self._post(told, self._homes[one], "needed", one)
            elif one in given:
                told.given.append(self.ids[one])
            else:
                told.again.append(self.ids[one])
                self._post_readers(told, one, "gone")
        ready = [one for one in ready if one < self.own]
        self._tell_ready(told, ready, self._make_ready(ready))

    # -- own
    def _here(self, operands: Iterable[int]) -> list[int]:
        return [self._place[one] for one in operands]

    def _outside(self, operands: Iterable[int]) -> list[int]:
        """Numbers in the whole job of operands that are owned here."""
        return [self.ids[one] for one in operands if one < self.own]

    def _tell_ready(self, told: ShardAnswer, ready: Sequence[int], workers: Sequence[int]) -> None:
        told.ready += self._outside(ready)
        told.workers += workers

    def _tell_moved(self, told: ShardAnswer, moved: Moved) -> None:
        for state, mine in moved.states.items():
            own = self._outside(mine)
            if own:
                told.states.setdefault(state, []).extend(own)
        self._tell_ready(told, moved.ready, moved.workers)

    def _post(self, told: ShardAnswer, to: int, what: str, one: int) -> None:
        told.mail.append(ShardMail(to, what, self.ids[one], self._number, self.owner[one], self.nbytes[one]))

    def _post_readers(self, told: ShardAnswer, one: int, what: str) -> None:
        for reader in self._readers.get(one, ()):
            self._post(told, reader, what, one)

    def _post_freed(self, told: ShardAnswer, freed: Iterable[int]) -> None:
        """Own chunks are freed, ghosts are released to their owners."""
        for one in freed:
            if one < self.own:
                told.freed.append(self.ids[one])
            else:
                self._post(told, self._homes[one], "released", one)

    def _free(self, operands: Iterable[int]) -> None:
        for one in operands:
            self.state[one] = S.FREED
            if self.owner[one] >= 0:
                self.held[self.owner[one]] -= self.nbytes[one]


_MOVES: dict[str, Callable[..., Moved]] = {
    "dropped": OperandActor.dropped,
    "missing": OperandActor.missing,
    "raised": OperandActor.raised,
    "refused": OperandActor.refused,
    "hopeless": OperandActor.hopeless,
}
_CALLS: dict[str, Callable[..., None]] = {
    "begin": Shard._begin,
    "took": Shard._took,
    "ended": Shard._ended,
    "planned": Shard._planned,
    "widen": Shard._widen,
    "kept_at": Shard._kept_at,
    "moves": Shard._moves,
    "hopeless_all": Shard._hopeless_all,
    "free_all": Shard._free_all,
    "again": Shard._again,
    "receive": Shard._receive,
}


class _States(bytearray):
    """States of a shard; changes of its own operands are told to the whole job."""

    def __init__(self, states: bytearray, ids: Sequence[int], whole: Any) -> None:
        super().__init__(states)
        self._ids, self._whole = ids, whole
        for one, state in zip(ids, states):
            if state:
                whole[one] = state

    def __setitem__(self, place: int, state: int) -> None:  # type: ignore[override]
        super().__setitem__(place, state)
        if place < len(self._ids):
            self._whole[self._ids[place]] = state


def parts_of(
    counters: Counters, nbytes: list[int], assign: Sequence[int], workers: int, home: Sequence[int]
) -> list[ShardPart]:
    """The parts of a job, in O(operands + edges); arguments as for `Shards`."""
    graph = counters.graph
    own: list[list[int]] = [[] for _ in range(max(home, default=0) + 1)]
    for one, shard in enumerate(home):
        own[shard].append(one)
    given, results = set(graph.given.tolist()), set(graph.kept.tolist())
    parts = []
    for number, mine in enumerate(own):
        read = {source for one in mine for source in graph.preds[one] if home[source] != number}
        ids = mine + sorted(read)
        place = {one: local for local, one in enumerate(ids)}
        inputs = [[place[i] for i in graph.preds[one]] for one in mine]
        counts = [*map(len, inputs), *[0] * len(read)]
        readers = {place[one]: sorted({home[user] for user in graph.succs[one]} - {number}) for one in mine}
        parts.append(
            ShardPart(
                number,
                ids,
                len(mine),
                np.cumsum([0, *counts], dtype=np.int64),
                np.array([i for row in inputs for i in row], np.int64),
                [place[one] for one in ids if one in given],
                [place[one] for one in mine if one in results],
                [nbytes[one] for one in ids],
                [assign[one] for one in ids],
                workers,
                {one: who for one, who in readers.items() if who},
                {place[one]: home[one] for one in read},
            )
        )
    return parts
