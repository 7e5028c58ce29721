"""The gateway process: one for each cluster, files with mode 0600, a clear end, and no harm from random bytes."""

from __future__ import annotations

import os
import random
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jmars.client import Cluster
from jmars.errors import ClusterStartError
from tests.web.conftest import Web


def opened(*args, **more):
    command = [sys.executable, "-m", "jmars", "web", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_without_a_cluster_it_says_what_to_do():
    said = opened("--cluster", "nobody")
    out, err = said.communicate(timeout=60)
    assert said.returncode == 1 and out == "" and "start one with jmars.Cluster()" in err and "Traceback" not in err


@pytest.mark.long
def test_a_cluster_has_one_gateway_and_another_port_may_be_taken(cluster, gateway, monkeypatch):
    monkeypatch.setenv("JMARS_RUNTIME_DIR", str(runtime_folder(cluster)))
    with pytest.raises(ClusterStartError, match="has a gateway already"):
        cluster.serve()
    taken = int(gateway.url.rsplit(":", 1)[1])
    with Cluster(n_workers=1, memory_limit="256MiB") as other:
        with pytest.raises(ClusterStartError, match="in use"):
            other.serve(taken)
        with other.serve() as second:  # what failed holds no lock
            assert second.url != gateway.url


def test_an_interrupt_of_the_kernel_is_not_the_gateways(gateway):
    """Jupyter interrupts the kernel's process group."""
    assert os.getpgid(gateway.pid) != os.getpgid(0) and os.getsid(gateway.pid) != os.getsid(0)


def runtime_folder(cluster):
    return Path(cluster._host.folders.registry).parent


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_told_to_and_leaves_no_token(number):
    with Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        before = os.umask(0)  # whatever others think is right for their files
        try:
            process = opened("--cluster", cluster.id)
        finally:
            os.umask(before)
        process.stdout.readline()
        folder = Path(process.stdout.readline().strip()).parent
        names = {one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir() if one.name.startswith("web")}
        assert names == dict.fromkeys(("web.header", "web.json", "web.lock", "web-sessions.db"), 0o600)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
        assert {one.name for one in folder.iterdir() if one.name.startswith("web")} == {"web.lock", "web-sessions.db"}


def test_it_ends_with_its_cluster():
    with Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        process = opened("--cluster", cluster.name)
        assert process.stdout.readline().startswith("http://127.0.0.1:")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == ""


@pytest.mark.long
def test_a_stopped_cluster_is_told_and_goes_on_when_continued(monkeypatch):
    with Cluster(n_workers=1, memory_limit="256MiB") as cluster, cluster.serve() as gateway:
        web = Web(gateway.url, gateway.header.read_text().split()[-1])
        pid = cluster.info()["scheduler"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            assert web.json("POST", "/api/session", {}, 201)["id"]  # the gateway itself is well
            told = web.problem("GET", "/api/cluster", status=503)
            assert told["error"] == "ClusterLostError" and "has not answered" in told["message"]
        finally:
            os.kill(pid, signal.SIGCONT)
        assert web.json("GET", "/api/cluster")["id"] == cluster.id
        web.http.close()


def test_noise_does_it_nothing(web, gateway):
    """500 seeded pieces of noise, as first bytes and behind a real beginning: the gateway answers as before."""
    rng = random.Random(11)
    address = ("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]))
    before = rss(gateway.pid)
    starts = [
        b"", b"GET /api/session HTTP/1.1\r\nHost: ", b"POST /api/session HTTP/1.1\r\nContent-Length: ",
        b"PUT /api/session/x/array/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"\x80\x04\x95", b"jmars-1\n",
    ]  # fmt: skip
    for number in range(500):
        with socket.create_connection(address, timeout=60) as link:
            link.sendall(starts[number % len(starts)] + rng.randbytes(rng.randrange(1, 300)) + b"\r\n\r\n")
            link.shutdown(socket.SHUT_WR)
            answer = b""
            while part := link.recv(65536):
                answer += part
            assert not answer or answer.split(b" ")[1][:1] == b"4", answer[:100]
    assert web.json("GET", "/api/session") is not None
    assert rss(gateway.pid) - before < 16 * 2**20


def rss(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
