"""Parts go by UCX where it was chosen; a host that does not prove the secret gives nothing; failures end in TLS."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from jmars.transport import pulling, ucx, wire
from jmars.transport.ucx import Ucx
from tests.contract.transport import carriers as hosts_of_tests
from tests.contract.transport.carriers import carriers, moving_by, noise, pulled
from tests.contract.transport.rogue import proxy

MB = 2**20
SIZE = 5 * MB
DATA = noise(SIZE)
INTO = 32 * MB


pytestmark = pytest.mark.skipif(not find_spec("ucxx"), reason="ucxx is not installed: pip install 'jmars[ucx-cu12]'")


@pytest.fixture(scope="module", autouse=True, params=["ucx-tcp", "ucx-memory"])
def transport(request):
    """Hosts that are started now move parts in this way."""
    with moving_by(request.param):
        yield


@pytest.mark.seed("S4.4")
def test_parts_go_by_ucx_and_their_heads_by_tls():
    with carriers(0, 1) as hosts, proxy(hosts[1].port) as between:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        reader.knows(source, between.address)
        assert pulled(hosts, reader, reader.pull(1, 0, SIZE, INTO, source)) == ""
        assert reader.memory[INTO : INTO + SIZE] == DATA
        assert reader.transports == [(1, "ucx", "ucx=True: UCX on any device, without a probe")]
        assert between.passed < 2**16


def test_without_devices_that_are_faster_tls_is_chosen_by_itself(monkeypatch):
    monkeypatch.setitem(hosts_of_tests.UCX, "ucx", "auto")
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        assert pulled(hosts, reader, reader.pull(1, 0, SIZE, INTO, source)) == ""
        ((_, chosen, why),) = reader.transports
        assert chosen == "tls" and why.startswith("the host that reads has no RDMA device")


def test_a_probe_measures_both_ways(monkeypatch):
    monkeypatch.setitem(hosts_of_tests.UCX, "ucx", "auto")
    monkeypatch.setattr(ucx, "by_devices", lambda *_: ucx.TransportChoice("ucx", "a test"))
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        assert pulled(hosts, reader, reader.pull(1, 0, SIZE, INTO, source)) == ""
        assert reader.memory[INTO : INTO + SIZE] == DATA
        ((_, chosen, why),) = reader.transports
        assert chosen in ("ucx", "tls") and why.startswith("a test; a probe took")


def test_a_host_that_was_started_without_ucx_sends_by_tls(monkeypatch):
    with carriers(0, acquainted=False) as (reader,):
        monkeypatch.setitem(hosts_of_tests.UCX, "ucx", "no")
        with carriers(1, acquainted=False) as (source,):
            reader.knows(source)
            source.knows(reader)
            source.fill(1, 4096, DATA)
            assert pulled([reader, source], reader, reader.pull(1, 0, SIZE, INTO, source)) == ""
            assert reader.transports == [(1, "tls", "the host that sends cannot use UCX: it was started without UCX")]


def test_a_host_without_the_secret_is_asked_for_nothing(monkeypatch):
    with carriers(0, 2) as (reader, other):
        monkeypatch.setattr(ucx, "proof_of", lambda secret: bytes(32))
        with carriers(1, acquainted=False) as (source,):
            for host in (source, other):
                host.fill(1, 4096, DATA)
            reader.knows(source)
            source.knows(reader)
            hosts = [reader, other, source]
            ticket = reader.pull(1, 0, SIZE, INTO, source, other)
            assert pulled(hosts, reader, ticket) == "" and reader.pulled[ticket][1] == 2
            assert not source.asked and [number for number, *_ in reader.transports] == [2]


def test_where_ucx_fails_later_the_host_is_asked_again_by_tls(monkeypatch):
    def fails(self, view):
        self._frame(wire.answer(False, 0, b"a test"))

    monkeypatch.setattr(ucx.UcxSource, "send", fails)
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        assert pulled(hosts, reader, reader.pull(1, 0, SIZE, INTO, source)) == ""
        assert reader.memory[INTO : INTO + SIZE] == DATA
        assert [(chosen, why) for _, chosen, why in reader.transports][1:] == [("tls", "UCX has failed: a test")]


def test_a_part_that_does_not_come_is_asked_for_by_tls(monkeypatch):
    monkeypatch.setattr(pulling, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(pulling, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(ucx.UcxSource, "send", lambda self, view: 1)  # says so, and sends nothing
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        assert pulled(hosts, reader, reader.pull(1, 0, SIZE, INTO, source)) == ""
        assert reader.memory[INTO : INTO + SIZE] == DATA
        assert "a part has not come for" in reader.transports[1][2]


def test_a_part_whose_bytes_were_changed_by_the_way_is_refused(monkeypatch):
    def changed(self, far, tag, data, done):
        return send(self, far, tag, bytes(len(data)) if len(data) > 32 else data, done)

    send = Ucx.send
    with carriers(0, 2) as (reader, other):
        monkeypatch.setattr(Ucx, "send", changed)
        with carriers(1, acquainted=False) as (source,):
            for host in (source, other):
                host.fill(1, 4096, DATA)
            reader.knows(source)
            source.knows(reader)
            hosts = [reader, other, source]
            ticket = reader.pull(1, 0, SIZE, INTO, source, other)
            assert pulled(hosts, reader, ticket) == "" and reader.pulled[ticket][1] == 2
            assert reader.memory[INTO : INTO + SIZE] == DATA
            error = pulled(hosts, reader, reader.pull(1, 0, SIZE, INTO, source))
            assert "bytes of chunk 1 changed on their way" in error
