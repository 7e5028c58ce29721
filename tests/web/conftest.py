"""The engine that a door has in its own process, for tests that build documents in ours."""

from __future__ import annotations

import pytest

from jmars.tensor.engine import current_engine, set_engine
from jmars.web.engine import BuildingEngine


@pytest.fixture
def building():
    before = current_engine()
    set_engine(BuildingEngine(2**30, 2))
    yield
    set_engine(before)
