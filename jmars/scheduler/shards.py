"""Shards: the operands of a job spread over several schedulers, with the interface of a single OperandActor.

A shard is an OperandActor over a subgraph. Inputs of other shards stand there as ghosts, operands that run elsewhere;
an operand is kept until all reading shards have released it. Shards exchange four messages about an operand: `stored`
(the chunk is there, on a worker, of a size), `released` (a shard has read the chunk for the last time), `gone` (the
chunk was lost), `needed` (a shard reads again after the release). Messages are delivered in turn until none is left,
so a shard needs no memory of other shards and may be in another process; common knowledge, the load
of the workers and the operands that ended some, is told beside them.
Source: docs/explanation/seeds.md, "Preparing the graph" and "Operand states".

Shard: an OperandActor over a part of a job's operands, with placeholder rows (ghosts) for inputs that others own.

Operands are numbered within the shard: own operands first, then the ghosts. A ghost is never submitted here; the owner
finishes it, and gets it back after the last reader here. A shard is a deterministic function of its part and the calls
of `act`, so that the same calls give the same shard in another process.
Source: docs/explanation/seeds.md, "Operand states".

Rendezvous hashing: chooses the schedulers of all operands at once.

Schedulers draw a number for every key from a hash of both; the highest wins. When a scheduler joins, only the keys
that the newcomer wins move; when a scheduler leaves, the remaining schedulers share the orphaned keys. There is no
ring to keep. Operands are hashed by their subgraph, since an edge between two schedulers costs two messages. uhashring
takes ten times as long and balances worse.
Source: docs/explanation/seeds.md, "Submitting a job"; Thaler and Ravishankar 1996.

Remote shards: a shard in another scheduler process, and what becomes of the shard when that process ends.

The scheduler that leads asks and waits for the answer, over a Unix socket in the cluster's private folder. It keeps the
calls: when the process is gone, or silent for too long, the same calls give the same shard in the leader's own process,
and the job goes on with no operand run twice.
Source: docs/decisions/0050-schedulers-by-replay.md; docs/explanation/seeds.md, "Operand states".
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import pickle
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from jmars.model.status import OperandState as S
from jmars.scheduler.lifecycle import Happened
from jmars.scheduler.operand_rows import Blame, Losses, Moved, OperandActor, Recovery, Rows

LEAST = 32  # operands per scheduler from which on a job is spread over processes


class Shards(Rows):
    """All operands of a job; has the methods of OperandActor.

    Parameters
    ----------
    counters
        An instance of the whole graph: only its graph is used, each shard counts for itself.
    nbytes, assign, workers
        As OperandActor's.
    home
        Shard of each operand.
    places
        By shard: the process that holds the shard; no entry for shards in this process.
    """

    def __init__(
        self,
        counters: Counters,
        nbytes: list[int],
        assign: Sequence[int],
        workers: int,
        home: Sequence[int],
        places: Mapping[int, RemotePlace] | None = None,
    ) -> None:
        graph = counters.graph
        self.counters, self.nbytes, self.assign = counters, nbytes, assign
        self.state = bytearray(graph.n)  # states of all operands, written by the shards
        for one in graph.given.tolist():
            self.state[one] = S.FINISHED
        self.load = [0] * workers
        self.sizes: dict[int, tuple[int, ...]] = {}
        self.stale: list[int] = []
        self.losses = Losses()
        self.blame = Blame()
        self.messages = 0  # messages between shards so far
        self._home = home
        self._sized: dict[int, int] = {}  # bytes of operands that are about to finish
        self.shards = [
            self._made(part, (places or {}).get(part.number))
            for part in parts_of(counters, nbytes, assign, workers, home)
        ]

    def _made(self, part: ShardPart, place: RemotePlace | None) -> Shard | RemoteShard:
        there = None if place is None else place.make(part, self.state, self.load)
        return there or Shard(part, self.state, self.load)

    def close(self) -> None:
        """The shards are not needed any more."""
        for shard in self.shards:
            shard.close()

    # -- the way that all go
    def start(self) -> tuple[list[int], list[int]]:
        """First operands and the worker of each."""
        told = ShardAnswer()
        for shard in self.shards:
            told.add(shard.act("begin"))
        return told.ready, told.workers

    def started(self, operands: Iterable[int], worker: int) -> list[int]:
        """A worker took operands; returns the operands whose state changed."""
        return [one for shard, mine in self._by_shard(operands) for one in shard.act("took", mine, worker).taken]

    def finished(self, operands: Sequence[int], worker: int) -> tuple[list[int], list[int], list[int]]:
        """Chunks are stored: (operands that became ready, their workers, operands with a chunk that no operand
        needs now).
        """
        sized, self._sized = self._sized, {}
        told = ShardAnswer()
        for shard, mine in self._by_shard(operands):
            sizes = {one: sized[one] for one in mine if one in sized} if sized else {}
            self._do(told, shard, "ended", mine, worker, sizes)
        self._deliver(told)
        self.stale += told.stale
        return told.ready, told.workers, told.freed

    def sized(self, operand: int, shape: tuple[int, ...], size: int) -> None:
        """The chunk of an operand that is about to finish has this shape and so many bytes."""
        self.sizes[operand] = shape
        self.nbytes[operand] = self._sized[operand] = size

    def replanned(self, assign: Sequence[int]) -> None:
        """Give operands that do not run yet new workers; -1 for ended operands."""
        self.assign = assign
        for shard in self.shards:
            shard.act("planned", list(assign))

    def grow(self, workers: int) -> None:
        """There are so many workers now."""
        self.load += [0] * (workers - len(self.load))  # the load is common to all shards
        for shard in self.shards:
            shard.act("widen", workers)

    def kept(self, operands: Iterable[int], worker: int) -> None:
        """Chunks of operands moved to the host of `worker`, as if `worker` had made the chunks."""
        for shard, mine in self._by_shard(operands):
            shard.act("kept_at", mine, worker)

    # -- when something goes wrong
    def died(self, operands: Sequence[int], how: str, deaths: int = 1) -> list[int]:
        """The worker that held operands is dead; returns the operand that is known to be the cause."""
        return self.blame.died([operand for operand in operands if self.state[operand] == S.RUNNING], how, deaths)

    def dropped(self, operands: Iterable[int]) -> Moved:
        """A worker stopped or dropped operands, or died: they run again, or are cancelled where that was ordered."""
        return self._moves("dropped", operands)

    def missing(self, operands: Iterable[int]) -> Moved:
        """A worker has not all inputs of operands: they wait for the inputs."""
        return self._moves("missing", operands)

    def raised(self, operand: int, most: int) -> Moved:
        """Retry an operand that raised, `most` times; then make the operand and all descendants FATAL."""
        return self._move("raised", operand, most)

    def refused(self, operand: int) -> Moved:
        """An operand can never run on that worker."""
        return self._move("refused", operand)

    def hopeless(self, operand: int) -> Moved:
        """Give up an operand in any state, because workers die under the operand or its chunk is always lost."""
        return self._move("hopeless", operand)

    def stop(self) -> Moved:
        """Cancel waiting operands, mark running operands to be stopped; no operand becomes ready after that."""
        told = ShardAnswer()
        for shard in self.shards:
            told.add(shard.act("moves", "stop"))
        return self._moved(told)

    def free(self) -> list[int]:
        """Free all stored chunks; returns their operands."""
        return [one for shard in self.shards for one in shard.act("free_all").freed]

    def lost(self, operands: Sequence[int], now: float) -> Recovery | None:
        """Chunks of operands are gone: needed operands run again, with freed operands before them."""
        told = ShardAnswer()
        for shard, mine in self._by_shard(operands):
            self._do(told, shard, "again", mine)
        self._deliver(told)
        if not told.again:
            return None
        worst = self.losses.worst(set(operands).intersection(told.again), now)
        if worst >= 0:
            return Recovery(told.again, [], [], told.given, worst)
        return Recovery(told.again, told.ready, told.workers, told.given, -1)

    # -- what others ask
    @property
    def is_done(self) -> bool:
        """Whether every operand is finished."""
        return all(shard.is_done for shard in self.shards)

    @property
    def running(self) -> int:
        """Operands in RUNNING and CANCELLING."""
        return sum(shard.running for shard in self.shards)

    @property
    def tries(self) -> dict[int, int]:
        """How often each operand raised."""
        return {one: times for shard in self.shards for one, times in shard.facts()["tries"].items()}

    @property
    def chosen(self) -> dict[int, int]:
        """Ready or running operands, and the workers that have them in their load."""
        return {one: worker for shard in self.shards for one, worker in shard.facts()["chosen"].items()}

    @property
    def owner(self) -> list[int]:
        """Worker that made each operand's chunk, -1 for none."""
        owner = [-1] * len(self.state)
        for shard in self.shards:
            for one, worker in shard.facts()["owner"].items():
                owner[one] = worker
        return owner

    @property
    def held(self) -> list[int]:
        """Bytes of finished chunks, not freed yet, by the worker that made them."""
        return [sum(held) for held in zip(*(shard.facts()["held"] for shard in self.shards))]

    # -- own
    def _by_shard(self, operands: Iterable[int]) -> list[tuple[Shard | RemoteShard, list[int]]]:
        """Shards that own some operands, with these operands."""
        found: dict[int, list[int]] = {}
        for one in operands:
            found.setdefault(self._home[one], []).append(one)
        return [(self.shards[number], mine) for number, mine in found.items()]

    def _do(self, told: ShardAnswer, shard: Shard | RemoteShard, name: str, *args: Any) -> None:
        """Make a call; mail goes to the end of the line."""
        found = shard.act(name, *args)
        told.add(found)
        told.mail += found.mail

    def _moves(self, name: str, operands: Iterable[int]) -> Moved:
        told = ShardAnswer()
        for shard, mine in self._by_shard(operands):
            told.add(shard.act("moves", name, mine))
        return self._moved(told)

    def _move(self, name: str, operand: int, *more: Any) -> Moved:
        told = ShardAnswer()
        told.add(self.shards[self._home[operand]].act("moves", name, operand, *more))
        return self._moved(told)

    def _moved(self, told: ShardAnswer) -> Moved:
        """Descendants of operands that became FATAL follow, in all shards."""
        if told.states.get(S.FATAL):
            for shard, mine in self._by_shard(self.descendants(told.states[S.FATAL])):
                told.add(shard.act("hopeless_all", mine))
        return Moved(told.states, told.ready, told.workers)

    def _deliver(self, told: ShardAnswer) -> None:
        """Hand out mail until there is none."""
        while told.mail:
            self.messages += len(told.mail)
            line: dict[int, list[ShardMail]] = {}
            for one in told.mail:
                line.setdefault(one.to, []).append(one)
            told.mail = []
            for to, mail in line.items():
                self._do(told, self.shards[to], "receive", mail)


