"""Whatever is lost on the way, a run ends with every result, and only what was lost, or freed before it, runs again."""

import itertools
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from jmars.model.status import OperandState as S
from jmars.scheduler.operand_rows import MOST_LOSSES, OperandActor
from tests.graph.examples import dags


class Host:
    """Three workers that lose chunks and die as they are told; what the scheduler knows it hears from their reports."""

    def __init__(self, dag, kept, data):
        self.seconds = itertools.count()
        self.graph = FlowGraph(dag, kept=sorted(kept))
        self.rows = OperandActor(Counters(self.graph), [10] * dag.n, [-1] * dag.n, 3)
        self.data = data
        self.kept = set(kept)
        self.stored, self.queue, self.running = set(), [], []
        self.runs, self.redone = Counter(), Counter()  # how often an operand ended; how often its chunk was lost

    def run(self, losses, deaths):
        """Until nothing is left to do, with so many losses and deaths on the way."""
        ready, workers = self.rows.start()
        self.enqueue(ready, workers)
        while self.queue or self.running:
            todo = ["start"] * bool(self.queue) + ["end"] * bool(self.running)
            todo += ["lose"] * (losses > 0 and bool(self.stored)) + ["die"] * (deaths > 0 and bool(self.running))
            what = self.data.draw(st.sampled_from(todo))
            losses -= what == "lose"
            deaths -= what == "die"
            getattr(self, what)()
            self.check()

    def enqueue(self, operands, workers):
        assert len(operands) == len(workers) and not set(operands) & set(self.queue + self.running)
        self.queue += operands

    def pick(self, where):
        return where.pop(self.data.draw(st.integers(0, len(where) - 1)))

    def start(self):
        operand = self.pick(self.queue)
        if not set(self.graph.preds[operand]) <= self.stored:  # an input is gone
            assert self.rows.missing([operand]) == ({S.UNSCHEDULED: [operand]}, [], [])
            assert self.rows.missing([operand]) == ({}, [], [])  # told twice
            return
        self.running.append(operand)
        assert self.rows.started([operand], self.data.draw(st.integers(0, 2))) == [operand]
        assert self.rows.started([operand], 0) == []

    def end(self):
        operand = self.pick(self.running)
        self.runs[operand] += 1
        self.stored.add(operand)
        ready, workers, freed = self.rows.finished([operand], self.data.draw(st.integers(0, 2)))
        assert set(freed) <= self.stored
        self.stored -= set(freed)
        self.enqueue(ready, workers)
        before = bytes(self.rows.state), list(self.rows.load), self.rows.running, self.rows.counters.done
        assert self.rows.finished([operand], 0) == ([], [], []) and self.rows.stale == [operand]  # told twice
        self.rows.stale.clear()
        assert before == (bytes(self.rows.state), list(self.rows.load), self.rows.running, self.rows.counters.done)

    def lose(self):
        gone = set(self.data.draw(st.lists(st.sampled_from(sorted(self.stored)), min_size=1, unique=True)))
        unfinished = {v for v in range(self.graph.n) if self.rows.state[v] < S.FINISHED}
        self.stored -= gone
        again, todo = set(), {v for v in gone if v in self.kept or unfinished & set(self.graph.succs[v])}
        while todo:  # what was freed long ago, and so is not there, is needed too
            v = todo.pop()
            again.add(v)
            todo |= {
                p for p in self.graph.preds[v] if p not in self.stored and self.rows.state[p] >= S.FINISHED
            } - again
        found = self.rows.lost(sorted(gone), next(self.seconds))
        assert sorted(found.again if found else []) == sorted(again)
        assert self.rows.lost(sorted(gone), next(self.seconds)) is None  # told twice
        if found:
            self.redone.update(found.again)
            assert found.worst < 0 and not found.given
            self.enqueue(found.ready, found.workers)

    def die(self):
        operand = self.pick(self.running)
        moved = self.rows.dropped([operand])
        assert moved.states.get(S.UNSCHEDULED, []) + moved.ready == [operand]
        assert self.rows.dropped([operand]) == ({}, [], [])  # told twice
        self.enqueue(moved.ready, moved.workers)

    def check(self):
        rows = self.rows
        state = [S(one) for one in rows.state]
        assert [v for v, s in enumerate(state) if s in (S.RUNNING,)] == sorted(self.running)
        assert [v for v, s in enumerate(state) if s == S.READY] == sorted(self.queue)
        assert {v for v, s in enumerate(state) if s == S.FINISHED} == self.stored
        assert rows.running == len(self.running) and sum(rows.load) == len(rows.chosen)
        assert set(rows.chosen) == set(self.queue + self.running)
        assert sum(rows.held) == 10 * len(self.stored)


