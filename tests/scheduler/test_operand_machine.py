"""OperandActor against a host that does everything a host may do, in any order: a state machine for Hypothesis.

The host is the simplest there is: sets of operands that wait and that run, and a set of chunks. A trace that fails
shrinks to a few steps. Source: RELIABILITY 1.3, "Hypothesis stateful".
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from jmars.model.status import OperandState as S
from jmars.scheduler.lifecycle import LEGAL
from jmars.scheduler.operand_rows import MOST_LOSSES, OperandActor
from jmars.scheduler.shards import Shards

WORKERS = 3
SIZE = 10


class Machine(RuleBasedStateMachine):
    """Rows and host; `self.at` is where the host has each operand, the worker that runs it or -1 while it waits."""

    @initialize(n=st.integers(1, 9), data=st.data())
    def graph(self, n: int, data: st.DataObject) -> None:
        edges = [(a, b) for b in range(n) for a in range(b) if data.draw(st.booleans())]
        sources = [i for i in range(n) if all(b != i for _, b in edges)]
        given = [i for i in sources if data.draw(st.integers(0, 3)) == 0]
        kept = [i for i in range(n) if data.draw(st.booleans())] or [n - 1]
        dag = Dag.from_edges(n, [a for a, _ in edges], [b for _, b in edges])
        self.rows = self.made(Counters(FlowGraph(dag, given=given, kept=kept)), n, data)
        self.n, self.given, self.kept = n, set(given), set(kept)
        self.at: dict[int, int] = {}
        self.lacks: dict[int, set[int]] = {}  # readers that went along: inputs that the batch has not made yet
        self.chunks: set[int] = set(given)
        self.before = bytes(self.rows.state)
        self.stopped = self.hopeless = False
        self.submitted(*self.rows.start())

    def made(self, counters: Counters, n: int, data: st.DataObject) -> Any:
        return OperandActor(counters, [SIZE] * n, [-1] * n, WORKERS)

    # -- what the scheduler orders
    def submitted(self, ready: Any, workers: Any) -> None:
        assert len(ready) == len(workers) and all(0 <= worker < WORKERS for worker in workers)
        assert not (self.stopped and ready)
        for operand in ready:
            assert operand not in self.at, "it is at the host already"
            assert operand not in self.chunks, "its chunk is there already"
            self.at[operand] = -1

    def freed(self, operands: Any) -> None:
        for operand in operands:
            assert operand in self.chunks, "freed twice, or before it was there"
            self.chunks.discard(operand)

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.rows.stop()
            self.at = {operand: worker for operand, worker in self.at.items() if worker >= 0}

    # -- what happens at the host
    def waiting(self) -> list[int]:
        preds = self.rows.counters.graph.preds
        return [one for one, worker in self.at.items() if worker < 0 and self.chunks.issuperset(preds[one])]

    def starved(self) -> list[int]:
        preds = self.rows.counters.graph.preds
        return [one for one, worker in self.at.items() if worker < 0 and not self.chunks.issuperset(preds[one])]

    def running(self) -> list[int]:
        return [one for one, worker in self.at.items() if worker >= 0]

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), worker=st.integers(0, WORKERS - 1), twice=st.booleans())
    def takes(self, data: st.DataObject, worker: int, twice: bool) -> None:
        some = data.draw(st.lists(st.sampled_from(self.waiting()), min_size=1, max_size=3, unique=True))
        for operand in some:
            self.at[operand] = worker
        assert sorted(self.rows.started(some, worker)) == sorted(some)
        if twice:
            assert self.rows.started(some, worker) == []

    @precondition(lambda self: self.waiting() and isinstance(self.rows, OperandActor))
    @rule(data=st.data(), worker=st.integers(0, WORKERS - 1))
    def takes_with_readers(self, data: st.DataObject, worker: int) -> None:
        graph, state = self.rows.counters.graph, self.rows.state
        some = [data.draw(st.sampled_from(self.waiting()))]
        for operand in some:  # grows meanwhile
            for reader in graph.succs[operand]:
                there = all(i in some or (state[i] == S.FINISHED and i in self.chunks) for i in graph.preds[reader])
                if there and state[reader] == S.UNSCHEDULED and reader not in some:
                    some.append(reader)
                    self.lacks[reader] = {i for i in graph.preds[reader] if i in some}
        for operand in some:
            self.at[operand] = worker
        assert self.rows.started(some, worker) == some
        assert self.rows.started(some, worker) == []

    def able(self) -> list[int]:
        """Operands that run and may end."""
        return [one for one in self.running() if not self.lacks.get(one)]

    def leave(self, operands: list[int]) -> None:
        for operand in operands:
            del self.at[operand]
            self.lacks.pop(operand, None)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), twice=st.booleans())
    def ends(self, data: st.DataObject, twice: bool) -> None:
        first = data.draw(st.sampled_from(self.able()))
        worker = self.at[first]
        same = [one for one in self.able() if self.at[one] == worker and one != first]
        some = [first, *(data.draw(st.lists(st.sampled_from(same), unique=True)) if same else [])]
        for _ in some:  # and readers, in the same report
            ready = [one for one, lacks in self.lacks.items() if lacks and one in self.at and lacks.issubset(some)]
            some += [one for one in ready if one not in some and data.draw(st.booleans())]
        self.leave(some)
        for lacks in self.lacks.values():
            lacks.difference_update(some)
        self.chunks.update(some)
        ready, workers, freed = self.rows.finished(some, worker)
        assert not self.rows.stale
        self.submitted(ready, workers)
        self.freed(freed)
        if twice:
            assert self.rows.finished(some, worker) == ([], [], [])
            assert sorted(self.rows.stale) == sorted(some)
            self.rows.stale = []

    @precondition(lambda self: self.running())
    @rule(data=st.data(), twice=st.booleans())
    def worker_dies(self, data: st.DataObject, twice: bool) -> None:
        worker = self.at[data.draw(st.sampled_from(self.running()))]
        lost = [one for one in self.running() if self.at[one] == worker]
        causes = [] if self.stopped else self.rows.died(lost, "signal")
        self.leave(lost)
        for one in causes:
            self.rows.hopeless(one)
        if causes:
            self.hopeless = True
            self.stop()
        moved = self.rows.dropped(lost)
        if twice:
            assert self.rows.dropped(lost) == ({}, [], [])  # before anybody has taken them again
        self.submitted(moved.ready, moved.workers)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), most=st.integers(0, 2))
    def raises(self, data: st.DataObject, most: int) -> None:
        operand = data.draw(st.sampled_from(self.able()))
        early = self.readers_behind(operand)
        self.leave([operand, *early])
        self.submitted(*self.rows.dropped(early)[1:])
        moved = self.rows.raised(operand, most)
        if S.FATAL in moved.states and not self.stopped:
            self.hopeless = True
            self.stop()
        self.submitted(moved.ready, moved.workers)

    def readers_behind(self, operand: int) -> list[int]:
        """Readers that went along with an operand that fails, and with each other."""
        found = [operand]
        for one in found:
            found += [reader for reader, lacks in self.lacks.items() if one in lacks and reader not in found]
        return found[1:]

    @precondition(lambda self: not self.stopped and self.chunks - self.given)
    @rule(data=st.data())
    def loses_chunks(self, data: st.DataObject) -> None:
        some = data.draw(st.lists(st.sampled_from(sorted(self.chunks - self.given)), min_size=1, unique=True))
        some = [one for one in some if self.rows.losses.of(one) < MOST_LOSSES]
        self.chunks.difference_update(some)
        found = self.rows.lost(some, 2.0 * sum(map(self.rows.losses.of, range(len(self.rows.state)))))
        if found is None:
            return
        assert found.worst < 0
        self.chunks.update(found.given)  # somebody outside holds them still
        self.submitted(found.ready, found.workers)

    @precondition(lambda self: self.starved())
    @rule(data=st.data(), twice=st.booleans())
    def misses_inputs(self, data: st.DataObject, twice: bool) -> None:
        some = data.draw(st.lists(st.sampled_from(self.starved()), min_size=1, unique=True))
        for operand in some:
            del self.at[operand]
        moved = self.rows.missing(some)
        assert moved.ready == [], "its inputs are not there"
        if twice:
            assert self.rows.missing(some) == ({}, [], [])

    @rule(often=st.integers(0, 9))
    def is_cancelled(self, often: int) -> None:
        if not often:
            self.stop()

    # -- what holds at any time
    @invariant()
    def rows_and_host_agree(self) -> None:
        if not hasattr(self, "rows"):
            return
        rows = self.rows
        states = [S(state) for state in rows.state]
        at_work = [i for i, state in enumerate(states) if state in (S.RUNNING, S.CANCELLING)]
        assert sorted(self.running()) == at_work and rows.running == len(at_work)
        assert sorted(one for one, worker in self.at.items() if worker < 0) == rows.those_in(S.READY)
        assert sorted(rows.chosen) == sorted(self.at)
        assert rows.load == [list(rows.chosen.values()).count(worker) for worker in range(WORKERS)]
        assert sum(rows.held) == SIZE * sum(1 for i in rows.those_in(S.FINISHED) if rows.owner[i] >= 0)
        assert self.chunks.issuperset(rows.those_in(S.FINISHED)), "a chunk that counts as stored is not there"
        assert not self.chunks.intersection(rows.those_in(S.FREED)), "a chunk that was freed is there"

    @invariant()
    def nothing_is_freed_that_somebody_needs(self) -> None:
        if not hasattr(self, "rows") or self.stopped:
            return
        rows = self.rows
        for operand, state in enumerate(rows.state):
            if state in (S.UNSCHEDULED, S.READY):
                assert all(rows.state[i] != S.FREED for i in rows.counters.graph.preds[operand])
        assert all(rows.state[i] != S.FREED for i in self.kept)

    @invariant()
    def moves_are_legal(self) -> None:
        if not hasattr(self, "rows"):
            return
        for before, after in zip(self.before, self.rows.state):
            assert after in reached(before), f"{S(before).name} became {S(after).name}"
        self.before = bytes(self.rows.state)

    # -- and at the end
    def teardown(self) -> None:
        """From anywhere, a host that goes on brings the job to its end."""
        if not hasattr(self, "rows"):
            return
        for _ in range(10 * self.n * (self.n + 1) + 10):
            if not self.at:
                break
            operand = next(iter(self.able()), None)
            if operand is not None:
                worker = self.at[operand]
                self.leave([operand])
                for lacks in self.lacks.values():
                    lacks.discard(operand)
                self.chunks.add(operand)
                ready, workers, freed = self.rows.finished([operand], worker)
                self.rows.stale = []
                self.submitted(ready, workers)
                self.freed(freed)
            elif self.waiting():
                operand = self.waiting()[0]
                self.at[operand] = 0
                self.rows.started([operand], 0)
            else:
                some = self.starved()
                for one in some:
                    del self.at[one]
                moved = self.rows.missing(some)
                self.submitted(moved.ready, moved.workers)
        assert not self.at and self.rows.running == 0 and not self.rows.chosen and not any(self.rows.load)
        if self.stopped:
            assert not self.rows.those_in(S.UNSCHEDULED, S.READY, S.RUNNING, S.CANCELLING)
        else:
            assert self.rows.is_done
            assert set(self.rows.those_in(S.FINISHED)) - self.given == self.kept - self.given
            assert self.chunks - self.given == self.kept - self.given


def reached(state: int) -> set[int]:
    """States that can follow within one report: it may end one attempt and begin the next."""
    found, stack = {state}, [state]
    while stack:
        for after in LEGAL[stack.pop()]:
            if after not in found:
                found.add(after)
                stack.append(after)
    return found


class Spread(Machine):
    """The same over several shards: nobody can tell the difference."""

    def made(self, counters: Counters, n: int, data: st.DataObject) -> Any:
        home = [data.draw(st.integers(0, 2)) for _ in range(n)]
        home = [sorted(set(home)).index(shard) for shard in home]
        return Shards(counters, [SIZE] * n, [-1] * n, WORKERS, home)


Machine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOrder = Machine.TestCase
Spread.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestOverShards = Spread.TestCase
