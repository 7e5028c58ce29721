"""Random tensors: small ones and doubles are NumPy's own; larger ones depend on seed and call, and not on chunks."""

from __future__ import annotations

import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.engine import set_engine
from jmars.tensor.ops.numpy_random import RandomState
from jmars.tensor.ops.random_generator import Generator
from jmars.tensor.ops.random_streams import DISTRIBUTIONS, VECTORS, sample
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import same, shapes, splits
from tests.tensor.draws import ARGUMENTS, DRAWS, OLDER
from tests.tensor.engine import OneByOne, tiled


@given(st.data())
def test_doubles_are_numpys_whatever_the_chunks(data):
    seed = data.draw(st.integers(0, 2**70) | st.lists(st.integers(0, 2**33), min_size=1, max_size=3))
    ours, theirs = mt.random.default_rng(seed), np.random.default_rng(seed)
    for _ in range(2):
        shape = data.draw(shapes(0, 3))
        chunks = tuple(data.draw(splits(n)) for n in shape)
        same(ours.random(shape, chunks=chunks), theirs.random(shape))
        same(ours.uniform(-2.5, 7, shape, chunks=chunks), theirs.uniform(-2.5, 7, shape))


def test_doubles_are_numpys_within_a_fused_chain():
    ours, theirs = mt.random.default_rng(1), np.random.default_rng(1)
    same((ours.random((300, 200), chunk_size=(170, 90)) + 1) * 2, (theirs.random((300, 200)) + 1) * 2)
    same(ours.random(100_000, chunk_size=30_000).max(), theirs.random(100_000).max())


@given(st.data())
def test_what_is_small_is_numpys_own_call_by_call(data):
    """Any draws, one after the other, in any order."""
    seed = data.draw(st.integers(0, 2**70))
    ours, theirs = mt.random.default_rng(seed), np.random.default_rng(seed)
    for name in data.draw(st.lists(st.sampled_from(sorted(DRAWS)), min_size=1, max_size=5)):
        size = data.draw(st.none() | shapes(0, 3))
        value = DRAWS[name](theirs, size)
        chunks = tuple(data.draw(splits(n)) for n in np.shape(value))
        same(DRAWS[name](ours, size, chunks=chunks), value)