@settings(max_examples=150, deadline=None)
@given(dags(14), st.data())
def test_random_graphs_with_random_losses_and_deaths_end_with_every_result(dag, data):
    kept = data.draw(st.sets(st.integers(0, dag.n - 1))) or {dag.n - 1}
    host = Host(dag, kept, data)
    host.run(losses=data.draw(st.integers(0, MOST_LOSSES)), deaths=data.draw(st.integers(0, 4)))
    assert host.rows.is_done and host.stored == kept
    assert host.runs == Counter(range(dag.n)) + host.redone  # exactly what was lost, and what had been freed before it


def chain(n, kept):
    return OperandActor(
        Counters(FlowGraph(Dag.from_edges(n, range(n - 1), range(1, n)), kept=kept)), [1] * n, [-1] * n, 2
    )


def ran(rows, *operands):
    for operand in operands:
        rows.started([operand], 0)
        rows.finished([operand], 0)


def test_a_chunk_that_is_lost_again_and_again_is_told():
    rows = chain(2, kept=[0, 1])
    rows.start()
    for second in range(MOST_LOSSES):
        for part in (0.0, 0.3, 0.9):  # of one trouble with the disk
            ran(rows, 0)
            assert rows.lost([0], second + part).worst == -1
    ran(rows, 0)
    assert rows.lost([0], MOST_LOSSES).worst == 0 and rows.losses.of(0) == MOST_LOSSES + 1


def test_a_reader_that_has_read_what_is_lost_since_may_end():
    rows = chain(3, kept=[2])
    rows.start()
    ran(rows, 0)
    rows.started([1], 1)
    assert rows.lost([0], 0.0).ready == [0]
    ready, _, freed = rows.finished([1], 1)
    assert (ready, freed) == ([2], [])
    ran(rows, 2)
    assert not rows.is_done  # 0 is under way
    rows.started([0], 0)
    assert rows.finished([0], 0) == ([], [], [0])  # for nobody
    assert rows.is_done


def test_a_workers_input_that_is_there_again_is_not_handed_out_twice():
    rows = chain(2, kept=[1])
    rows.start()
    ran(rows, 0)
    rows.lost([0], 0.0)
    rows.started([0], 0)
    assert rows.finished([0], 0) == ([], [], [])  # 1 is READY at its worker, which finds the chunk now
    rows.started([1], 0)
    assert rows.finished([1], 0) == ([], [], [0])


def test_a_reader_whose_worker_died_waits_for_its_lost_input():
    rows = chain(2, kept=[1])
    rows.start()
    ran(rows, 0)
    rows.started([1], 1)
    rows.lost([0], 0.0)
    assert rows.dropped([1]) == ({S.UNSCHEDULED: [1]}, [], [])
    rows.started([0], 0)
    assert rows.finished([0], 0)[0] == [1]


def test_old_mars_the_loss_of_a_worker_changes_eight_operands():
    """8 sources on two workers, each two read by two: those of one worker are lost, and what reads them waits again."""
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7)]
    edges = [(source, 8 + 2 * k + i) for k, pair in enumerate(pairs) for source in pair for i in range(2)]
    dag = Dag.from_edges(16, [a for a, _ in edges], [b for _, b in edges])
    rows = OperandActor(Counters(FlowGraph(dag, kept=range(8, 16))), [1] * 16, [-1] * 16, 3)
    rows.start()
    for source in range(8):
        ran_on = 0 if source < 4 else 1
        rows.started([source], ran_on)
        rows.finished([source], ran_on)
    before = bytes(rows.state)
    found = rows.lost([0, 1, 2, 3], 0.0)
    rows.missing([8, 9, 10, 11])
    changed = [v for v in range(16) if rows.state[v] != before[v]]
    assert changed == [0, 1, 2, 3, 8, 9, 10, 11] and found.ready == [0, 1, 2, 3]
    assert all(rows.state[v] == S.READY for v in found.ready)
    assert all(rows.state[v] == S.UNSCHEDULED for v in (8, 9, 10, 11))
