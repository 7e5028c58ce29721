"""Every test here computes with the in-process engine of engine.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jmars.tensor.engine import current_engine, set_engine
from tests.tensor.engine import OneByOne


@pytest.fixture(autouse=True)
def engine_as_before() -> Iterator[None]:
    """Tests that set an engine leave none to the tests of other folders."""
    before = current_engine()
    yield
    set_engine(before)


@pytest.fixture(autouse=True)
def engine() -> Iterator[OneByOne]:
    before = current_engine()
    here = OneByOne()
    set_engine(here)
    yield here
    set_engine(before)
