"""A host that was asked to read by UCX and has no ucxx reads by TLS, and tells why."""

from __future__ import annotations

import sys

from tests.contract.transport import carriers as hosts_of_tests
from tests.contract.transport.carriers import carriers, noise, pulled

SIZE = 5 * 2**20
DATA = noise(SIZE)
INTO = 32 * 2**20


def test_a_host_without_ucxx_reads_by_tls(monkeypatch):
    monkeypatch.setitem(hosts_of_tests.UCX, "ucx", "always")
    monkeypatch.setitem(sys.modules, "ucxx", None)
    monkeypatch.setitem(sys.modules, "ucxx._lib.libucxx", None)
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        assert pulled(hosts, reader, reader.pull(1, 0, SIZE, INTO, source)) == ""
        ((_, chosen, why),) = reader.transports
        assert chosen == "tls" and "the host that reads cannot use UCX: ModuleNotFoundError" in why
