"""The start of a cluster on an engine: an engine that refuses, that never answers, and what is left of it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from jmars.deploy.engine_host import EngineHost
from jmars.errors import ClusterStartError
from tests.engines.in_process import InProcessEngine


def test_an_engine_that_does_not_start_leaves_nothing(runtime_dir):
    class Broken(InProcessEngine):
        async def start(self, events):
            self.pool = None
            raise ClusterStartError("no scheduler answers")

    with pytest.raises(ClusterStartError, match="no scheduler answers"):
        EngineHost(Broken())
    assert list(runtime_dir.glob("*.json")) == []


def test_an_engine_that_never_answers_ends_in_an_error_that_names_it(runtime_dir, monkeypatch):
    class Silent(InProcessEngine):
        async def start(self, events):
            try:
                await asyncio.Event().wait()
            finally:  # an engine ends what it began
                self.closed = True

    monkeypatch.setattr("jmars.deploy.engine_host.DEADLINE", 0.2)
    engine = Silent()
    with pytest.raises(ClusterStartError, match="Threads cluster at threads://here did not start within") as caught:
        EngineHost(engine)
    assert "try again" in str(caught.value)
    assert engine.closed and list(runtime_dir.glob("*.json")) == []
    assert not any(thread.name == "jmars-threads" for thread in threading.enumerate())
