"""Every operand becomes ready exactly once and every chunk is released exactly once, whatever the order of reports."""

from collections import Counter
from itertools import chain, combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jmars.errors import GraphError
from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from tests.graph.examples import dags


def all_dags(n):
    """Every graph on n vertices whose edges lead upwards; every graph looks like one of them."""
    edges = list(combinations(range(n), 2))
    for chosen in chain.from_iterable(combinations(edges, k) for k in range(len(edges) + 1)):
        yield Dag.from_edges(n, [a for a, _ in chosen], [b for _, b in chosen])


def batches(ready):
    """Every order of every non-empty choice of what is ready."""
    for k in range(1, len(ready) + 1):
        yield from permutations(ready, k)


def explore(graph, reports, told_ready, told_released):
    """All ways in which a run can go on after `reports`; counts the ends and checks each of them."""
    run = Counters(graph)
    for batch in reports:
        run.finish(batch)
    able = [v for v in range(graph.n) if not run.finished[v] and not run.waiting[v]]
    assert sorted(told_ready - Counter(v for batch in reports for v in batch)) == able  # no more, no less
    if not able:
        assert run.is_done
        assert told_ready == Counter(range(graph.n))
        assert told_released == Counter(set(range(graph.n)) - set(graph.kept.tolist()))
        return 1
    ends = 0
    for batch in batches(able):
        run = Counters(graph)
        for before in reports:
            run.finish(before)
        ready, released = run.finish(batch)
        ends += explore(graph, [*reports, batch], told_ready + Counter(ready), told_released + Counter(released))
    return ends


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_model_check_of_all_graphs_and_all_interleavings(n):
    ends = 0
    for dag in all_dags(n):
        graph = FlowGraph(dag, kept=[n - 1])
        ends += explore(graph, [], Counter(graph.initial), Counter())
    # 2 vertices: apart 0,1 or 1,0 or both at once in either order; joined one way only
    assert ends == {1: 1, 2: 5, 3: 55, 4: 1289}[n]


@given(dags(), st.randoms(use_true_random=False))
def test_any_order_even_one_that_no_run_could_have(dag, random):
    # reports may overtake one another: a reader's may be handled before its input's
    graph = FlowGraph(dag)
    run = Counters(graph)
    order = list(range(dag.n)) * 2  # and each comes twice
    random.shuffle(order)
    ready, released = Counter(), Counter()
    while order:
        batch = [order.pop() for _ in range(random.randint(1, len(order)))]
        newly, freed = run.finish(batch)
        ready.update(newly)
        released.update(freed)
    assert run.is_done
    assert max(ready.values(), default=1) == 1  # never twice; not at all when it had finished before
    assert released == Counter(range(dag.n))
    assert not any(run.waiting) and not any(run.consumers)


class LossyRun(RuleBasedStateMachine):
    """Operands finish, chunks get lost, results are dropped; the counters always equal what sets say."""

    @initialize(dag=dags(12), data=st.data())
    def start(self, dag, data):
        self.kept = data.draw(st.sets(st.integers(0, dag.n - 1)))
        self.graph = FlowGraph(dag, kept=sorted(self.kept))
        self.run = Counters(self.graph)
        self.finished = set()

    def able(self):
        return {v for v in range(self.graph.n) if v not in self.finished and self.finished >= set(self.graph.preds[v])}

    def needed(self):
        readers = {v for v in range(self.graph.n) if set(self.graph.succs[v]) - self.finished}
        return readers | self.kept

    @precondition(lambda self: self.able())
    @rule(data=st.data())
    def finish(self, data):
        before, held = self.able(), self.needed() & self.finished
        batch = data.draw(st.lists(st.sampled_from(sorted(before)), min_size=1, unique=True))
        ready, released = self.run.finish(batch)
        self.finished |= set(batch)
        assert sorted(ready) == sorted(self.able() - before)
        assert sorted(released) == sorted((held | set(batch)) - self.needed())

    @precondition(lambda self: self.finished)
    @rule(data=st.data())
    def lose(self, data):
        ids = data.draw(st.lists(st.sampled_from(sorted(self.finished)), unique=True))
        before, held = self.able(), self.needed() & self.finished
        redone, todo = set(), sorted(set(ids) & held)
        while todo:
            v = todo.pop()
            redone.add(v)
            todo += [p for p in self.graph.preds[v] if p in self.finished - held - redone]  # others are redone already
        again, ready, withdrawn, given = self.run.lost(ids)
        assert not given
        self.finished -= redone
        assert sorted(again) == sorted(redone)
        assert sorted(ready) == sorted(self.able() & redone)
        assert sorted(withdrawn) == sorted(before - self.able())

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def drop(self, data):
        v = data.draw(st.sampled_from(sorted(self.kept)))
        self.kept.discard(v)
        assert self.run.drop([v]) == ([v] if v in self.finished - self.needed() else [])

    @invariant()
    def counts_are_what_sets_say(self):
        for v in range(self.graph.n):
            assert self.run.waiting[v] == len(set(self.graph.preds[v]) - self.finished)
            assert self.run.consumers[v] == len(set(self.graph.succs[v]) - self.finished) + (v in self.kept)
        assert self.run.done == len(self.finished)

    def teardown(self):
        if hasattr(self, "run"):
            self.run.reset()
            assert (self.run.waiting, self.run.consumers) == (list(self.graph.waiting), list(self.graph.consumers))
            assert not any(self.run.finished) and self.run.done == 0


