"""Hosts that were given up are started again, unless they are told to end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jmars.deploy import host_launches
from jmars.deploy.host_launches import HostLaunches


class _Launched:
    """A host whose process ends while its place is asked."""

    answer = {"pid": 1}  # noqa: RUF012

    def __init__(self, asked: Any) -> None:
        self._asked = asked

    async def is_alive(self, pids: list[int]) -> dict[int, str]:
        await self._asked()
        return dict.fromkeys(pids, "gone")

    async def end(self, patience: float) -> bool:
        return True


def test_a_host_told_to_end_while_its_place_is_asked_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_launches, "END_LOOK_SECONDS", 0.0)
    launches = HostLaunches.__new__(HostLaunches)
    launches._roster = SimpleNamespace(silent={2})  # type: ignore[assignment]
    launches._placed, launches._returning = {2: {}}, {}
    launches._launched = {2: _Launched(lambda: launches.end_host(2, 0.0))}  # type: ignore[dict-item]
    asyncio.run(asyncio.wait_for(launches._return(2), 5))
    assert not launches._launched
