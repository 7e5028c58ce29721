"""Elements of the widest floats keep all digits."""

from __future__ import annotations

import numpy as np

import jmars.tensor as mt
from tests.tensor.engine import OneByOne


def test_list_of_tensors_keeps_digits_of_long_doubles(engine: OneByOne) -> None:
    tenth = np.longdouble(0.1)
    above = np.nextafter(tenth, np.longdouble(1))
    element = mt.nextafter(tenth, np.longdouble(1))
    assert mt.maximum([tenth], [element]).fetch()[0] == above
    assert mt.add([[element]], 0).fetch()[0, 0] == above
    assert mt.add([mt.asarray(above * 1j)], 0).fetch()[0] == above * 1j