def make_rows(
    counters: Counters,
    nbytes: list[int],
    assign: Sequence[int],
    workers: int,
    shards: int,
    places: Mapping[str, RemotePlace] | None = None,
) -> OperandActor | Shards:
    """The rows of a job: one OperandActor, or as many as `shards` says, or as there are scheduler processes.

    `places` are the other scheduler processes by name; the first shard is always in this process.
    """
    n = counters.graph.n
    there = {name: place for name, place in (places or {}).items() if place.is_there()} if places else {}
    if n < LEAST * (1 + len(there)):
        there = {}
    if n < 2 or (shards == 1 and not there):
        return OperandActor(counters, nbytes, assign, workers)
    names = ["scheduler-0", *there]
    number = 0
    while len(names) < shards:
        number += 1
        names += [f"scheduler-{number}"] * (f"scheduler-{number}" not in names)
    home = highest(subgraphs(counters.graph.dag), names)
    used, home = np.unique(home, return_inverse=True)  # a small graph may leave some without an operand
    placed = {shard: there[names[one]] for shard, one in enumerate(used.tolist()) if names[one] in there}
    return Shards(counters, nbytes, assign, workers, home.tolist(), placed)


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
    stale: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    states: dict[S, list[int]] = field(default_factory=dict)
    mail: list[ShardMail] = field(default_factory=list)

    def add(self, other: ShardAnswer) -> None:
        """Consequences of another call; mail is not added."""
        for name in ("ready", "workers", "taken", "freed", "stale", "again", "given"):
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
        self._holders = {one: set(readers) for one, readers in part.readers.items()}  # readers left, by operand

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
        stale, self.stale = set(self.stale), []
        told.stale += self._outside(stale)
        self._tell_ready(told, ready, workers)
        for one in mine:
            if one not in stale:
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
        if self._stopped or self.counters.finished[ghost]:  # released here, and computed again for other shards
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


