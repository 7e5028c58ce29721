"""Which host runs an operand whose planned host is gone."""

from __future__ import annotations

from typing import Any

from jmars.model.messages import ChunksCopied, EnqueueGraph, Finished, JobTable, Order
from jmars.scheduler.hosts import Hosts


class _Link:
    """Notes orders."""

    def __init__(self) -> None:
        self.told: list[Order] = []

    def order(self, orders: Any) -> None:
        self.told += orders


def test_it_is_the_host_that_has_most_bytes_of_the_inputs() -> None:
    hosts, links = Hosts(), [_Link(), _Link(), _Link()]
    for number, link in enumerate(links):
        hosts.add(number, "abc"[number], link.order, workers=2, memory=1000, room=1000)
    inputs, readers = [[], [], [0, 1]], [[2], [2], []]
    ids = [0, 1, 2]
    hosts.open_job(
        JobTable("job-1", 1, [], [0] * 3, inputs, None, 100, [100, 101, 102], [80] * 3, [0] * 3, ids, 0, [], readers)
    )
    hosts.enqueue_graph("job-1", [0, 1], [0, 2])
    hosts.take(0, [Finished("job-1", [0], 0)])
    hosts.take(1, [Finished("job-1", [1], 0), ChunksCopied([100])])
    hosts.lost(2, "unplugged")
    hosts.enqueue_graph("job-1", [2], [4])  # planned for c; b has both inputs, a has one
    assert links[1].told[-1] == EnqueueGraph("job-1", [2], [1])
