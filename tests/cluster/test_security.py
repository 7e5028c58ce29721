"""Nobody but the user's own client is heard, and the secret is nowhere to be read."""

import os
import pickle
import socket
import struct
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jmars.client import Cluster
from tests.cluster.operands import numbers, total


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=1) as one:
        yield one


def processes(cluster):
    info = cluster.info()
    control = psutil.Process(info["scheduler"]["pid"])
    return [control, *control.children(recursive=True)]


def test_no_process_listens_on_a_network(cluster):
    for process in processes(cluster):
        assert not [c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]


def test_the_token_is_in_no_argument_environment_log_or_repr(cluster):
    token = cluster._host.token
    for process in processes(cluster):
        assert token not in " ".join(process.cmdline())
        assert token not in " ".join(process.environ().values())
    assert token not in Path(cluster._host.folders.log).read_text()
    assert token not in repr(cluster) + str(cluster.info()) + str(cluster.jobs())


class _Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("shape", ["pickle", "framed", "huge"])
def test_a_raw_client_runs_no_code_and_the_cluster_still_answers(cluster, tmp_path, shape):
    marker = tmp_path / "owned"
    bomb = pickle.dumps(_Bomb(str(marker))) * 4
    data = {"pickle": bomb, "framed": struct.pack("<I", len(bomb)) + bomb, "huge": struct.pack("<Q", 2**40) + bomb}[
        shape
    ]
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(cluster._host.folders.socket))
            raw.settimeout(60)
            try:
                raw.sendall(data)
                while raw.recv(4096):
                    pass  # the challenge, then the end
            except ConnectionError:
                pass
    assert not marker.exists()
    assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30


@pytest.mark.root
def test_another_user_can_neither_enter_the_folder_nor_connect(cluster):
    if os.getuid() != 0:
        pytest.skip("needs root to become another user")
    program = f"""
import os, socket
os.setgid(65534); os.setuid(65534)
for attempt in (lambda: os.listdir({str(cluster._host.folders.folder)!r}),
                lambda: socket.socket(socket.AF_UNIX).connect({str(cluster._host.folders.socket)!r}),
                lambda: open({str(cluster._host.folders.registry)!r}),
                lambda: os.kill({cluster.info()["scheduler"]["pid"]}, 0)):
    try:
        attempt()
    except PermissionError:
        continue
    raise SystemExit("let in")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)