_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # constants of splitmix64


def highest(keys: NDArray[np.uint64], schedulers: Sequence[str]) -> NDArray[np.int64]:
    """The scheduler of each key.

    Parameters
    ----------
    keys
        Any numbers, shape (n,).
    schedulers
        Names, at least one; what they are decides, not their order.

    Returns
    -------
    NDArray, shape (n,)
        Index in `schedulers` for each key.

    Examples
    --------
    >>> keys = np.arange(3000, dtype=np.uint64)
    >>> np.bincount(highest(keys, ["a", "b", "c"])).tolist()
    [988, 1060, 952]
    >>> before, after = highest(keys, ["a", "b", "c"]), highest(keys, ["a", "b", "c", "d"])
    >>> sorted(set(after[before != after].tolist()))  # who moves goes to the new one
    [3]
    """
    seeds = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in schedulers]
    drawn = np.empty((len(seeds), len(keys)), np.uint64)
    for row, seed in zip(drawn, seeds):
        np.bitwise_xor(_mixed(keys), np.uint64(int.from_bytes(seed, "little")), out=row)
        row[:] = _mixed(row)
    found: NDArray[np.int64] = drawn.argmax(axis=0)
    return found


def subgraphs(dag: Dag) -> NDArray[np.uint64]:
    """Keys of vertices: the source at the end of each chain of first inputs, so that chains stay together.

    Examples
    --------
    >>> subgraphs(Dag.from_edges(5, [0, 2, 1, 3], [2, 3, 4, 4])).tolist()  # 0 - 2 - 3 - 4, and 1 - 4
    [0, 1, 0, 0, 1]
    """
    root = np.arange(dag.n)
    inner = dag.in_degree > 0
    root[inner] = dag.pred_idx[dag.pred_ptr[:-1][inner]]
    while True:
        further = root[root]
        if np.array_equal(further, root):
            return root.astype(np.uint64)
        root = further


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The last steps of splitmix64: a bit of a key changes half of the bits of the hash."""
    keys = (keys ^ (keys >> np.uint64(30))) * _FIRST
    keys = (keys ^ (keys >> np.uint64(27))) * _SECOND
    found: NDArray[np.uint64] = keys ^ (keys >> np.uint64(31))
    return found


log = logging.getLogger("jmars.scheduler")

SHARD_SECONDS = 5.0  # that the leader waits for an answer

_SIZE = struct.Struct("<Q")


class RemotePlace:
    """Another scheduler process, which holds shards.

    Parameters
    ----------
    name, path, key
        Name of the process, path of its socket, and the secret that a connection begins with.
    lost
        Called with the name and the reason when a shard is taken over.
    """

    def __init__(self, name: str, path: str, key: bytes, lost: Callable[[str, str], None]) -> None:
        self.name, self._path, self._key, self._lost = name, path, key, lost

    def is_there(self) -> bool:
        """Whether the process takes connections and answers."""
        try:
            self._connected().close()
        except OSError:
            return False
        return True

    def make(self, part: ShardPart, whole: bytearray, load: list[int]) -> RemoteShard | None:
        """A shard there; None where the process is gone."""
        try:
            line = self._connected()
            _send(line, pickle.dumps(part))
            _receive(line)
        except OSError:
            return None
        return RemoteShard(part, whole, load, line, lambda why: self._lost(self.name, why))

    def _connected(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.settimeout(SHARD_SECONDS)
            line.connect(self._path)
            _send(line, self._key)
            _receive(line)
        except BaseException:
            line.close()
            raise
        return line


class RemoteShard:
    """A shard in another process, or here after the end of that process."""

    def __init__(
        self, part: ShardPart, whole: bytearray, load: list[int], line: socket.socket, lost: Callable[[str], None]
    ) -> None:
        self._part, self._whole, self._load, self._line, self._lost = part, whole, load, line, lost
        self._asked: list[bytes] = []  # pickled calls since the shard was made
        self._here: Shard | None = None
        self.own, self.running = part.own, 0
        self.is_done = all(one in part.given for one in range(part.own))

    def act(self, name: str, *args: Any) -> ShardAnswer:
        """As Shard's."""
        if self._here is None:
            request = pickle.dumps((name, args, self._load))
            self._asked.append(request)
            try:
                told, states, load, self.running, self.is_done = self._answer(request)
            except OSError as error:
                told, self._load[:] = self._take_over(str(error) or type(error).__name__)
                return told
            for one, state in states.items():
                self._whole[one] = state
            self._load[:] = load
            return told  # type: ignore[no-any-return]
        told = self._here.act(name, *args)
        self.running, self.is_done = self._here.running, self._here.is_done
        return told

    def facts(self) -> dict[str, Any]:
        """As Shard's."""
        if self._here is None:
            try:
                found: dict[str, Any] = self._answer(pickle.dumps(("", (), ())))
            except OSError as error:
                self._take_over(str(error) or type(error).__name__)
            else:
                return found
        assert self._here is not None
        return self._here.facts()

    def close(self) -> None:
        """The shard is not needed any more."""
        self._line.close()
        if self._here is None:
            self._here = Shard(self._part, bytearray(len(self._whole)), list(self._load))

    def _answer(self, request: bytes) -> Any:
        _send(self._line, request)
        return pickle.loads(_receive(self._line))

    def _take_over(self, why: str) -> tuple[ShardAnswer, list[int]]:
        """Make all calls once more, here; returns the consequences of the last, and the load behind it."""
        self._line.close()
        self._here = Shard(self._part, self._whole, load := [0] * len(self._load))
        told = ShardAnswer()
        for request in self._asked:
            name, args, load[:] = pickle.loads(request)
            told = self._here.act(name, *args)
        self._here.load = self._load
        self._asked.clear()
        self.running, self.is_done = self._here.running, self._here.is_done
        self._lost(why)
        return told, load


