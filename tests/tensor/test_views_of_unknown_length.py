"""Views of arrays of unknown length share memory, though their functions are deferred until the length is known."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt

VIEWS = {
    "T": lambda m, x: x.T,
    "reshape": lambda m, x: x.reshape(-1, 1),
    "ravel": lambda m, x: m.ravel(x),
    "squeeze": lambda m, x: m.squeeze(x),
    "flip": lambda m, x: m.flip(x),
    "asarray": lambda m, x: m.asarray(x),
    "view": lambda m, x: x.view("i8"),
    "atleast_3d": lambda m, x: m.atleast_3d(x),
    "rot90": lambda m, x: m.rot90(x),
    "of a view": lambda m, x: x.T.T.reshape(3, 3).T,
    "split": lambda m, x: m.split(x, [1])[1],
    "flatten": lambda m, x: x.flatten(),
    "sort": lambda m, x: m.sort(x),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_writes_reach_array_and_view(view):
    rows = np.arange(12.0).reshape(4, 3)
    expected, x = rows[rows[:, 0] > 2], mt.array(rows, chunk_size=2)
    x = x[x[:, 0] > 2]
    seen, part = view(np, expected), view(mt, x)
    seen[...], part[...] = 9, 9
    expected[0], x[0] = 5, 5
    assert np.array_equal(x.fetch(), expected) and np.array_equal(part.fetch(), seen)
    assert part.flags.owndata == seen.flags.owndata
