"""The table of a large job is sent to hosts in a compressed form."""

from __future__ import annotations

import types
from typing import Any

from jmars.model.messages import JobTable
from jmars.scheduler.hosts import Hosts
from jmars.worker.remote_scheduler import Orders, RecoverySnapshot, RemoteScheduler
from tests.scheduler.test_hosts import Link


def _table(n: int) -> JobTable:
    pairs: Any = [[i - 1] if i else [] for i in range(n)]
    return JobTable(
        "job-1", 1, [], [0] * n, pairs, None, 100, list(range(100, 100 + n)), [80] * n,
        [0] * n, list(range(n)), 0, [], [[i + 1] if i + 1 < n else [] for i in range(n)],
    )  # fmt: skip


def test_the_table_of_a_large_job_is_compressed_and_opened_as_it_was() -> None:
    for n, is_compressed in ((100_000, True), (10, False)):
        hosts, link, taken = Hosts(), Link(), []
        hosts.add(1, "a", link.order, workers=2, memory=1000, room=1000)
        hosts.open_job(table := _table(n))
        (order,) = link.take()
        assert bool(order.size) is is_compressed and (not is_compressed or len(order.table) < order.size / 3)
        known = RecoverySnapshot(dict)
        orders = Orders(types.SimpleNamespace(open_job=taken.append), RemoteScheduler(taken.append, known), known)
        orders.take([order])
        assert taken == [table]
