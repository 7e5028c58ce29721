"""Every order of activation, targets and conditions: a vertex is told once, when it can run, and sees the truth."""

from functools import partial
from itertools import chain, combinations, combinations_with_replacement, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.annex.flow.instance import Activation
from jmars.annex.flow.vertex import ALWAYS, NEVER, WHEN_TAKEN, Edge, Structure
from jmars.errors import GraphError, NotReadyError
from tests.annex.flow.steps import Tokens, flags, in_every_order

KINDS = ("plain", "loaned", "on", "unless")


def one_vertex(kinds):
    """A vertex with one dependency of each kind; targets are data 1, 3, 5..., conditions 2, 4, 6..., its output 0.

    Every data has a source, so that nothing is missing; the sources are vertices 1, 2, ... and emit nothing.
    """
    edges = tuple(
        Edge(0, 2 * k + 1, 2 * k + 2 if kind in ("on", "unless") else -1, kind == "on", mutable=kind == "loaned")
        for k, kind in enumerate(kinds)
    )
    n = 2 * len(kinds) + 1
    return Structure(
        tuple(f"d{d}" for d in range(n)), tuple(f"v{v}" for v in range(n)), edges, tuple((d,) for d in range(n))
    )


def happenings(kinds, truths):
    """(what must happen, what may): a target that is not wanted may come all the same."""
    must, may = ["request"], []
    for k, (kind, truth) in enumerate(zip(kinds, truths)):
        if kind in ("plain", "loaned"):
            must.append(2 * k + 1)
        else:
            must.append(2 * k + 2)
            (must if truth == (kind == "on") else may).append(2 * k + 1)
    return must, may


