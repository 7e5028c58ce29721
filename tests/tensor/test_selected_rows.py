"""Rows that a mask selects, block by block: NumPy's `x[mask]`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.tensor.ops import getitem as module
from jmars.tensor.ops.getitem import selected_rows

DTYPES = ["f8", "u1", "c16", "U3", "M8[s]", "i4,f8"]


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MASK_ELEMENTS", 3)
        patch.setattr(module, "BLOCK", 8)
        yield


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    st.sampled_from(DTYPES),
    st.sampled_from(["C", "F", "every other"]),
    st.booleans(),
    st.integers(0, 2**20),
)
def test_rows_are_numpys(shape, ndim, share, dtype, layout, given_out, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 100, shape).astype("i8" if dtype[0] in "Mi" else "f8").astype(dtype)
    x = np.repeat(x, 2, axis=0)[::2] if layout == "every other" else np.asarray(x, order=layout)
    mask = rng.random(shape[:ndim]) < share
    expected = x[mask]
    found = selected_rows(x, mask, np.empty_like(expected, order="C") if given_out else None)
    assert found.dtype == expected.dtype and found.flags.c_contiguous
    np.testing.assert_array_equal(found, expected)


def test_a_mask_with_another_count_is_refused():
    with pytest.raises(ValueError, match="selects 4 rows, and there is room for 3"):
        selected_rows(np.arange(9.0), np.arange(9) < 4, np.empty(3))
