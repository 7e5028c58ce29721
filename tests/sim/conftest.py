"""The simulated scheduler's process computes no values; tests of other folders in this process do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jmars.tensor.engine import current_engine, set_engine


@pytest.fixture(autouse=True)
def _engine() -> Iterator[None]:
    """The engine from before a test is there after it."""
    before = current_engine()
    yield
    set_engine(before)
