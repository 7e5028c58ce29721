"""Launchers keep one contract, on this machine and by ssh; a stand-in plays the host's process."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jmars.deploy.control_process import ended_within
from jmars.deploy.launch import Launched, LocalLauncher
from jmars.deploy.launch_ssh import SshLauncher
from jmars.errors import ClusterStartError
from tests.multihost.machines import Machine
from tests.multihost.stand_in import stand_in


@dataclass
class Stage:
    """A kind of launcher, and the machine where its processes run."""

    place: str
    folder: Path
    machine: Machine | None
    noise: str = ""  # commands of the shell before the program

    def launcher(self, behaviour: str, patience: float = 20.0, python: str = "") -> LocalLauncher | SshLauncher:
        program = python or str(self._program(behaviour))
        return SshLauncher(self.place, program, patience) if self.place else LocalLauncher(program, patience)

    def _program(self, behaviour: str) -> Path:
        """A program in the place of Python, whose name a careless shell would run."""
        return stand_in(self.folder / f"python of '{behaviour}'; touch owned; $(touch owned)", behaviour, self.noise)

    def ours(self, pid: int) -> int:
        """A process there, as this machine numbers processes."""
        return self.machine.pids()[pid] if self.machine else pid

    def ended(self, *pids: int) -> bool:
        """Whether processes, as this machine numbers them, end now."""
        return all(ended_within(pid, 60) for pid in pids)


@pytest.fixture(params=[pytest.param("ssh", marks=pytest.mark.root), "local"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.chdir(tmp_path)
    if request.param == "local":
        yield Stage("", tmp_path, None)
        return
    server, head, far = (request.getfixturevalue(name) for name in ("sshd", "head", "far"))
    with head.network():
        yield Stage(server.place, tmp_path, far)


@pytest.fixture
def ticket() -> bytes:
    return json.dumps({"v": 1, "host": 3, "secret": secrets.token_hex(32)}).encode()


def secret_of(ticket: bytes) -> str:
    return json.loads(ticket)["secret"]


def still_there(behaviour: str) -> list[int]:
    """Stand-ins that have not ended within a while, as this machine numbers processes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"stand_in.py\0{behaviour}\0".encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it has ended
    return [pid for pid in found if not ended_within(pid, 60)]


def launched(stage: Stage, ticket: bytes, then: Callable[[Launched], Awaitable[Any]], **environment: str) -> Any:
    async def all_of_it() -> Any:
        started = await stage.launcher("answers").start(ticket, "host-3", environment)
        try:
            return await then(started)
        finally:
            await started.end()

    return asyncio.run(all_of_it())


def error_of(launcher: LocalLauncher | SshLauncher, ticket: bytes) -> str:
    with pytest.raises(ClusterStartError) as caught:
        asyncio.run(launcher.start(ticket, "host-3", {}))
    error: BaseException | None = caught.value
    while error is not None:
        assert secret_of(ticket) not in f"{error} {error!r}"
        error = error.__cause__ or error.__context__
    return str(caught.value)


def test_a_host_answers_and_is_ended(stage, ticket):
    async def then(host):
        assert host.answer["host"] == 3 and host.pids == [host.answer["pid"], host.answer["janitor"]]
        assert await host.is_alive() == dict.fromkeys(host.pids, "running")
        ours = [stage.ours(pid) for pid in host.pids]
        assert await host.end()
        assert stage.ended(*ours)
        return repr(host)

    assert secret_of(ticket) not in launched(stage, ticket, then)
    assert not list(stage.folder.glob("owned"))


@pytest.mark.long(beyond=1)
def test_a_login_shell_may_print_before_the_answer(stage, ticket):
    stage.noise = "echo Welcome; echo '{\"news\": [1]}'; echo 17; printf '\\377\\n'; echo last login >&2"

    async def then(host):
        return host.answer["host"]

    assert launched(stage, ticket, then) == 3


@pytest.mark.long(beyond=1)
def test_variables_reach_the_process(stage, ticket):
    async def then(host):
        return host.answer["environment"]

    told = launched(stage, ticket, then, GREETING="it's $HOME; `x`", OPENBLAS_NUM_THREADS="3")
    assert told == {"GREETING": "it's $HOME; `x`", "OPENBLAS_NUM_THREADS": "3"}


