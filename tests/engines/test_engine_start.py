"""The start of a cluster on an engine: an engine that refuses or never answers, and figures that are not known yet."""

from __future__ import annotations

import asyncio
import threading

import pytest

from jmars.deploy.engine_host import EngineHost
from jmars.errors import ClusterStartError
from tests.engines.in_process import InProcessEngine, on_engine


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


def test_a_figure_that_the_engine_has_not_told_is_absent(monkeypatch):
    told = {"key-0": {}, "key-1": {"resident": 5, "pid": 7}}

    async def memory(engine):
        return told

    monkeypatch.setattr(InProcessEngine, "memory", memory)
    with on_engine() as cluster:
        first, second = cluster.info()["workers"]
        assert "pid" not in first and "memory" not in first and (second["pid"], second["memory"]) == (7, 5)
        assert cluster.info()["memory"]["processes"] == {"thread-1": 5}
        told["key-0"], told["key-1"] = {"resident": 6}, {}
        first, second = cluster.info()["workers"]
        assert first["memory"] == 6 and "memory" not in second and second["pid"] == 7
        cluster.engine.call(cluster.engine.leave, "key-0")
        assert "thread-0 was ended by the engine" in cluster.why()
