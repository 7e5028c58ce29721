"""`case` lets an error through and names the case."""

import pytest

from tests.cases import case


def test_an_error_passes_and_is_told_its_case() -> None:
    with pytest.raises(AssertionError) as caught, case("axis", 2):
        raise AssertionError
    assert caught.value.__notes__ == ["case: axis 2"]
    with pytest.raises(pytest.fail.Exception), case("axis", 3):
        pytest.fail("an outcome of pytest's too")
