"""The operands of one job spread over several schedulers: `Shards` looks like one OperandActor and is many.

Each shard is an OperandActor over the subgraph that it owns. What it reads from another shard stands in it as a ghost,
an operand that runs elsewhere; what another one reads of it is kept until that one lets it go. Only what crosses is
exchanged, as four messages about one operand: `stored` (its chunk is there, on this worker, of this size), `released`
(a shard has read it for the last time), `gone` (its chunk was lost), `needed` (a shard that had released it reads it
again). They are delivered one after the other until there are none, so a shard needs nothing of another's memory;
what all see alike, the load of the workers and who ended some, is told beside them.
Used by StageRun where the switch `shards` is more than 1.
Source: seed 003, "准备执行图" and "Operand 状态" (OperandActors tell each other what became of them).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from jmars.model.states import OperandState as S
from jmars.scheduler.blame import Blame
from jmars.scheduler.lifecycle import Happened
from jmars.scheduler.losses import Losses
from jmars.scheduler.operand_rows import Moved, OperandActor, Recovery, Rows
from jmars.scheduler.rendezvous import highest, subgraphs
from jmars.scheduler.shard import Shard

__all__ = ["Shards", "make_rows"]


class Shards(Rows):
    """All operands of a job; takes and tells what OperandActor does.

    Parameters
    ----------
    counters
        An instance of the whole graph: only its graph is used, each shard counts for itself.
    nbytes, assign, workers
        As OperandActor's.
    home
        Shard of each operand.
    """

    def __init__(
        self, counters: Counters, nbytes: list[int], assign: Sequence[int], workers: int, home: Sequence[int]
    ) -> None:
        graph = counters.graph
        self.counters, self.nbytes, self.assign = counters, nbytes, assign
        self.state = bytearray(graph.n)  # as the shards tell it
        self.load = [0] * workers
        self.sizes: dict[int, tuple[int, ...]] = {}
        self.odd: list[int] = []
        self.losses = Losses()
        self.blame = Blame()
        self.messages = 0  # between shards so far
        self._workers = workers
        self._home, self._mail = home, deque[tuple[int, str, int, int]]()  # (to, what, operand, from)
        self._readers: list[set[int]] = [set() for _ in range(graph.n)]  # other shards that read each operand
        self._place = [-1] * graph.n  # number of each operand in its shard
        self.shards = [self._shard(number) for number in range(max(home, default=0) + 1)]

    def _shard(self, number: int) -> Shard:
        graph, home = self.counters.graph, self._home
        own = [one for one in range(graph.n) if home[one] == number]
        read = {source for one in own for source in graph.preds[one] if home[source] != number}
        ids = own + sorted(read)
        place = {one: local for local, one in enumerate(ids)}
        for one in own:
            self._place[one] = place[one]
            self._readers[one] = {home[user] for user in graph.succs[one]} - {number}
        inputs = [[place[i] for i in graph.preds[one]] for one in own] + [[] for _ in read]
        ptr = np.cumsum([0, *map(len, inputs)], dtype=np.int64)
        dag = Dag.from_inputs(ptr, np.array([i for row in inputs for i in row], np.int64))
        given, results = set(graph.given.tolist()), set(graph.kept.tolist())
        kept = [place[one] for one in own if one in results or self._readers[one]]
        part = FlowGraph(dag, given=[place[one] for one in ids if one in given], kept=kept)
        shard = Shard(
            Counters(part),
            [self.nbytes[one] for one in ids],
            [self.assign[one] for one in ids],
            self._workers,
            ids,
            len(own),
            self.state,
            self.load,
            {place[one] for one in own if one in results},
        )
        for one in own:
            for reader in self._readers[one]:
                shard.hold(place[one], reader)
        return shard

    # -- the way that all go
    def start(self) -> tuple[list[int], list[int]]:
        """First operands and the worker of each."""
        told = _Told()
        for shard in self.shards:
            told.ready_of(shard, *shard.start())
        return told.ready, told.workers

    def started(self, operands: Iterable[int], worker: int) -> list[int]:
        """A worker took operands; returns those for which that is news."""
        return [one for shard, mine in self._by_shard(operands) for one in shard.outside(shard.started(mine, worker))]

    def finished(self, operands: Sequence[int], worker: int) -> tuple[list[int], list[int], list[int]]:
        """Chunks are stored: (operands ready by that, the worker of each, operands whose chunk nobody needs now)."""
        told = _Told()
        for shard, mine in self._by_shard(operands):
            ready, workers, freed = shard.finished(mine, worker)
            odd, shard.odd = set(shard.odd), []
            self.odd += shard.outside(odd)
            told.ready_of(shard, ready, workers)
            self._stored([one for one in mine if one not in odd], shard)
            self._freed(shard, freed, told)
        self._deliver(told)
        return told.ready, told.workers, told.freed

    def sized(self, operand: int, shape: tuple[int, ...], size: int) -> None:
        """The chunk of an operand that is about to finish has this shape and so many bytes."""
        self.sizes[operand] = shape
        self.nbytes[operand] = size
        self.shards[self._home[operand]].nbytes[self._place[operand]] = size

    def replanned(self, assign: Sequence[int]) -> None:
        """Operands that do not run yet have these workers from now on, -1 for those that are over."""
        self.assign = assign
        for shard in self.shards:
            shard.replanned([assign[one] for one in shard.ids])

    # -- when something goes wrong
    def died(self, operands: Sequence[int], how: str) -> list[int]:
        """The worker that held these is dead; returns the one that is the cause, where that is plain by now."""
        return self.blame.died([operand for operand in operands if self.state[operand] == S.RUNNING], how)

    def dropped(self, operands: Iterable[int]) -> Moved:
        """A worker stopped these or dropped them, or died: they run again, or are cancelled where that was ordered."""
        return self._meet(operands, lambda shard, mine: shard.dropped(mine))

    def missing(self, operands: Iterable[int]) -> Moved:
        """A worker has not all inputs of these: they wait for them."""
        return self._meet(operands, lambda shard, mine: shard.missing(mine))

    def raised(self, operand: int, most: int) -> Moved:
        """An operand raised: it is tried again, `most` times; then it is FATAL with all that depends on it."""
        return self._meet([operand], lambda shard, mine: shard.raised(mine[0], most))

    def refused(self, operand: int) -> Moved:
        """An operand can never run on that worker."""
        return self._meet([operand], lambda shard, mine: shard.refused(mine[0]))

    def hopeless(self, operand: int) -> Moved:
        """An operand will never be computed, wherever it stands: it ends workers, or its chunk is lost each time."""
        return self._meet([operand], lambda shard, mine: shard.hopeless(mine[0]))

    def stop(self) -> Moved:
        """What does not run is cancelled, what runs is to be stopped, and nothing becomes ready from now on."""
        return self._meet(range(len(self.state)), lambda shard, _: shard.stop())

    def free(self) -> list[int]:
        """Nobody needs what is stored; returns the operands."""
        return [one for shard in self.shards for one in shard.outside(shard.free())]

    def lost(self, operands: Sequence[int], now: float) -> Recovery | None:
        """Chunks of operands are gone: what is still needed of them runs again, with what was freed before it."""
        told = _Told()
        for shard, mine in self._by_shard(operands):
            self._again(shard, [one for one in mine if shard.state[one] == S.FINISHED], told)
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
        return {shard.ids[one]: times for shard in self.shards for one, times in shard.tries.items()}

    @property
    def chosen(self) -> dict[int, int]:
        """Ready or running operands, and the worker whose load counts each."""
        return {shard.ids[one]: worker for shard in self.shards for one, worker in shard.chosen.items()}

    @property
    def owner(self) -> list[int]:
        """Worker that made each operand's chunk, -1 for none."""
        return [self.shards[shard].owner[place] for shard, place in zip(self._home, self._place)]

    @property
    def held(self) -> list[int]:
        """Bytes of finished chunks, not freed yet, by the worker that made them."""
        return [sum(held) for held in zip(*(shard.held_here() for shard in self.shards))]

    # -- own
    def _by_shard(self, operands: Iterable[int]) -> list[tuple[Shard, list[int]]]:
        """Each shard that owns some of these, and their numbers in it."""
        found: dict[int, list[int]] = {}
        for one in operands:
            found.setdefault(self._home[one], []).append(self._place[one])
        return [(self.shards[number], mine) for number, mine in found.items()]

    def _meet(self, operands: Iterable[int], does: Callable[[Shard, list[int]], Moved]) -> Moved:
        """What became of operands; those that are FATAL by it take with them all that depends on them, anywhere."""
        told = _Told()
        for shard, mine in self._by_shard(operands):
            told.moved(shard, does(shard, mine))
        if told.states.get(S.FATAL):
            for shard, mine in self._by_shard(self.descendants(told.states[S.FATAL])):
                told.moved(shard, shard.meet(mine, Happened.HOPELESS))
        return Moved(told.states, told.ready, told.workers)

    def _post(self, to: int, what: str, operand: int, sender: int) -> None:
        self._mail.append((to, what, operand, sender))
        self.messages += 1

    def _stored(self, mine: Iterable[int], shard: Shard) -> None:
        """Tell the readers in other shards that chunks are there."""
        for one in shard.outside(mine):
            for reader in self._readers[one]:
                self._post(reader, "stored", one, self._home[one])

    def _freed(self, shard: Shard, freed: Iterable[int], told: _Told) -> None:
        """Chunks that a shard does not need any more: its own are free, ghosts are released to who owns them."""
        number = self.shards.index(shard)
        for one in freed:
            operand = shard.ids[one]
            if one < shard.own:
                told.freed.append(operand)
            else:
                self._post(self._home[operand], "released", operand, number)

    def _again(self, shard: Shard, mine: Sequence[int], told: _Told) -> None:
        """A shard computes chunks again, and asks for those of others that it had released."""
        number = self.shards.index(shard)
        again, ready, given = shard.compute_again(mine)
        for one in again + given:
            operand = shard.ids[one]
            if one >= shard.own:
                self._post(self._home[operand], "needed", operand, number)
            elif one in given:
                told.given.append(operand)
            else:
                told.again.append(operand)
                for reader in self._readers[operand]:
                    self._post(reader, "gone", operand, number)
        told.ready_of(shard, ready, shard.make_ready(ready))

    def _deliver(self, told: _Told) -> None:
        """Hand out messages until there are none."""
        while self._mail:
            to, what, operand, sender = self._mail.popleft()
            shard = self.shards[to]
            if what == "stored":
                owner = self.shards[sender]
                place = self._place[operand]
                ready, workers, freed = shard.arrived(operand, owner.owner[place], owner.nbytes[place])
                told.ready_of(shard, ready, workers)
                self._freed(shard, freed, told)
            elif what == "gone":
                shard.gone(operand)
            elif what == "released":
                self._freed(shard, shard.released(self._place[operand], sender), told)
            else:
                self._needed(shard, operand, sender, told)

    def _needed(self, shard: Shard, operand: int, sender: int, told: _Told) -> None:
        """A shard reads an operand again that it had released."""
        place = self._place[operand]
        shard.hold(place, sender)
        if shard.state[place] == S.FREED:
            if shard.counters.graph.finished[place]:
                shard.meet([place], Happened.GIVEN_AGAIN)
                told.given.append(operand)
            else:
                self._again(shard, [place], told)
        elif shard.state[place] == S.FINISHED and not shard.counters.graph.finished[place]:
            self._post(sender, "stored", operand, self._home[operand])


