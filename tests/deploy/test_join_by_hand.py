"""Hosts that are started by hand join a living cluster by a file, and leave nothing behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import ClusterError
from tests.contract.engine.kinds import until


@pytest.fixture
def cluster() -> Iterator[jmars.Cluster]:
    with jmars.Cluster.hosts(["local"], n_workers=1, memory_limit="256MiB") as cluster:
        yield cluster


def _started(command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _answer(host: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert host.stdout is not None
    found: dict[str, Any] = json.loads(host.stdout.readline())
    return found


def _ended(host: subprocess.Popen[bytes], janitor: int) -> int:
    _, words = host.communicate(timeout=60)
    until(lambda: not psutil.pid_exists(janitor))
    assert b"Traceback" not in words, words.decode()
    return host.returncode


@pytest.mark.long
def test_hosts_join_by_one_file_and_a_running_job_uses_them(cluster: jmars.Cluster, tmp_path: Path) -> None:
    path = tmp_path / "ticket"
    command = cluster.ticket(path, hosts=2, n_workers=1, memory_limit="256MiB")
    assert path.stat().st_mode & 0o777 == 0o600
    job = cluster.submit(mt.map_blocks(_waits, mt.ones(2000, chunk_size=1), dtype=float).sum())
    first = _started(command)
    told = _answer(first)
    assert path.exists() and told["pid"] == first.pid
    second = _started(command)
    told_too = _answer(second)
    assert not path.exists() and {told["host"], told_too["host"]} == {2, 3}
    until(lambda: [worker["done"] > 0 for worker in cluster.info()["workers"]] == [True] * 3)
    assert job.progress < 1
    job.cancel()
    x = mt.random.rand(600, 600, chunk_size=100).execute()
    np.testing.assert_array_equal((x + x.T).execute().fetch(), x.fetch() + x.fetch().T)
    second.send_signal(signal.SIGTERM)
    assert _ended(second, told_too["janitor"]) == 0
    until(lambda: cluster.n_workers == 2)
    cluster.close()
    assert _ended(first, told["janitor"]) == 0


@pytest.mark.long
def test_a_file_that_others_may_open_and_a_used_one_are_refused(cluster: jmars.Cluster, tmp_path: Path) -> None:
    path = tmp_path / "ticket"
    command = cluster.ticket(path, n_workers=1, memory_limit="256MiB")
    path.chmod(0o640)
    copy = path.read_bytes()
    refused = _started(command)
    _, words = refused.communicate(timeout=60)
    assert refused.returncode == 1 and b"others may open the ticket" in words and path.exists()
    path.chmod(0o600)
    host = _started(command)
    told = _answer(host)
    path.write_bytes(copy)
    path.chmod(0o600)
    again = _started(command)
    output, words = again.communicate(timeout=60)
    assert again.returncode == 1 and b"the ticket was used already" in words
    assert b"Traceback" not in words and b"the ticket was used already" in output
    secret = json.loads(copy)["secret"].encode()
    environ = Path(f"/proc/{host.pid}/environ").read_bytes() + Path(f"/proc/{host.pid}/cmdline").read_bytes()
    assert secret not in environ + words + output
    cluster.close()
    assert _ended(host, told["janitor"]) == 0


def test_tickets_that_cannot_be_made(cluster: jmars.Cluster, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    with pytest.raises(FileExistsError):
        cluster.ticket(tmp_path / "there")
    with pytest.raises(ValueError, match="seconds"):
        cluster.ticket(tmp_path / "new", seconds=0)
    with jmars.Cluster(n_workers=1) as single, pytest.raises(ClusterError, match=r"jmars.Cluster.hosts\(\['local'\]\)"):
        single.ticket(tmp_path / "new")
    assert os.listdir(tmp_path) == ["there"]


def _waits(block: Any) -> Any:
    import time

    time.sleep(0.02)
    return block
