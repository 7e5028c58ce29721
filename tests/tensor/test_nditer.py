"""`np.nditer` and `np.broadcast` of tensors give what NumPy's give of arrays, and write as they do."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config
from jmars.errors import UnsupportedError
from jmars.tensor.ops import nditer as nditer_module
from jmars.tensor.small_values import small_values


def test_elements_are_those_of_numpy():
    x, a = mt.arange(6, chunk_size=4).reshape(2, 3), np.arange(6).reshape(2, 3)
    assert [int(v) for v in mt.nditer(x)] == [int(v) for v in np.nditer(a)]
    assert [(int(u), int(v)) for u, v in mt.nditer([x, [1, 2, 3]])] == [
        (int(u), int(v)) for u, v in np.nditer([a, [1, 2, 3]])
    ]
    walk, theirs = (np_.nditer(x_, flags=["multi_index"]) for np_, x_ in ((mt, x), (np, a)))
    assert [(walk.multi_index, int(v)) for v in walk] == [(theirs.multi_index, int(v)) for v in theirs]
    assert mt.nditer(x).itersize == 6 and len(mt.nditer([x, x])) == 2
    assert isinstance(np.nditer(a), mt.nditer)


def test_without_a_tensor_it_is_numpys():
    assert type(mt.nditer([1, 2])) is np.nditer and type(mt.broadcast([1], [2])) is np.broadcast


def _doubled_in_for(np_, x):
    for v in np_.nditer(x, op_flags=["readwrite"]):
        v[...] = 2 * v


def _doubled_in_with(np_, x):
    with np_.nditer(x, op_flags=[["readwrite"]]) as walk:
        for v in walk:
            v[...] = 2 * v


def _doubled_by_iternext(np_, x):
    walk = np_.nditer(x, flags=["c_index"], op_flags=["readwrite"])
    while not walk.finished:
        walk[0] = walk[0] * walk.index
        walk.iternext()


def _until_a_break(np_, x):
    for v in np_.nditer(x, op_flags=["readwrite"]):
        v[...] = -1
        if v == -1:
            break


def _into_another(np_, x):
    with np_.nditer([x, x[::-1].copy()], [], [["writeonly"], ["readonly"]]) as walk:
        for u, v in walk:
            u[...] = v


@pytest.mark.parametrize(
    "write", [_doubled_in_for, _doubled_in_with, _doubled_by_iternext, _until_a_break, _into_another]
)
def test_writes_reach_the_tensor_and_its_views(write):
    x, a = mt.arange(6.0, chunk_size=4), np.arange(6.0)
    view, of_a = x[1:], a[1:]
    write(mt, x)
    write(np, a)
    assert x.fetch().tolist() == a.tolist() and view.fetch().tolist() == of_a.tolist()


@pytest.mark.parametrize("flags", ["readwrite", "readonly"])
def test_an_element_stays_valid_after_the_loop(flags):
    x = mt.arange(30_000.0)
    with mt.nditer(x, op_flags=[flags]) as loop:
        for element in loop:
            v = element
    del loop, element
    others = [np.full(30_000, 7.5) for _ in range(3)]  # take the memory of a value that is gone
    assert v == 29_999 and len(others) == 3


def test_elements_of_several_loops_and_views_stay_valid():
    x = mt.arange(60_000.0)
    halves, found = [x[:30_000], x[30_000:]], []
    for operands in (halves, halves, x):
        with mt.nditer(operands) as loop:
            *_, last = loop
        found += last if operands is halves else [last]
    del loop, last
    others = [np.full(n, 7.5) for n in (30_000, 60_000) for _ in range(5)]
    assert found == [29_999, 59_999, 29_999, 59_999, 59_999] and others
    del found, _
    with mt.nditer(x) as loop:
        last = next(loop)
    assert len(nditer_module._read_later[x._place.buffer]) == 1 and last == 0  # of the others no element is left


def test_a_readonly_tensor_is_not_written():
    x = mt.arange(3)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        mt.nditer(x, op_flags=["readwrite"])


def test_operands_are_the_tensors_and_numpys_new_arrays():
    x = mt.arange(3)
    with mt.nditer([x, None]) as walk:
        for u, v in walk:
            v[...] = u * u
        assert walk.operands[0] is x and walk.operands[1].tolist() == [0, 1, 4]


def test_a_write_beside_a_view_of_the_same_memory_is_refused():
    x = mt.arange(6)
    with pytest.raises(UnsupportedError, match="shares memory with another operand"):
        mt.nditer([x[1:], x[:-1]], [], [["readonly"], ["writeonly"]])


def test_broadcast_knows_its_shape_at_once(engine):
    x = mt.ones((3, 1), chunk_size=2)
    both, theirs = mt.broadcast(x, mt.arange(4)), np.broadcast(np.ones((3, 1)), np.arange(4))
    assert (both.shape, both.size, both.ndim, both.nd, both.numiter) == ((3, 4), 12, 2, 2, 2)
    assert engine.chunks == {}
    assert [tuple(map(float, pair)) for pair in both] == [tuple(map(float, pair)) for pair in theirs]
    assert both.index == theirs.index == 12
    both.reset()
    assert next(both) == (1, 0) and isinstance(both, mt.broadcast)
    with pytest.raises(ValueError, match="mismatch"):
        mt.broadcast(mt.ones(3), mt.ones(4))


def test_a_large_tensor_is_told():
    with config.using(array_warning=100), pytest.warns(UserWarning, match="takes a tensor"):
        next(mt.nditer(mt.ones(100)))


@pytest.mark.parametrize("factor", [1, 2])
def test_the_end_of_a_loop_takes_back_no_other_write(factor):
    x, expected = mt.array(np.arange(1.0, 4.0)), np.arange(1.0, 4.0)
    for array, module in ((x, mt), (expected, np)):
        loop = module.nditer(array, op_flags=["readwrite"])
        for value in loop:
            value[...] = factor * value
        array[0] = 100
        del loop
    assert x.fetch().tolist() == expected.tolist() == [100, 2 * factor, 3 * factor]


def _walked(np_, x, order):
    return [int(v) for v in np_.nditer(x, ["zerosize_ok"], order=order)]


TURNED = """
x.T | x[::-1] | x[:, ::-1] | x.T[::-1] | x[:, 1:] | x.T.copy() | x.T + 0 | x.T.astype('f4') | x.swapaxes(0, 1)[1:]
np.asfortranarray(x) | np.broadcast_to(x[0], (2, 3)) | np.broadcast_to(x[:, :1], (2, 3)) | x[:0] | x[None].T
"""


@pytest.mark.parametrize("text", [one.strip() for line in TURNED.strip().splitlines() for one in line.split(" | ")])
@pytest.mark.parametrize("order", ["K", "C", "F"])
def test_elements_come_in_the_order_of_memory(text, order):
    a = np.arange(6).reshape(2, 3)
    ours, theirs = (eval(text, {"np": np_, "x": x}) for np_, x in ((mt, mt.asarray(a, chunk_size=2)), (np, a)))
    assert _walked(mt, ours, order) == _walked(np, theirs, order)


LOOPS = """
for v in np.nditer(x, op_flags=['readwrite']): v[...] = v + x[0]
for v in np.nditer(x, op_flags=['readwrite']): v[...] = v + x.sum()
for v in np.nditer(x[::-1], op_flags=['readwrite']): v[...] = v + x[0]
for v in np.nditer(x.reshape(2, 2).T, op_flags=['readwrite']): v[...] = v + x[2]
for v in np.nditer(x, op_flags=['readwrite']): v[...] = v + y[1]
for v, w in np.nditer([y, y * 2], op_flags=[['readwrite'], ['readonly']]): v[...] = w + x[-1]
for v in np.nditer(y, op_flags=['readwrite']): v[...] = np.where(x[-1] > 4, v, x.max())
for v in np.nditer(x, op_flags=['readwrite']): x[3] = 9; v[...] = v + 1
for v in np.nditer(x, op_flags=['readwrite']): y += 1; v[...] = 2 * v
""".strip().splitlines()


@pytest.mark.parametrize("text", LOOPS)
@pytest.mark.parametrize("is_small", [False, True])
def test_code_in_the_loop_reads_what_the_loop_has_written(text, is_small):
    a = np.arange(4.0) + 1
    spaces = [{"np": np_, "x": x, "y": x[1:]} for np_, x in ((mt, mt.asarray(a.copy(), chunk_size=3)), (np, a))]
    with small_values() if is_small else nullcontext():
        exec(text, spaces[0])
    exec(text, spaces[1])
    np.testing.assert_array_equal(spaces[0]["x"], spaces[1]["x"])
    assert spaces[0]["x"]._place.buffer.writer is None


@pytest.mark.parametrize("is_small", [False, True])
def test_a_loop_in_a_loop_over_the_same_array(is_small):
    x, a = mt.asarray(np.arange(4.0), chunk_size=3), np.arange(4.0)
    for np_, one in ((mt, x), (np, a)):
        with small_values() if is_small else nullcontext():
            for v in np_.nditer(one, op_flags=["readwrite"]):
                for w in np_.nditer(one, op_flags=["readwrite"]):
                    w[...] = w + 1
                v[...] = v + 10
    np.testing.assert_array_equal(x, a)
    assert x._place.buffer.writer is None and x._place.buffer.reader is None
