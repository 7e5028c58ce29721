"""Arrays that are not small, to which loops write known values part by part: their elements come into this process."""

from __future__ import annotations

import gc
import random
import weakref

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor import small_parts
from jmars.tensor.buffers import SmallValues
from jmars.tensor.from_array import FromArray
from jmars.tensor.small_values import small_values

LIMIT = 50  # bytes of a small value
MADE = [
    "np.zeros((6, 5))", "np.full((6, 5), 2.5)", "np.ones((6, 5), order='F')", "np.zeros((6, 5), int)", "U + 0", "U",
    "U.copy()", "U.T", "np.full((6, 5), np.nan)", "np.zeros_like(U)",
]  # fmt: skip
LINES = [
    "{a}[{i}] = {a}[{j}]", "{a}[{i}, {j}] = {a}[{j}, {i}] * 2 + 1", "{a}[{i}] += {a}[{j}]", "{a}[{i}] = {v}",
    "{a}[{i}, {j}] -= 1", "{a}[:, {j}] = {v}", "{a}[{j}:{i}] = {v}", "{a}[[0, {i}], {j}] = {a}[{j}, {i}]",
    "t = {a}[{i}]\nt[{j}] = {v}", "{b} = {a}.T", "{b} = {a}", "{b} = {a}.copy()", "{b} = {a} + 1", "{b} = {a}[::-1]",
    "{b} = {a}[1:, :4]", "{a} *= 2", "{a}[...] = {v}", "s.append({a}.sum())", "s.append({a}[{i}, {j}])",
    "s.append({a}[{j}])", "{a}[{a} > 3] = 1", "{a}[{i}] = {b}[0, :5]", "{b} = {a}.ravel()[:25].reshape(5, 5)",
    "np.negative({a}[{i}], out={a}[{j}])", "{a}[{i}, 0] = {a}.max()", "{b} = np.zeros((6, 5))", "{a}.fill({v})",
    "for k in range(1, 4): {a}[k] = {a}[k - 1] * 0.5 + {v}", "for k in range(20): {a}[k % 4] += k",
    "for k in range(4):\n  for l in range(3): {a}[k, l] = k + l", "for row in {a}: row[0] = {v}",
    "{a}.flat[{i}] = {v}", "{a}[{i}, 99] = 3",
]  # fmt: skip


@pytest.fixture
def a_cell(engine):
    with small_values():
        SmallValues.choose(LIMIT)
        yield
        SmallValues.choose(0)


def outcome(text, numpy, user):
    """Values of all names, and the errors, after each line of a program."""
    names, errors = {"np": numpy, "U": user, "s": []}, []
    for line in text:
        try:
            exec(line, names)
        except (IndexError, ValueError, TypeError) as error:
            errors.append(type(error).__name__)
    found = [names[name] for name in "abU"] + names["s"]
    return errors, [(np.asarray(one), np.asarray(one).dtype) for one in found]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_leave_what_numpy_leaves(a_cell, monkeypatch, seed):
    monkeypatch.setattr(small_parts, "HELD_BYTES", random.Random(seed).choice([10**6, 10**6, 1]))
    draw = random.Random(seed)
    text = [f"{name} = {draw.choice(MADE)}" for name in "ab"]
    for _ in range(30):
        names = dict(
            zip("ab", draw.sample("ab", 2)), i=draw.randrange(4), j=draw.randrange(4), v=draw.choice([0, 7, 1.5])
        )
        text.append(draw.choice(LINES).format(**names))
    user = np.arange(30.0).reshape(6, 5)
    errors, theirs = outcome(text, np, user.copy())
    with np.errstate(all="ignore"):
        ours_errors, ours = outcome(text, mt, mt.asarray(user, chunk_size=draw.choice([None, 4])))
    assert ours_errors == errors, text
    for (one, kind), (other, other_kind) in zip(ours, theirs, strict=True):
        assert np.array_equal(one, other, equal_nan=True) and kind == other_kind, "\n".join(text)


LOOPS = {
    "elements": "out = np.zeros(60)\nfor t in range(1, 60): out[t] = 0.3 * U[t % 6, 0] + 0.7 * out[t - 1]",
    "rows": "out = np.full((20, 5), 2.5)\nfor t in range(1, 20): out[t] = out[t - 1] * 0.9 + 1",
    "rows in place": "out = np.ones((20, 5))\nfor t in range(1, 20): out[t] += out[t - 1] * 0.9",
    "elements of rows": "out = np.ones((20, 5))\nfor t in range(1, 20):\n  row = out[t]\n  row[2] = out[t - 1, 2] * 2",
    "a user's array": "out = U\nfor t in range(1, 6): out[t] = out[t - 1] + t",
    "a copy": "out = U.copy()\nfor t in range(1, 6): out[t] = out[t - 1] + t",
    "many writes": "out = np.zeros((20, 5))\nfor t in range(20): out[t] = t",
    "another order": "out = np.zeros((20, 5), order='F')\nfor t in range(1, 20): out[t] = out[t - 1] * 0.9 + 1",
}


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_a_loop_of_known_writes_ends_as_an_array_of_this_process(a_cell, text):
    expected, found = (
        {"np": np, "U": np.arange(30.0).reshape(6, 5)},
        {"np": mt, "U": mt.asarray(np.arange(30.0).reshape(6, 5))},
    )
    exec(text, expected)
    exec(text, found)
    out = found["out"]
    chunks = out.chunks
    assert out._place.buffer.is_held and isinstance(out.data.op, FromArray)
    assert np.array_equal(out, expected["out"]) and out.strides == expected["out"].strides and out.chunks == chunks


def test_a_node_of_held_memory_keeps_its_value(a_cell):
    out = mt.zeros((20, 5), chunk_size=4)
    for t in range(1, 20):
        out[t] = out[t - 1] + 1
    total, chunks = out.sum(), out.chunks
    out[0] = 100
    assert total == 950 and out.sum() == 1450 and chunks == ((4, 4, 4, 4, 4), (4, 1))


@pytest.mark.parametrize("name", ["HELD_BYTES", "MOST"])
def test_arrays_that_do_not_fit_stay_lazy(a_cell, monkeypatch, name):
    monkeypatch.setattr(small_parts, name, 100)
    out = mt.zeros((20, 5))
    for t in range(1, 20):
        out[t] = out[t - 1] + 1
    assert not out._place.buffer.is_held and out[19, 0] == 19


def test_an_array_with_written_borders_stays_one_of_constants(a_cell):
    out = mt.zeros((20, 5))
    out[0], out[-1], out[:, 0], out[:, -1] = 1, 2, 3, 4
    inner = out[1:-1].sum()
    assert not out._place.buffer.is_held and inner == 126


def test_an_array_with_noted_writes_goes_with_its_last_name(a_cell):
    out = mt.zeros((20, 5))
    out[0] = 1
    out[2:][1] = 2
    gone = weakref.ref(out.data)
    gc.disable()
    try:
        del out
        assert gone() is None
    finally:
        gc.enable()
