"""Chunks between hosts, as a host's control process has them moved: with a carrier that only notes its orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jmars.actors.tls import Credentials
from jmars.processes.vitals import LOOK_SECONDS, Vital
from jmars.storage.chunks import ChunkRange
from jmars.worker import execution as supervision
from jmars.worker.chunk_exchange import WITHDRAWN, ChunkExchange
from tests.worker.steps_host import Host, in_loop, program, table

WANTED = ChunkRange(7, 0, 4096, 0, (1, 0))


def _exchange(host: Host, relayed: list[Any]) -> ChunkExchange:
    children: Any = host.children

    def relay(*order: Any) -> Callable[[], None]:
        relayed.append(order)
        return lambda: relayed.append("withdrawn")

    exchange = ChunkExchange(host.execution, children, "/nowhere", relay, lambda port: None)
    exchange.joined("cluster", 1, 1, Credentials(b"key", b"certificate", b"ca"), "127.0.0.1")
    exchange.begin("no")
    exchange.add_peer(2, 1, "127.0.0.1:9")
    return exchange


@in_loop
def test_a_carrier_that_is_stopped_is_replaced_and_gets_the_pulls_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with Host() as host:
        exchange = _exchange(host, [])
        exchange.pull(WANTED, (2,), lambda error: None)
        (pull,) = [order for order in host.children.sent["carrier"] if order[0] == "pull"]
        host.run(table(1, [program()], [0], [()]), 0)  # processes are looked at while there is work
        stopped = host.children.links["carrier"]
        host.children.states[stopped.pid] = Vital.STOPPED
        now = 1000.0
        monkeypatch.setattr(supervision, "monotonic", lambda: now)
        for _ in range(round(8 / LOOK_SECONDS)):
            now += LOOK_SECONDS
            host.execution.processes._look()
        assert stopped.how == "stopped" and host.children.links["carrier"] is not stopped
        assert pull in host.children.sent["carrier"]


@in_loop
def test_a_read_is_withdrawn_where_it_is_by_the_carrier_or_by_the_head() -> None:
    with Host() as host:
        relayed: list[Any] = []
        told: list[str] = []
        exchange = _exchange(host, relayed)
        carrier = exchange.carrier
        withdraw = exchange.pull(WANTED, (2,), told.append)
        withdraw()
        withdraw()
        orders = [order for order in host.children.sent["carrier"] if order[0] in ("pull", "withdraw")]
        assert [order[:2] for order in orders] == [("pull", 1), ("withdraw", 1)] and not told
        carrier.received(host.children.links["carrier"], ("withdrawn", 1))
        withdraw()
        assert told == [WITHDRAWN] and not relayed
        other = exchange.pull(WANTED, (2,), told.append)
        carrier.received(host.children.links["carrier"], ("pulled", 2, "nobody answers", 0, 0, []))
        assert len(relayed) == 1
        other()
        assert relayed[-1] == "withdrawn" and len(told) == 1


@in_loop
def test_late_news_of_an_earlier_incarnation_leave_the_present_one() -> None:
    with Host() as host:
        told: list[str] = []
        exchange = _exchange(host, [])
        exchange.drop_peer(2, 1)
        exchange.add_peer(2, 2, "127.0.0.1:10")
        exchange.add_peer(2, 1, "127.0.0.1:9")
        exchange.drop_peer(2, 1)
        exchange.pull(WANTED, (2,), told.append)
        (pull,) = [order for order in host.children.sent["carrier"] if order[0] == "pull"]
        assert pull[-1] == [(2, 2)]