@given(st.data())
def test_what_is_small_is_numpys_own_of_an_older_generator(data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    ours, theirs = RandomState(seed), np.random.RandomState(seed)
    for name in data.draw(st.lists(st.sampled_from(sorted(OLDER)), min_size=1, max_size=5)):
        size = data.draw(shapes(0, 3))
        value = OLDER[name](theirs, size)
        same(OLDER[name](ours, size, chunks=tuple(data.draw(splits(n)) for n in np.shape(value))), value)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_any_bit_generator_of_numpys(kind):
    ours, theirs = (rng(getattr(np.random, kind)(5)) for rng in (Generator, np.random.Generator))
    for _ in range(2):
        same(ours.random((30, 20), chunk_size=7), theirs.random((30, 20)))
        same(ours.integers(0, 9, 5, "u1"), theirs.integers(0, 9, 5, "u1"))
        same(ours.normal(size=50, chunk_size=20), theirs.normal(size=50))
    assert ours.bit_generator.state["bit_generator"] == kind
    large = Generator(getattr(np.random, kind)(5)).random((400, 400), chunk_size=150).fetch()
    same(Generator(getattr(np.random, kind)(5)).random((400, 400), chunk_size=(400, 33)), large)


LARGE = (450, 300)  # little more than `CELL_ELEMENTS`
CUTS = [(450, 300), (170, 90), (33, 300)]


@pytest.mark.parametrize(
    ("make", "name"),
    [*[(mt.random.default_rng, name) for name in sorted(DRAWS)], *[(RandomState, name) for name in sorted(OLDER)]],
)
def test_chunks_and_blocks_change_no_value(make, name):
    """Three ways to cut, and fused with what reads it, which is done block by block."""

    def draw(cut):
        draws = OLDER if make is RandomState else DRAWS
        return draws[name](make(5), LARGE, chunks=(*cut, -1)[: 3 if name in VECTORS else 2])

    value = draw(CUTS[0]).fetch()
    for cut in CUTS[1:]:
        same(draw(cut), value)
        fused = draw(cut)
        same(fused + np.zeros((), value.dtype), value)
    assert value.size < 2 or not np.array_equal(value[:32], value[32:64])  # each cell has its own stream
    other = DRAWS[name](mt.random.default_rng(6), LARGE) if make is not RandomState else OLDER[name](make(6), LARGE)
    assert not np.array_equal(other.fetch(), value)


@given(st.data())
def test_parts_of_cells_are_parts_of_the_array(data):
    """Odd shapes and odd chunks, one to four axes."""
    shape = data.draw(
        st.sampled_from([(140_000,), (9, 15_000), (15_000, 9), (30, 70, 80), (5, 40, 30, 30), (1, 140_000)])
    )
    whole = Generator(3).standard_normal(shape, chunks=-1 if len(shape) == 1 else (-1,) * len(shape))
    chunks = tuple(data.draw(splits(n)) for n in shape)
    np.testing.assert_array_equal(Generator(3).standard_normal(shape, chunks=chunks).fetch(), whole.fetch())


@pytest.mark.parametrize("name", [*DISTRIBUTIONS, "standard_normal", "random"])
def test_large_draws_have_numpys_distribution(name):
    """Kolmogorov and Smirnov's distance between a draw of ours, of many cells, and one of NumPy's; seeds are fixed."""
    args = ARGUMENTS.get(name, ())
    ours = getattr(mt.random.default_rng(3), name)(*args, size=200_000, chunk_size=60_000).fetch()
    theirs = getattr(np.random.default_rng(4), name)(*args, size=200_000)
    assert ours.dtype == theirs.dtype
    points = np.unique(np.concatenate([ours, theirs]))
    far = [np.searchsorted(np.sort(x), points, "right") / x.size for x in (ours, theirs)]
    assert np.abs(far[0] - far[1]).max() < 1.95 / np.sqrt(100_000)  # larger by chance once in a thousand


@pytest.mark.parametrize(
    ("shape", "chunk"),
    [
        ((3000, 3000), (1000, 1000)),
        ((200, 40_000), (100, 40_000)),
        ((400_000,), (300_000,)),
        ((90, 80, 70), (90, 80, 70)),
        ((350, 350), (350, 100)),
    ],
)
def test_what_a_draw_holds_between_blocks_is_told(shape, chunk):
    """The scratch of its program, which the memory of an operand is granted by, is enough where it is fused."""
    graph = tiled(TensorGraph.of([Generator(0).standard_normal(shape, chunk_size=chunk).data]))
    step = graph.programs[graph.program[0]].steps[0]
    out = np.empty(step.output.size)
    tracemalloc.start()
    try:
        fill = step.open(step.params, graph.args[0][0], step.output)
        for start in range(0, out.size, 16_384):
            fill(out[start : start + 16_384], start)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert step.work < peak * 4
    assert peak < step.work + 300_000  # opening the stream


def test_cells_have_nothing_to_do_with_one_another():
    x = Generator(0).standard_normal(4096 * 256, chunk_size=300_000).fetch().reshape(256, 4096)
    correlation = np.corrcoef(x)[np.triu_indices(256, 1)]
    assert np.abs(correlation).max() < 5.5 / np.sqrt(4096)  # of 32,640 pairs
    assert abs(correlation.std() * np.sqrt(4096) - 1) < 0.05


def test_each_call_draws_anew_and_a_seed_begins_anew():
    mt.random.seed(7)
    first, second = mt.random.randn(10).fetch(), mt.random.randn(10).fetch()
    assert not np.array_equal(first, second)
    mt.random.seed(7)
    same(mt.random.randn(10), first)
    same(mt.random.randn(10), second)
    mt.random.seed()
    assert not np.array_equal(mt.random.randn(10).fetch(), first)


def test_a_tensor_keeps_its_values():
    x = mt.random.rand(100)
    assert np.array_equal((x + 0).fetch(), x.fetch())
    assert float((x - x).sum()) == 0


def test_older_names():
    rng = RandomState(3)
    assert rng.rand(3, 4).shape == (3, 4) and rng.randn(5).shape == (5,) and rng.rand().shape == ()
    assert set(rng.randint(3, size=100).fetch().tolist()) == {0, 1, 2}
    assert rng.random_sample((2, 2)).dtype == np.float64
    same(RandomState(3).rand(6, 5, chunk_size=4), np.random.RandomState(3).rand(6, 5))
    assert set(rng.random_integers(2, size=50).fetch().tolist()) == {1, 2}
    assert rng.tomaxint().dtype == np.int64
    state = rng.get_state()
    first = rng.normal(size=3).fetch()
    rng.set_state(state)
    same(rng.normal(size=3), first)


def test_the_modules_functions_go_on_where_numpys_are():
    before = np.random.get_state()
    try:
        np.random.seed(42)
        theirs = [np.random.rand(3), np.random.randn(2, 2), np.random.randint(0, 9, 4), np.random.permutation(5)]
        mt.random.seed(42)
        same(mt.random.rand(3), theirs[0])
        same(mt.random.randn(2, 2), theirs[1])
        assert np.array_equal(np.random.randint(0, 9, 4), theirs[2])
        same(mt.random.permutation(5), theirs[3])
    finally:
        np.random.set_state(before)


def test_bounds_and_dtypes_of_integers():
    rng = Generator(0)
    assert set(rng.integers(2, 4, 50, endpoint=True).fetch().tolist()) == {2, 3, 4}
    assert rng.integers(0, 2, 10, bool).dtype == bool
    assert rng.integers(0, 2**64, 5, np.uint64, endpoint=False).dtype == np.uint64
    for args in [(5, 5), (0, 300, 3, "u1"), (2**70,)]:
        with pytest.raises(ValueError):
            np.random.default_rng(0).integers(*args)
        with pytest.raises(ValueError):
            rng.integers(*args)


def test_large_normal_vectors():
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    value = Generator(1).multivariate_normal([1.0, -2.0], cov, 100_000, chunk_size=30_000).fetch()
    assert np.allclose(value.mean(0), [1, -2], atol=0.02) and np.allclose(np.cov(value.T), cov, atol=0.03)


def test_location_and_scale_may_be_tensors():
    rng = Generator(0)
    drawn = rng.normal(mt.asarray([0.0, 1000.0]), [1.0, 2.0], (5000, 2)).fetch()
    assert np.allclose(drawn.mean(0), [0, 1000], atol=0.2) and np.allclose(drawn.std(0), [1, 2], atol=0.1)
    assert rng.uniform(mt.zeros(3), 1).shape == (3,)
    assert rng.exponential(mt.ones(4)).shape == (4,)


GIVEN = {
    "poisson": [[1.0, 5.0, 30.0]], "gamma": [[[1.0], [2.0]], [1.0, 2.0, 3.0]], "binomial": [[10, 20, 30], 0.5],
    "integers": [0, [5, 50, 500]], "normal": [[0.0, 10.0, 20.0], 2.0], "uniform": [[0.0, 1.0, 2.0], [4.0, 4.0, 5.0]],
    "exponential": [[1.0, 2.0, 3.0]], "lognormal": [[0.0, 1.0, 2.0], 0.5], "hypergeometric": [[5, 6, 7], 8, 9],
    "beta": [[1.0, 2.0, 3.0], 2.0], "zipf": [[2.0, 3.0, 4.0]], "triangular": [0.0, [0.5, 0.6, 0.7], 1.0],
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_parameters_may_be_arrays(name):
    """Small draws are NumPy's; large ones depend on no chunk, and each element has its own parameters."""
    plain = [np.asarray(one) if isinstance(one, list) else one for one in GIVEN[name]]
    ours, theirs = Generator(2), np.random.default_rng(2)
    for size in [(2, 3), (5, 2, 3)] if name == "gamma" else [None, (4, 3)]:
        same(getattr(ours, name)(*plain, size=size), getattr(theirs, name)(*plain, size=size))
    tensors = [mt.asarray(one, chunk_size=2) if isinstance(one, np.ndarray) else one for one in plain]
    shape = (100, 800, 2, 3) if name == "gamma" else (100_000, 3)
    drawn = [
        getattr(Generator(9), name)(*given, size=shape, chunk_size=cut)
        for given, cut in [(tensors, 30_000), (tensors, 7_777), (plain, 50_000)]
    ]
    value = drawn[0].fetch()
    assert value.dtype == drawn[0].dtype == getattr(theirs, name)(*plain, size=shape).dtype
    same(drawn[1], value)
    same(drawn[2], value)
    expected = getattr(theirs, name)(*plain, size=shape)
    for k in range(3):
        a, b = np.sort(value[..., k], None), np.sort(expected[..., k], None)
        points = np.unique(np.concatenate([a, b]))
        far = np.abs(np.searchsorted(a, points, "right") / a.size - np.searchsorted(b, points, "right") / b.size)
        assert far.max() < 1.95 / np.sqrt(a.size / 2)
    with pytest.raises(ValueError):
        getattr(Generator(9), name)(*tensors, size=(7, 2))


def test_wrong_parameters_among_arrays_are_told():
    with pytest.raises(ValueError, match="lam"):
        Generator(0).poisson([1.0, -1.0])
    with pytest.raises(ValueError, match="not compatible"):
        Generator(0).poisson([1.0, 1.0], size=3)


def test_what_is_missing_or_wrong_says_so():
    with pytest.raises(AttributeError, match=r"np\.random\.test is not in jmars.*where numpy is NumPy$"):
        mt.random.test
    with pytest.raises(UnsupportedError, match="no draw named 'spawn'"):
        sample(np.random.default_rng(0), "spawn", (), (1,), np.dtype("f8"))
    with pytest.raises(ValueError, match="scale < 0"):
        mt.random.normal(0, -1, 3)
    with pytest.raises(TypeError):
        mt.random.gamma()
    with pytest.raises(TypeError):
        mt.random.normal(0, 1, 3, 4)


def test_every_name_of_numpys_is_there():
    names = [
        name
        for name in dir(np.random)
        if not name.startswith("_") and name not in ("mtrand", "bit_generator", "test", "tests")
    ]
    assert not [name for name in names if not hasattr(mt.random, name)]
    for ours, theirs in ((Generator(0), np.random.Generator), (RandomState(0), np.random.RandomState)):
        assert not [name for name in dir(theirs) if not name.startswith("_") and not hasattr(ours, name)]


def test_seeds_of_all_kinds():
    sequence = np.random.SeedSequence(4).spawn(2)[1]
    same(Generator(sequence).random(5), np.random.default_rng(sequence).random(5))
    theirs = np.random.default_rng(1)
    same(Generator(theirs).random(5), np.random.default_rng(1).random(5))
    same(mt.asarray(theirs.random(5)), np.random.default_rng(1).random(10)[5:])  # it has moved on
    assert mt.random.default_rng().random() != mt.random.default_rng().random()
    ours = mt.random.default_rng(3)
    assert mt.random.default_rng(ours) is ours
    with pytest.raises(ValueError):
        Generator(-1)


@pytest.mark.parametrize("make", [Generator, RandomState])
def test_threads_that_share_a_generator_draw_different_numbers(make):
    rng = make(7)
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda k: rng.normal(size=7) if k % 2 else rng.uniform(size=3), range(80)))
    assert len({float(x.fetch()[0]) for x in drawn}) == 80