def test_a_second_opinion_knows_stopped_and_gone(stage, ticket):
    async def then(host):
        control, janitor = (stage.ours(pid) for pid in host.pids)
        os.kill(control, signal.SIGSTOP)
        async with asyncio.timeout(60):
            while list((await host.is_alive()).values()) != ["stopped", "running"]:
                pass  # a signal takes a moment
        os.kill(control, signal.SIGKILL)
        stage.ended(control, janitor)
        return list((await host.is_alive()).values()), await host.is_alive([2**22 + 1])

    assert launched(stage, ticket, then) == (["gone", "gone"], {2**22 + 1: "gone"})


@pytest.mark.long(beyond=1)
def test_a_process_that_got_the_number_later_is_left_alone(stage, ticket):
    async def then(host):
        pids = host.pids
        host._births = {pid: type(birth)(birth.state, birth.started + 1) for pid, birth in host._births.items()}
        taken_for_others = await host.is_alive()
        ours = [stage.ours(pid) for pid in pids]
        assert await host.end()
        running = [pid for pid in ours if not ended_within(pid, 0)]
        os.kill(ours[0], signal.SIGKILL)
        assert stage.ended(*ours)
        return list(taken_for_others.values()), len(running)

    assert launched(stage, ticket, then) == (["gone", "gone"], 2)


@pytest.mark.long
def test_the_host_outlives_the_connection(stage, ticket):
    async def all_of_it():
        host = await stage.launcher("answers").start(ticket, "host-3", {})
        await host.close()
        return host.pids

    ours = [stage.ours(pid) for pid in asyncio.run(all_of_it())]
    assert not any(ended_within(pid, 0) for pid in ours)
    os.kill(ours[0], signal.SIGKILL)
    assert stage.ended(*ours)


def test_the_last_words_are_in_the_error_without_the_secret(stage, ticket):
    text = error_of(stage.launcher("fails"), ticket)
    assert "host-3" in text and "ended with status 3 before it answered" in text
    assert "no room for ticket … of secret …" in text and "\x1b" not in text


def test_an_error_is_an_answer(stage, ticket):
    text = error_of(stage.launcher("refuses"), ticket)
    assert text.endswith("did not start: the secret … is too old")


@pytest.mark.long(beyond=1)
def test_a_process_that_ends_before_it_reads_the_ticket(stage, ticket):
    assert "status 3" in error_of(stage.launcher("ends"), ticket)


@pytest.mark.long
def test_a_host_that_never_answers_is_ended(stage, ticket):
    text = error_of(stage.launcher("dawdles", patience=0.5), ticket)
    assert "within 0.5 s" in text and "wait" in text and "looking for the disk" in text
    assert still_there("dawdles") == []


@pytest.mark.long
def test_a_cancelled_start_leaves_nothing(stage, ticket):
    async def cancelled():
        start = asyncio.create_task(stage.launcher("dawdles").start(ticket, "host-3", {}))
        await asyncio.wait([start], timeout=0.2)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start

    asyncio.run(cancelled())
    assert still_there("dawdles") == []


@pytest.mark.long(beyond=5)
@pytest.mark.parametrize(
    "program, why",
    [
        ("", "it has no program"),
        ("#!/bin/sh\necho 'Unknown option: -P' >&2; exit 2", "older than Python 3.11"),
        ('#!/bin/sh\necho "$0: No module named jmars" >&2; exit 1', "has no jmars"),
        ("#!/bin/sh\necho 'usage: python -m jmars status' >&2; exit 1", "too old to join"),
        ("not executable", "cannot be executed"),
    ],
)
def test_what_is_wrong_with_an_installation_is_named(stage, ticket, program, why):
    python = stage.folder / "python"
    if program:
        python.write_text(program)
        python.chmod(0o600 if program == "not executable" else 0o700)
    text = error_of(stage.launcher("", python=str(python)), ticket)
    assert why in text and str(python) in text or why == "too old to join" and why in text