class _Told:
    """What a report leads to, over all shards."""

    def __init__(self) -> None:
        self.ready: list[int] = []
        self.workers: list[int] = []
        self.freed: list[int] = []
        self.again: list[int] = []
        self.given: list[int] = []
        self.states: dict[S, list[int]] = {}

    def ready_of(self, shard: Shard, ready: Sequence[int], workers: Sequence[int]) -> None:
        """Operands of a shard are ready."""
        self.ready += shard.outside(ready)
        self.workers += workers

    def moved(self, shard: Shard, moved: Moved) -> None:
        """Operands of a shard have other states."""
        for state, mine in moved.states.items():
            own = [one for one in mine if one < shard.own]
            if own:
                self.states.setdefault(state, []).extend(shard.outside(own))
        self.ready_of(shard, moved.ready, moved.workers)


def make_rows(
    counters: Counters, nbytes: list[int], assign: Sequence[int], workers: int, shards: int
) -> OperandActor | Shards:
    """The rows of a job: one OperandActor, or as many as `shards` says."""
    if shards == 1 or counters.graph.n < 2:
        return OperandActor(counters, nbytes, assign, workers)
    names = [f"scheduler-{number}" for number in range(shards)]
    home = highest(subgraphs(counters.graph.dag), names)
    _, home = np.unique(home, return_inverse=True)  # a small graph may leave some without an operand
    return Shards(counters, nbytes, assign, workers, home.tolist())
