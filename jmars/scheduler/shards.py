"""Shards: the operands of a job spread over several schedulers, with the interface of a single OperandActor.

A shard is an OperandActor over a subgraph. Inputs of other shards stand there as ghosts, operands that run elsewhere;
an operand is kept until all reading shards have released it. Shards exchange four messages about an operand: `stored`
(the chunk is there, on a worker, of a size), `released` (a shard has read the chunk for the last time), `gone` (the
chunk was lost), `needed` (a shard reads again after the release). Messages are delivered in turn until none is left,
so a shard needs no memory of other shards and may be in another process (remote_shard.py); common knowledge, the load
of the workers and the operands that ended some, is told beside them.
Source: docs/explanation/seeds.md, "Preparing the graph" and "Operand states".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from jmars.flow import Counters
from jmars.model.states import OperandState as S
from jmars.scheduler.blame import Blame
from jmars.scheduler.losses import Losses
from jmars.scheduler.operand_rows import Moved, OperandActor, Recovery, Rows
from jmars.scheduler.rendezvous import highest, subgraphs
from jmars.scheduler.shard import Shard, ShardAnswer, ShardMail, ShardPart, parts_of

__all__ = ["LocalShard", "ShardPlace", "Shards", "make_rows"]

LEAST = 32  # operands for each scheduler, for which a job is spread over processes


class ShardLink(Protocol):
    """A shard, wherever it is."""

    own: int
    running: int
    is_done: bool

    def act(self, name: str, *args: Any) -> ShardAnswer:
        """As Shard's."""

    def facts(self) -> dict[str, Any]:
        """As Shard's."""

    def close(self) -> None:
        """The shard is not needed any more."""


class ShardPlace(Protocol):
    """A process that holds shards."""

    def make(self, part: ShardPart, whole: bytearray, load: list[int]) -> ShardLink | None:
        """A shard there; None where the process is gone."""

    def is_there(self) -> bool:
        """Whether the process answers."""


class LocalShard:
    """A shard in this process."""

    def __init__(self, part: ShardPart, whole: bytearray, load: list[int]) -> None:
        self.shard = Shard(part, whole, load)
        self.own, self.running, self.is_done = part.own, 0, self.shard.is_done

    def act(self, name: str, *args: Any) -> ShardAnswer:
        """As Shard's."""
        told = self.shard.act(name, *args)
        self.running, self.is_done = self.shard.running, self.shard.is_done
        return told

    def facts(self) -> dict[str, Any]:
        """As Shard's."""
        return self.shard.facts()

    def close(self) -> None:
        """No effect."""


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
        places: Mapping[int, ShardPlace] | None = None,
    ) -> None:
        graph = counters.graph
        self.counters, self.nbytes, self.assign = counters, nbytes, assign
        self.state = bytearray(graph.n)  # as the shards tell it
        for one in graph.given.tolist():
            self.state[one] = S.FINISHED
        self.load = [0] * workers
        self.sizes: dict[int, tuple[int, ...]] = {}
        self.odd: list[int] = []
        self.losses = Losses()
        self.blame = Blame()
        self.messages = 0  # between shards so far
        self._home = home
        self._sized: dict[int, int] = {}  # bytes of operands that are about to finish
        self.shards = [
            self._made(part, (places or {}).get(part.number))
            for part in parts_of(counters, nbytes, assign, workers, home)
        ]

    def _made(self, part: ShardPart, place: ShardPlace | None) -> ShardLink:
        there = None if place is None else place.make(part, self.state, self.load)
        return there or LocalShard(part, self.state, self.load)

    def close(self) -> Counters:
        """The shards are not needed any more; returns the counters, to be lent again."""
        for shard in self.shards:
            shard.close()
        return self.counters

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
        self.odd += told.odd
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
        self.load += [0] * (workers - len(self.load))  # of all shards
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
    def _by_shard(self, operands: Iterable[int]) -> list[tuple[ShardLink, list[int]]]:
        """Shards that own some operands, with these operands."""
        found: dict[int, list[int]] = {}
        for one in operands:
            found.setdefault(self._home[one], []).append(one)
        return [(self.shards[number], mine) for number, mine in found.items()]

    def _do(self, told: ShardAnswer, shard: ShardLink, name: str, *args: Any) -> None:
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
    places: Mapping[str, ShardPlace] | None = None,
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