def check(kinds, truths, order, complete):
    """Run one order. `complete` has what must have happened before the vertex can run."""
    structure = one_vertex(kinds)
    run = Activation(structure)
    done = set()
    for step in order:
        if step == "request":
            told = run.request([0])
        else:
            is_condition = step % 2 == 0
            told = run.release(step, truths[step // 2 - 1] if is_condition else "value")
        before, done = done, done | {step}
        assert (0 in told) == (complete <= done and not complete <= before), (kinds, truths, order)
    for e, (kind, truth) in enumerate(zip(kinds, truths)):
        taken = kind in ("plain", "loaned") or truth == (kind == "on")
        assert run.taken(e) == taken
        assert run.value(e) == ("value" if taken else None)
        assert run.count[e] in (0, -1) and run.waiting[0] == 0


@pytest.mark.parametrize("n", [1, 2, 3])
def test_model_check_of_all_kinds_and_all_interleavings(n):
    orders = 0
    for kinds in combinations_with_replacement(KINDS, n):
        conditional = sum(kind in ("on", "unless") for kind in kinds)
        if conditional > 2:
            continue  # 8 times 5,040 orders each tell nothing that two conditions do not
        for truths in product(*((True, False) if kind in ("on", "unless") else (True,) for kind in kinds)):
            must, may = happenings(kinds, truths)
            for extra in chain.from_iterable(combinations(may, k) for k in range(len(may) + 1)):
                for order in permutations([*must, *extra]):
                    check(kinds, truths, order, set(must))
                    orders += 1
    # 1: plain and loaned 2 orders each; on and unless 3! if they hold, 2! and 3! if not, without and with the target
    assert orders == {1: 32, 2: 1980, 3: 21984}[n]


def test_before_activation_nothing_is_told():
    for kinds in combinations_with_replacement(KINDS, 2):
        for truths in product((True, False), repeat=2):
            run = Activation(one_vertex(kinds))
            for data in (1, 2, 3, 4):
                assert run.release(data, truths[data // 2 - 1] if data % 2 == 0 else "value") == []


def test_the_words_of_the_seed_would_lose_a_run():
    """Target, then a false condition: the counter goes 2, 1, -1 and is never 0, though nothing is missing."""
    run = Activation(one_vertex(["on"]))
    assert 0 not in run.request([0]) and run.count == [2]
    assert run.release(1, "value") == [] and run.count == [1]
    assert run.release(2, False) == [0] and run.count == [-1]


@pytest.mark.parametrize("truth", [True, False])
def test_a_target_is_asked_for_only_after_its_condition_holds(truth):
    run = Activation(one_vertex(["on"]))
    assert run.request([0]) == [2]  # the source of the condition, and not that of the target
    told = run.release(2, truth)
    assert told == ([1] if truth else [0]) and run.wanted[1] == truth


def test_one_data_may_be_target_and_condition():
    structure = Structure(("a", "b"), ("v",), (Edge(0, 0, 0),), ((1,),))
    for value, seen in ((7, 7), (0, None)):
        late, early = Activation(structure), Activation(structure)
        assert early.release(0, value) == [] and early.request([1]) == [0] and early.value(0) == seen
        with pytest.raises(NotReadyError, match="'a' has no producer"):
            late.request([1])


def test_a_condition_without_truth_is_an_error():
    class Neither:
        def __bool__(self):
            raise ValueError("neither true nor false")

    run = Activation(one_vertex(["on"]))
    with pytest.raises(ValueError, match="neither true nor false"):
        run.release(2, Neither())


@pytest.mark.parametrize("order", list(permutations(["request", "target", "on", "unless"])))
@pytest.mark.parametrize("truths", list(product((True, False), repeat=2)))
def test_two_readers_of_which_one_writes_meet_in_every_order_or_in_none(order, truths):
    # v0 writes into d0 on d1, v1 reads d0 unless d2
    edges = (Edge(0, 0, 1, True, mutable=True), Edge(1, 0, 2, False))
    outputs = ((3,), (4,), (0,), (1,), (2,))
    run = Activation(Structure(tuple("abcde"), ("write", "read", "x", "y", "z"), edges, outputs))

    def play():
        for step in order:
            if step == "request":
                run.request([3, 4])
            else:
                data = ["target", "on", "unless"].index(step)
                run.release(data, ("value", *truths)[data])

    if truths == (True, False):
        with pytest.raises(GraphError, match=r"'a' is read by vertex .* and vertex .*mutable"):
            play()
    else:
        play()
        assert run.waiting[:2] == [0, 0]


# Any graph, any order: the same as a plain recursive evaluation.


@st.composite
def structures(draw):
    """Vertices 0.. emit data 0.. of their own and read earlier data."""
    n = draw(st.integers(1, 9))
    edges = []
    for v in range(n):
        for _ in range(draw(st.integers(0, 3)) if v else 0):
            target = draw(st.integers(0, v - 1))
            condition = draw(st.integers(-1, v - 1))
            level = draw(st.sampled_from([NEVER, NEVER, ALWAYS, WHEN_TAKEN]))
            edges.append(Edge(v, target, condition, draw(st.booleans()), level))
    names = tuple(map(str, range(n)))
    return Structure(names, names, tuple(edges), tuple((v,) for v in range(n)))


def work(vertex, values):
    """Something that depends on all inputs and is true, false and empty at times."""
    return (None, 0, 1, 2)[hash((vertex, *(-1 if value is None else value for value in values))) % 4]


class Reference:
    """Evaluates recursively, each data once."""

    def __init__(self, structure):
        self.structure, self.known, self.ran = structure, {}, set()

    def __call__(self, data):
        if data not in self.known:
            values, skipped = [], False
            for e in self.structure.depends[data]:
                edge = self.structure.edges[e]
                taken = edge.condition < 0 or bool(self(edge.condition)) == edge.expects
                values.append(self(edge.target) if taken else None)
                skipped |= values[-1] is None and (edge.essential == ALWAYS or (edge.essential == WHEN_TAKEN and taken))
            self.known[data] = None if skipped else work(data, values)
            if not skipped:
                self.ran.add(data)
        return self.known[data]


@settings(max_examples=300, deadline=None)
@given(structures(), st.randoms(use_true_random=False), st.data())
def test_any_graph_in_any_order_is_like_a_plain_evaluation(structure, random, data):
    targets = data.draw(st.sets(st.integers(0, len(structure.data) - 1), min_size=1))
    run, reference, ran = Activation(structure), Reference(structure), []
    for _ in range(2):  # and once more after a reset
        able = run.request(sorted(targets))
        ran = []
        while able:
            vertex = able.pop(random.randrange(len(able)))
            ran.append(vertex)
            run.claim(vertex, work(vertex, [run.value(e) for e in structure.depends[vertex]]), vertex)
            able += run.publish(vertex) if random.random() < 0.5 else []
            able += run.finish(vertex)
        assert [run.values[d] for d in sorted(targets)] == [reference(d) for d in sorted(targets)]
        assert len(ran) == len(set(ran)) and set(ran) == reference.ran and not run.missing
        run.reset()
        fresh = Activation(structure)
        assert all(
            getattr(run, name) == getattr(fresh, name)
            for name in (
                "waiting",
                "count",
                "active",
                "ended",
                "wanted",
                "released",
                "truth",
                "values",
                "claims",
                "firsts",
                "silent",
            )
        )


# Threads: whoever draws the last token is told, whatever the order of the steps of threads that publish at once.


def late_reader():
    """`out` reads `v` on `g`, and `v` reads `t` on `c`: `v` is activated only as `g` is published and true."""
    names = ("out", "v", "g", "c", "t")
    return Structure(names, names, (Edge(0, 1, 2), Edge(1, 4, 3)), tuple((d,) for d in range(5)))


def test_condition_and_activation_at_once_ask_for_the_target():
    orders = 0

    def acts(steps):
        run = Activation(late_reader())
        assert run.request([0, 3]) == [2, 3]  # g and c
        run.open[1] = Tokens(run.open[1], steps)
        run.active, run.released = flags(run.active, {1}, steps), flags(run.released, {3}, steps)
        for data in (2, 3):
            run.claim(data, True)
        return [lambda: run.publish(2), lambda: run.publish(3)]

    for told in in_every_order(acts):
        assert sorted(chain(*told)) == [4], told
        orders += 1
    assert orders > 100


@pytest.mark.parametrize("truth", [True, False])
def test_activation_condition_and_target_at_once_start_a_reader_once(truth):
    orders = 0

    def acts(steps):
        run = Activation(late_reader())
        assert run.request([0, 3, 4]) == [2, 3, 4]
        run.open[1], run.left[1] = Tokens(run.open[1], steps), Tokens(run.left[1], steps)
        for data, value in ((2, True), (3, truth), (4, "value")):
            run.claim(data, value)
        return [partial(run.publish, data) for data in (2, 3, 4)]

    for told in in_every_order(acts):
        assert list(chain(*told)) == [1], told
        orders += 1
    assert orders > 100
