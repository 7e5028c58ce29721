"""Random tensors: NumPy's own doubles, and draws that only seed, call and chunks decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.ops.distributions import DISTRIBUTIONS
from jmars.tensor.ops.random import Generator, RandomState
from tests.tensor.cut import same, shapes, splits
from tests.tensor.engine import OneByOne

ARGUMENTS = {
    "beta": (2.0, 3.0), "binomial": (10, 0.3), "chisquare": (3.0,), "f": (3.0, 4.0), "gamma": (2.0,),
    "geometric": (0.2,), "hypergeometric": (9, 8, 7), "logseries": (0.5,), "negative_binomial": (5, 0.5),
    "noncentral_chisquare": (3.0, 1.0), "noncentral_f": (3.0, 4.0, 1.0), "pareto": (3.0,), "power": (3.0,),
    "standard_gamma": (2.0,), "standard_t": (4.0,), "triangular": (0.0, 1.0, 3.0), "vonmises": (0.0, 1.0),
    "wald": (1.0, 2.0), "weibull": (2.0,), "zipf": (3.0,),
}  # fmt: skip


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


@pytest.mark.parametrize("name", ["random", "standard_normal", "integers", "integers8", "float32", *DISTRIBUTIONS])
def test_a_draw_does_not_depend_on_how_it_is_run(name):
    def draw() -> mt.Tensor:
        rng = mt.random.default_rng(5)
        match name:
            case "integers":
                return rng.integers(-5, 2**40, (300, 200), chunk_size=(170, 90))
            case "integers8":
                return rng.integers(0, 100, (300, 200), "u1", chunk_size=(170, 90))
            case "float32":
                return rng.random((300, 200), "f4", chunk_size=(170, 90))
            case "random" | "standard_normal":
                return getattr(rng, name)((300, 200), chunk_size=(170, 90))
        return getattr(rng, name)(*ARGUMENTS.get(name, ()), size=(300, 200), chunk_size=(170, 90))

    value = draw().fetch()
    assert value.dtype == draw().dtype
    same(draw() + np.zeros((), value.dtype), value)
    assert len(np.unique(value[:170, :90])) > 1
    assert not np.array_equal(value[:130, :90], value[170:, :90])  # each chunk has its own stream


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_are_numpys(name):
    args = ARGUMENTS.get(name, ())
    ours = getattr(mt.random.default_rng(3), name)(*args, size=20_000, chunk_size=5_000).fetch()
    theirs = getattr(np.random.default_rng(4), name)(*args, size=20_000)
    assert ours.dtype == theirs.dtype
    grid = np.quantile(theirs, [0.1, 0.3, 0.5, 0.7, 0.9])
    for point in grid:
        assert abs((ours <= point).mean() - (theirs <= point).mean()) < 0.02


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
    same(RandomState(3).rand(6, 5, chunk_size=4), np.random.default_rng(3).random((6, 5)))


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


def test_choice():
    rng = Generator(0)
    picked = rng.choice([1.5, 2.5, 4.0], 10_000, p=[0.2, 0.3, 0.5], chunk_size=3_000).fetch()
    assert np.allclose([(picked == v).mean() for v in (1.5, 2.5, 4.0)], [0.2, 0.3, 0.5], atol=0.02)
    assert sorted(rng.choice(5, 5, replace=False).fetch().tolist()) == [0, 1, 2, 3, 4]
    assert set(rng.choice(mt.arange(3), 100).fetch().tolist()) == {0, 1, 2}
    with pytest.raises(ValueError, match="do not sum to 1"):
        rng.choice(2, 3, p=[0.5, 0.6])


def test_permutations():
    rng = Generator(0)
    order = rng.permutation(100, chunk_size=30).fetch()
    assert sorted(order.tolist()) == list(range(100)) and order.tolist() != list(range(100))
    x = mt.arange(12, chunk_size=5).reshape(6, 2)
    assert sorted(map(tuple, rng.permutation(x).fetch().tolist())) == [(i, i + 1) for i in range(0, 12, 2)]
    y = mt.arange(20, chunk_size=6)
    rng.shuffle(y)
    assert y.chunks == ((6, 6, 6, 2),) and sorted(y.fetch().tolist()) == list(range(20))
    same(Generator(4).permutation(9), Generator(4).permutation(9).fetch())


def test_location_and_scale_may_be_tensors():
    rng = Generator(0)
    drawn = rng.normal(mt.asarray([0.0, 1000.0]), [1.0, 2.0], (5000, 2)).fetch()
    assert np.allclose(drawn.mean(0), [0, 1000], atol=0.2) and np.allclose(drawn.std(0), [1, 2], atol=0.1)
    assert rng.uniform(mt.zeros(3), 1).shape == (3,)
    assert rng.exponential(mt.ones(4)).shape == (4,)
    with pytest.raises(UnsupportedError, match="parameters that are arrays"):
        rng.poisson(mt.ones(3))


def test_what_is_missing_or_wrong_says_so():
    with pytest.raises(AttributeError, match=r"np\.random\.multinomial is not in jmars.*where numpy is NumPy$"):
        mt.random.multinomial
    with pytest.raises(UnsupportedError, match=r"random\.dirichlet"):
        Generator(0).dirichlet
    with pytest.raises(ValueError, match="scale < 0"):
        mt.random.normal(0, -1, 3)
    with pytest.raises(UnsupportedError, match="give an int"):
        mt.random.default_rng(np.random.default_rng(0))
    with pytest.raises(TypeError):
        mt.random.gamma()
    with pytest.raises(TypeError):
        mt.random.normal(0, 1, 3, 4)


def test_spawned_generators_differ():
    a, b = Generator(0).spawn(2)
    assert not np.array_equal(a.random(5).fetch(), b.random(5).fetch())
    same(Generator(0).spawn(1)[0].random(5), Generator(0).spawn(2)[0].random(5).fetch())


def test_equal_draws_are_one(engine: OneByOne):
    a, b = Generator(0).standard_normal(5), Generator(0).standard_normal(5)
    assert a.data.op.token() == b.data.op.token()
    assert a.data.op.token() != Generator(1).standard_normal(5).data.op.token()
