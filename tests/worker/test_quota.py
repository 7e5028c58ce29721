"""Quota: promises never exceed what is there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.errors import MemoryLimitError
from jmars.worker.quota import Quota


def test_a_release_makes_room():
    quota = Quota(total=100)
    assert quota.request("job", 1, 80)
    assert not quota.request("job", 2, 30)
    assert quota.request("job", 1, 80)  # the same operand again
    quota.release("job", 1)
    assert quota.request("job", 2, 30)
    assert quota.free == 70


def test_what_never_fits_is_refused_with_its_size():
    with pytest.raises(MemoryLimitError, match=r"needs 200 B .* keeps 100 B"):
        Quota(total=100).request("job", 1, 200)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60), st.booleans())))
def test_promises_never_exceed_the_total(steps):
    quota = Quota(total=100)
    for operand, size, give_back in steps:
        quota.release("job", operand) if give_back else quota.request("job", operand, size)
        assert 0 <= quota.free <= 100
