"""The process of a host that joined: when it starts again, and what it answers before its executors are forked."""

from __future__ import annotations

import asyncio
import os
import sys
from unittest.mock import AsyncMock, MagicMock

import pytest

from jmars.deploy import member_process
from jmars.deploy.member import Member

STOPS = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"


def test_a_stopped_janitor_is_woken_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_process, "WAKE_SECONDS", 0.01)
    janitor = os.posix_spawn(sys.executable, [sys.executable, "-c", STOPS], os.environ)
    _, status = os.waitpid(janitor, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    member_process._wait_for_janitor(janitor)
    with pytest.raises(ChildProcessError):
        os.waitpid(janitor, 0)


def test_the_head_may_ask_before_the_executors_are_forked() -> None:
    async def main() -> None:
        member = MagicMock(started=asyncio.Event())
        member.machine.private = AsyncMock(return_value={})
        asked = [asyncio.ensure_future(one) for one in (Member.look(member), Member.info(member))]
        await asyncio.sleep(0)
        assert not member.machine.mock_calls
        member.started.set()
        look, info = await asyncio.gather(*asked, return_exceptions=True)
        assert member.machine.look.called
        assert isinstance(look, TypeError), look  # the stand-in of a machine is not awaited
        assert info["pid"] == os.getpid()

    asyncio.run(main())


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_host_with_gpus_does_not_wait_for_ever_for_the_head(gpus: int) -> None:
    asked: list[str] = []

    async def no_answer(actor: str, method: str) -> None:
        asked.append(method)
        await asyncio.Event().wait()

    async def ready() -> None:
        """The machine is."""

    member = MagicMock(spec=["machine", "link"], machine=MagicMock(ready=ready, n_gpus=gpus))
    member.link.ask = no_answer
    if gpus:
        with pytest.raises(TimeoutError):
            asyncio.run(Member.ready(member, 0.01))
    else:
        asyncio.run(Member.ready(member, 0.01))
    assert asked == ["warm"] * gpus