def serve_shards(path: str, key: bytes) -> None:
    """Hold shards for ever: a connection each, and a thread for each connection."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.path.exists(path):  # left by a process that died
        os.unlink(path)
    server.bind(path)
    server.listen(64)
    while True:
        line, _ = server.accept()
        threading.Thread(target=_hold, args=(line, key), daemon=True).start()


def _hold(line: socket.socket, key: bytes) -> None:
    """Hold the shard of a connection until the other end closes."""
    with line:
        try:
            if not hmac.compare_digest(_receive(line, len(key)), key):
                log.warning("a connection without the secret was refused")
                return
            _send(line, b"")
            states: dict[int, int] = {}
            load: list[int] = []
            shard = Shard(pickle.loads(_receive(line)), states, load)
            _send(line, b"")
            while True:
                name, args, load[:] = pickle.loads(_receive(line))
                if not name:
                    _send(line, pickle.dumps(shard.facts()))
                    continue
                told = shard.act(name, *args)
                _send(line, pickle.dumps((told, states, load, shard.running, shard.is_done)))
                states.clear()
        except OSError:
            return  # the leader is gone, or the job has ended


def _send(line: socket.socket, body: bytes) -> None:
    line.sendall(_SIZE.pack(len(body)) + body)


def _receive(line: socket.socket, most: int = 1 << 40) -> bytes:
    """A message; raises ConnectionError where the other end has closed, or sends more than `most` bytes."""
    (size,) = _SIZE.unpack(_exactly(line, _SIZE.size))
    if size > most:
        raise ConnectionError("a message is longer than any can be")
    return _exactly(line, size)


def _exactly(line: socket.socket, size: int) -> bytes:
    body = bytearray()
    while len(body) < size:
        piece = line.recv(min(size - len(body), 1 << 20))
        if not piece:
            raise ConnectionError("the process has ended")
        body += piece
    return bytes(body)
