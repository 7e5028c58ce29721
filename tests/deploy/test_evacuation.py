"""What a host is asked to keep of one that leaves, where chunks are freed meanwhile; without processes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from jmars.deploy.elastic_hosts import _keep
from jmars.deploy.member import Member
from jmars.scheduler.elastic import Evacuation
from jmars.scheduler.hosts import Hosts
from jmars.storage.chunks import ChunkRange


class Link:
    """Keeps all that it is asked to keep."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.channel = self

    def order(self, orders: Any) -> None:
        pass

    async def ask(self, actor: str, method: str, chunks: list[int], *_: Any) -> list[int]:
        self.asked.append(chunks)
        return chunks


def test_a_chunk_freed_since_its_choice_is_not_asked_for() -> None:
    hosts, link = Hosts(), Link()
    for number in (1, 2):
        hosts.add(number, f"host-{number}", link.order, workers=1, memory=1000, room=1000)
    for chunk in (7, 8):
        hosts.places.stored(chunk, host=1, size=80)
    evacuation = Evacuation(hosts.places, 1)
    ((host, chosen),) = evacuation.next({2: 1000}).items()
    hosts.free_chunks([8])
    roster: Any = SimpleNamespace(hosts=hosts, links={2: link})
    asyncio.run(_keep(roster, evacuation, host, chosen))
    assert chosen == [7, 8] and link.asked == [[7]]
    assert hosts.places.holders(7) == [1, 2] and 8 not in hosts.places.know
    hosts.free_chunks([7])
    asyncio.run(_keep(roster, evacuation, host, [7]))
    assert len(link.asked) == 1 and not hosts.places.know


def test_a_read_by_the_head_without_a_known_holder_is_an_error() -> None:
    member: Any = SimpleNamespace(link=None)
    wanted = ChunkRange(7, 0, 8, 0, (0, 0))
    assert "no host is known that has chunk 7" in asyncio.run(Member._relayed(member, wanted, []))
