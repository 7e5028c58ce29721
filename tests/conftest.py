"""What all tests share: a cluster per module, places for Jupyter's own files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster


@pytest.fixture(scope="session", autouse=True)
def _jupyter_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Jupyter and IPython write below a folder of this run, never into the home of who runs the tests."""
    folder = tmp_path_factory.mktemp("jupyter")
    names = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTERLAB_WORKSPACES_DIR"]
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            (folder / name.lower()).mkdir(mode=0o700)
            patch.setenv(name, str(folder / name.lower()))
        patch.setenv("NODE_DISABLE_COMPILE_CACHE", "1")  # Jupyter servers run npm, which would leave its cache behind
        yield


@pytest.fixture(scope="session", autouse=True)
def _cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What clusters learn is kept in a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JMARS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _flags_of_this_test() -> Iterator[None]:
    """Flags of a cell, with which later default clusters start, end with the test."""
    yield
    if "jmars.client.cluster" in sys.modules:
        sys.modules["jmars.client.cluster"]._settings.clear()


@pytest.fixture(scope="session", autouse=True)
def _kills_of_one_process() -> Iterator[None]:
    """A test that kills process 0 fails; else `os.kill(0, …)` ends all tests, with the shell that started the tests."""
    kill = os.kill

    def kill_one(pid: int, number: int) -> None:
        if pid <= 0 and number:
            raise ValueError(f"os.kill({pid}, {number}) would kill a group of processes")
        kill(pid, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "kill", kill_one)
        yield


@pytest.fixture
def runtime_dir() -> Path:
    """The runtime folder of this test alone; jmars uses it through $JMARS_RUNTIME_DIR."""
    return Path(os.environ["JMARS_RUNTIME_DIR"])


@pytest.fixture
def only_jobs() -> Iterator[None]:
    """Each value is computed by a job of the cluster, never in this process."""
    from jmars.config import config

    with config.using(local_seconds=0):
        yield


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A local cluster shared by the tests of a module: two workers, 512 MiB; with --hosts N, N hosts of one worker."""
    from jmars.client.cluster import Cluster  # not before a test asks for it

    hosts = request.config.getoption("hosts")
    with (
        Cluster.hosts(["local"] * hosts, n_workers=1, memory_limit="384MiB")
        if hosts
        else Cluster(n_workers=2, memory_limit="512MiB") as started
    ):
        yield started


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests were started with SIGINT ignored, as by `nohup … &`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
