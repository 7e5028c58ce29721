"""A control process that stands still is named in time, and what it does goes on when it does."""

import logging
import os
import signal
import time

import pytest

import jmars
import jmars.tensor as mt
from jmars.client import connection
from jmars.client.connection import Silence


def test_it_is_said_once_and_then_ever_more_rarely():
    silence = Silence("mine", 17)
    said = [second for second in range(1, 50) if silence.waited(float(second), stopped=False)]
    assert said == [3, 6, 12, 24, 48]
    assert silence.over(50.0) and not silence.over(51.0)
    assert "frozen" in silence.waited(3.0, stopped=False)


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("detach", [False, True])
def test_a_stopped_control_process_is_named_and_goes_on(monkeypatch, caplog, detach):
    monkeypatch.setattr(connection, "BEAT", 0.05)
    monkeypatch.setattr(connection, "SILENT", 0.3)

    def slowly(chunk):
        import time

        time.sleep(0.02)
        return chunk

    with caplog.at_level(logging.WARNING, "jmars.client"):
        cluster = jmars.Cluster(n_workers=1, memory_limit="512MiB", detach=detach)
        try:
            pid = cluster._host.pid
            job = cluster.submit(mt.map_blocks(slowly, mt.ones(60, chunk_size=2), dtype="f8").sum())
            os.kill(pid, signal.SIGSTOP)
            end = time.monotonic() + 60
            while f"`kill -CONT {pid}`" not in caplog.text:
                assert time.monotonic() < end
                time.sleep(0.01)  # for the word to come
            os.kill(pid, signal.SIGCONT)
            assert job.result(30) == 60
        finally:
            cluster.stop()
    assert "goes on" in caplog.text
