"""Every test here computes with the in-process engine of engine.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jmars.tensor.engine import current_engine, set_engine
from tests.tensor.engine import OneByOne


@pytest.fixture(autouse=True)
def engine() -> Iterator[OneByOne]:
    before = current_engine()
    here = OneByOne()
    set_engine(here)
    yield here
    set_engine(before)
