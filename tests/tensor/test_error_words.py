"""Errors of shapes say what NumPy says."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt

WRONG = {
    "ufunc": lambda a: a[:3] + a[:4],
    "matrix and row": lambda a: a.reshape(2, 3) * a[:2],
    "reshape": lambda a: a.reshape(4, 2),
    "reshape to one axis": lambda a: a.reshape(5),
    "reshape with an unknown length": lambda a: a.reshape((4, -1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_words_are_numpys(name):
    with pytest.raises(ValueError) as theirs:
        WRONG[name](np.arange(6))
    with pytest.raises(ValueError) as ours:
        WRONG[name](mt.arange(6))
    assert str(ours.value) == str(theirs.value)