TestLossyRun = LossyRun.TestCase
TestLossyRun.settings = settings(max_examples=60, stateful_step_count=20)


def diamond(**options):
    return Counters(FlowGraph(Dag.from_edges(4, [0, 0, 1, 2], [1, 2, 3, 3]), **options))


def test_a_lost_chunk_takes_its_readers_back_and_redoes_what_was_freed():
    run = diamond(kept=[3])
    assert run.finish([0]) == ([1, 2], [])
    assert run.finish([1, 2]) == ([3], [0])
    # 3 is ready or running; 1 is lost, and 0, which 1 reads, was freed
    assert run.lost([1]) == ([1, 0], [0], [3], [])
    assert run.finish([0]) == ([1], [])
    assert run.finish([1]) == ([3], [0])
    assert run.finish([3]) == ([], [1, 2])
    assert run.is_done


def test_a_lost_chunk_that_nobody_needs_is_not_redone():
    run = diamond(kept=[3])
    run.finish([0, 1, 2, 3])
    assert run.lost([0, 1, 2]) == ([], [], [], [])
    assert run.lost([3]) == ([3, 1, 2, 0], [0], [], [])  # the result: all of it again
    assert not run.is_done


def test_a_reader_that_had_read_its_input_before_the_loss_may_still_finish():
    run = diamond(kept=[3])
    run.finish([0, 1, 2])
    run.lost([1])
    assert run.finish([3]) == ([], [2])  # it ran on the old chunk; 1 is being redone for nobody
    assert run.finish([0, 1]) == ([1], [0, 1])  # released as soon as they end
    assert run.is_done


def test_a_lost_chunk_from_outside_is_an_error_and_changes_nothing():
    run = diamond(given=[0])
    before = list(run.waiting), list(run.consumers), run.done
    run.finish([1])
    run.lost([1])
    with pytest.raises(GraphError, match="operand 0 came from outside"):
        run.lost([0])
    assert (list(run.waiting), list(run.consumers), run.done) == before


def test_an_outside_chunk_read_after_its_release_must_be_given_again():
    run = diamond(given=[0])
    assert run.finish([1, 2]) == ([3], [0])
    assert run.lost([1]) == ([1], [1], [3], [0])
    assert run.consumers[0] == 1 and run.finished[0]
    assert run.finish([1]) == ([3], [0])  # released a second time
    assert run.lost([1, 2]) == ([1, 2], [1, 2], [3], [0])  # given once for both


def test_a_result_is_dropped_once():
    run = diamond(kept=[3])
    assert run.drop([3]) == []  # before it was computed
    assert run.finish([0, 1, 2, 3])[1] == [0, 1, 2, 3]
    with pytest.raises(GraphError, match="operand 3 is not kept"):
        run.drop([3])


def test_what_is_held_outlives_its_readers_until_it_is_dropped():
    run = diamond(kept=[3])
    run.hold([0])
    with pytest.raises(GraphError, match="operand 0 is kept already"):
        run.hold([0])
    assert run.finish([0, 1, 2, 3])[1] == [1, 2]
    assert run.drop([0]) == [0]
