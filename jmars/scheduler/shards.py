"""Shards: the operands of a job spread over several schedulers, with the interface of a single OperandActor.

A shard is an OperandActor over a subgraph. Inputs of other shards stand there as ghosts, operands that run elsewhere;
an operand is kept until all reading shards have released it. Shards exchange four messages about an operand: `stored`
(the chunk is there, on a worker, of a size), `released` (a shard has read the chunk for the last time), `gone` (the
chunk was lost), `needed` (a shard reads again after the release). Messages are delivered in turn until none is left,
so a shard needs no memory of other shards; common knowledge, the load of the workers and the operands that ended some,
is told beside them. The switch `shards` sets their number.
Source: docs/explanation/seeds.md, "Preparing the graph" and "Operand states".
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
    """All operands of a job; has the methods of OperandActor.

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
        """A worker took operands; returns the operands whose state changed."""
        return [one for shard, mine in self._by_shard(operands) for one in shard.outside(shard.started(mine, worker))]

    def finished(self, operands: Sequence[int], worker: int) -> tuple[list[int], list[int], list[int]]:
        """Chunks are stored: (operands that became ready, their workers, operands with a chunk that no operand
        needs now).
        """
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
        """Give operands that do not run yet new workers; -1 for ended operands."""
        self.assign = assign
        for shard in self.shards:
            shard.replanned([assign[one] for one in shard.ids])

    def grow(self, workers: int) -> None:
        """There are so many workers now."""
        self.load += [0] * (workers - len(self.load))  # of all shards
        self._workers = workers
        for shard in self.shards:
            shard.grow(workers)

    def kept(self, operands: Iterable[int], worker: int) -> None:
        """Chunks of operands moved to the host of `worker`, as if `worker` had made the chunks."""
        for shard, mine in self._by_shard(operands):
            shard.kept(mine, worker)

    # -- when something goes wrong
    def died(self, operands: Sequence[int], how: str, deaths: int = 1) -> list[int]:
        """The worker that held operands is dead; returns the operand that is known to be the cause."""
        return self.blame.died([operand for operand in operands if self.state[operand] == S.RUNNING], how, deaths)

    def dropped(self, operands: Iterable[int]) -> Moved:
        """A worker stopped or dropped operands, or died: they run again, or are cancelled where that was ordered."""
        return self._meet(operands, lambda shard, mine: shard.dropped(mine))

    def missing(self, operands: Iterable[int]) -> Moved:
        """A worker has not all inputs of operands: they wait for the inputs."""
        return self._meet(operands, lambda shard, mine: shard.missing(mine))

    def raised(self, operand: int, most: int) -> Moved:
        """Retry an operand that raised, `most` times; then make the operand and all descendants FATAL."""
        return self._meet([operand], lambda shard, mine: shard.raised(mine[0], most))

    def refused(self, operand: int) -> Moved:
        """An operand can never run on that worker."""
        return self._meet([operand], lambda shard, mine: shard.refused(mine[0]))

    def hopeless(self, operand: int) -> Moved:
        """Give up an operand in any state, because workers die under the operand or its chunk is always lost."""
        return self._meet([operand], lambda shard, mine: shard.hopeless(mine[0]))

    def stop(self) -> Moved:
        """Cancel waiting operands, mark running operands to be stopped; no operand becomes ready after that."""
        return self._meet(range(len(self.state)), lambda shard, _: shard.stop())

    def free(self) -> list[int]:
        """Free all stored chunks; returns their operands."""
        return [one for shard in self.shards for one in shard.outside(shard.free())]

    def lost(self, operands: Sequence[int], now: float) -> Recovery | None:
        """Chunks of operands are gone: needed operands run again, with freed operands before them."""
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
        """Ready or running operands, and the workers that have them in their load."""
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
        """Shards that own some operands, with the operands' numbers there."""
        found: dict[int, list[int]] = {}
        for one in operands:
            found.setdefault(self._home[one], []).append(self._place[one])
        return [(self.shards[number], mine) for number, mine in found.items()]

    def _meet(self, operands: Iterable[int], does: Callable[[Shard, list[int]], Moved]) -> Moved:
        """Apply an event to operands; descendants of operands that became FATAL follow, in all shards."""
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
        """Free chunks that a shard does not need any more: release ghosts to their owners."""
        number = self.shards.index(shard)
        for one in freed:
            operand = shard.ids[one]
            if one < shard.own:
                told.freed.append(operand)
            else:
                self._post(self._home[operand], "released", operand, number)

    def _again(self, shard: Shard, mine: Sequence[int], told: _Told) -> None:
        """Compute chunks of a shard again, and ask other shards for released inputs."""
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
    """Consequences of a report, over all shards."""

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
