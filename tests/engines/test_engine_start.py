"""The start of a cluster on an engine: an engine that refuses or never answers, and figures that are not known yet."""

from __future__ import annotations

import asyncio
import threading

import pytest

import jmars.tensor as mt
from jmars.deploy.engine_head import EngineHost
from jmars.errors import ClusterStartError
from jmars.plan import Profile
from tests.engines.in_process import InProcessEngine, on_engine, until


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

    monkeypatch.setattr("jmars.deploy.engine_head.DEADLINE", 0.2)
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


def test_costs_taught_by_an_engine_leave_those_of_this_machine(monkeypatch, tmp_path, only_jobs):
    monkeypatch.setenv("JMARS_CACHE_DIR", str(tmp_path))
    before = Profile(dispatch=3e-5, disk=2e9, touch=1e-10, scale=2.0, busy=4.0)
    before.observe("mine", 1000, 0.5, when=1)
    before.save()
    with on_engine() as cluster:
        assert float(mt.ones((300, 300), chunk_size=100).sum()) == 90_000
        workers = cluster._host._head.workers
        until(lambda: workers.profile.changed and not workers.jobs)
        learnt = set(workers.profile.changed)
    after = Profile.load()
    assert learnt and all(after.costs.of(key) for key in learnt) and after.seconds("mine", 1000) == 0.5
    assert [after.dispatch, after.disk, after.touch, after.scale, after.busy] == [3e-5, 2e9, 1e-10, 2.0, 4.0]


def test_costs_that_cannot_be_saved_hinder_no_end(monkeypatch):
    def refuse(profile, **more):
        raise OSError("no space left on the device")

    monkeypatch.setattr(Profile, "save", refuse)
    with on_engine():
        assert float(mt.ones((300, 300), chunk_size=100).sum()) == 90_000
