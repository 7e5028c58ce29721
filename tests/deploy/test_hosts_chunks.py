"""Reads of chunks through the head while hosts come and go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jmars.deploy.roster import HostsChunks
from jmars.errors import ChunkLostError, ClusterLostError


class Roster:
    """Hosts by number, each with what it answers; `holders` as the head knows them."""

    def __init__(self, answers: dict[int, Any]) -> None:
        self._answers, self.asked, self.moves_to = answers, [], 0
        self.links = {one: SimpleNamespace(channel=SimpleNamespace(ask=self._ask(one))) for one in answers}
        self.now_at = [min(answers)]

    def holders(self, chunk: int) -> list[int]:
        return [one for one in self.now_at if one in self.links]

    def _ask(self, number: int) -> Any:
        async def ask(*_: Any) -> Any:
            self.asked.append(number)
            if isinstance(self._answers[number], Exception):
                self.links.pop(number)
                self.now_at = [self.moves_to]
                raise self._answers[number]
            return self._answers[number]

        return ask


def test_a_chunk_that_moved_while_its_host_left_is_read_where_it_is_now():
    roster = Roster({1: ClusterLostError("host 1 was evacuated"), 2: (b"data", b"sum")})
    roster.moves_to = 2
    assert asyncio.run(HostsChunks(roster).gather((7, 0, 8, (1,), (8,)))) == (b"data", b"sum")
    assert roster.asked == [1, 2]


def test_a_chunk_that_no_host_has_any_more_is_lost():
    roster = Roster({1: ClusterLostError("host 1 is gone")})
    with pytest.raises(ChunkLostError, match=r"host 1 is gone.*compute it again"):
        asyncio.run(HostsChunks(roster).gather((7, 0, 8, (1,), (8,))))