def test_a_generator_travels_and_goes_on():
    rng = Generator(7)
    rng.normal(size=5)
    copied = pickle.loads(pickle.dumps(rng))
    same(copied.normal(size=5), np.random.default_rng(7).normal(size=10)[5:])
    same(rng.normal(size=5), np.random.default_rng(7).normal(size=10)[5:])


def test_it_moves_on_after_a_large_draw_too():
    rng = Generator(7)
    first, second = (rng.standard_normal(150_000).fetch() for _ in range(2))
    assert not np.array_equal(first, second)
    theirs = np.random.default_rng(7)
    same(Generator(7).integers(0, 9, 3, "u1"), theirs.integers(0, 9, 3, "u1"))
    ours, theirs = Generator(7), np.random.default_rng(7)
    ours.random((1000, 1000)), theirs.random((1000, 1000))
    same(ours.normal(size=3), theirs.normal(size=3))


def test_out():
    x, y = mt.zeros(5), np.zeros(5)
    Generator(1).standard_normal(out=x)
    np.random.default_rng(1).standard_normal(out=y)
    same(x, y)
    with pytest.raises(ValueError):
        Generator(1).random(4, out=x)


def test_spawned_generators_differ():
    a, b = Generator(0).spawn(2)
    theirs = np.random.default_rng(0).spawn(2)
    same(Generator(0).spawn(2)[1].random(3), theirs[1].random(3))
    assert not np.array_equal(a.random(5).fetch(), b.random(5).fetch())
    same(Generator(0).spawn(1)[0].random(5), Generator(0).spawn(2)[0].random(5).fetch())


