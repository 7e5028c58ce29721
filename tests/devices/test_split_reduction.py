"""A reduction in two stages gives the value of one, for all shapes and axes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.devices import split_reduction as module
from jmars.devices.split_reduction import Reduction, split_reduction


@st.composite
def reductions(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)))
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    return shape, tuple(sorted(axes))


@given(reductions(), st.integers(1, 40), st.integers(1, 9))
def test_values(case: tuple[tuple[int, ...], tuple[int, ...]], parts: int, least: int) -> None:
    shape, axes = case
    x = np.arange(np.prod(shape)).reshape(shape) % 97
    y = x[::-1] * 3
    expected = (x + y).sum(axis=axes, keepdims=True)
    out = np.full(expected.shape, -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PARTS", parts)
        patch.setattr(module, "LEAST", least)
        found = split_reduction(Reduction(out, [x, np.ascontiguousarray(y)], axes), np.empty)
    if found is None:
        return
    first, last = found
    for one in first:
        assert one.out.base is not None, "a view of the results"
        one.out[...] = sum(one.inputs).sum(axis=one.axes, keepdims=True)
    (results,) = last.inputs
    assert results.shape[last.axes[0]] > 1
    last.out[...] = results.sum(axis=last.axes, keepdims=True)
    assert np.array_equal(out, expected)


def test_large_outputs_are_not_divided() -> None:
    x = np.empty((1000, 5000), "i1")
    assert split_reduction(Reduction(np.empty((1, 5000), "i1"), [x], (0,)), np.empty) is None
    assert split_reduction(Reduction(np.empty((1000, 1), "i1"), [x], (1,)), np.empty) is not None
