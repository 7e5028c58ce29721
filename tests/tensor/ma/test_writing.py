"""Writing to parts of masked arrays in place, as numpy.ma does, over odd cuts."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import ViewWriteError
from jmars.tensor import ma

WRITES = {
    "a row": "m[0] += 1",
    "a slice": "m[1:] *= 2",
    "a column and an element": "m[:, 0] -= 5; m[2, 3] /= 2",
    "each row": "for i in range(3): m[i] **= 2",
    "masked ones": "m[0] += np.ma.array([1, 2, 3, 4], mask=[0, 0, 0, 1])",
    "a hard mask": "m.harden_mask(); m[0] += 1; m[:2] -= 3",
    "by a mask": "m[m > 5] += 1",
    "its mask": "m.mask[0] |= True",
    "its shape": "m.shape = (4, -1); m[1] += 1",
}


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("cut", [(2, 3), (3, 1), (3, 4)], ids=str)
@pytest.mark.parametrize("text", WRITES.values(), ids=WRITES)
def test_parts_are_written_in_place(text, cut, masked):
    if not masked and "mask" in text:
        text = "m[1] += 1"
    a = np.arange(12.0).reshape(3, 4)
    theirs = np.ma.masked_less(a, 3) if masked else np.ma.array(a.copy())
    ours = ma.masked_less(mt.asarray(a, chunk_size=cut), 3) if masked else ma.array(mt.asarray(a, chunk_size=cut))
    for m in (theirs, ours):
        exec(text, {"m": m, "np": np})
    found = ours.fetch()
    np.testing.assert_array_equal(found.data, theirs.data)
    np.testing.assert_array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(theirs))


def test_a_part_with_a_name_is_refused():
    m = ma.masked_less(mt.zeros((2, 2)), 1)
    part, rows = m[0], [m[1]]
    with pytest.raises(ViewWriteError, match="part"):
        part += 1
    with pytest.raises(ViewWriteError, match="part"):
        rows[0] += 1
    assert m.fetch().data.tolist() == [[0, 0], [0, 0]]


def test_setting_the_shape_leaves_others_as_they_are():
    m = ma.masked_less(mt.arange(4), 2)
    mask = m.mask
    m.shape = (2, 2)
    assert (m.shape, m.mask.shape, mask.shape) == ((2, 2), (2, 2), (4,))