def test_equal_draws_are_one(engine: OneByOne):
    a, b = Generator(0).standard_normal(5), Generator(0).standard_normal(5)
    assert a.data.op.token() == b.data.op.token()
    assert a.data.op.token() != Generator(1).standard_normal(5).data.op.token()


@pytest.mark.parametrize("make", [mt.random.default_rng, mt.random.RandomState])
def test_a_tensor_seeds_by_its_value(make, cluster):
    seed = mt.random.default_rng(3).integers(10)
    theirs = getattr(np.random, make.__name__)(np.random.default_rng(3).integers(10))
    assert np.array_equal(make(seed).uniform(size=5).fetch(), theirs.uniform(size=5))


def test_probabilities_of_a_long_tensor_give_numpys_choices():
    set_engine(OneByOne(limit=3200))
    chances = np.random.default_rng(0).integers(0, 9, 1000) / 1.0
    chances /= chances.sum()
    p, options = mt.tensor(chances, chunk_size=40), np.arange(1000) * 2.0
    theirs = np.random.default_rng(3).choice(options, 500, p=chances)
    same(mt.random.default_rng(3).choice(mt.tensor(options, chunk_size=60), 500, p=p), theirs)
    same(mt.random.default_rng(3).choice(1000, p=p), np.random.default_rng(3).choice(1000, p=chances))
    for wrong, message in ((p * 2, "do not sum to 1"), (mt.where(p > 0, p, -1), "not non-neg"), (p * np.nan, "NaN")):
        with pytest.raises(ValueError, match=message):
            mt.random.default_rng(3).choice(1000, 5, p=wrong)


@pytest.mark.parametrize("draw", ["random", "standard_normal", "standard_exponential"])
def test_numpys_own_generator_refuses_a_tensor_as_out(draw):
    assert Tensor.__weakrefoffset__ == 64  # where NumPy reads flags, without a look at the class
    for _ in range(300):
        with pytest.raises(ValueError, match="Supplied output array"):
            getattr(np.random.default_rng(0), draw)(out=mt.zeros(3))
