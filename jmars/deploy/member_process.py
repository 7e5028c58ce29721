"""The process of a host that joins a cluster: `python -m jmars host --join FILE`, or `--join -` for standard input.

A ticket, one line of JSON, names the head and lets the host join once. The process forks the janitor and the zygote
first, while there is no thread; then it joins, and answers with one line on standard output.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import sys
from typing import Any

from jmars.actors import connect
from jmars.deploy import memory
from jmars.deploy.folders import Folders, sweep
from jmars.deploy.janitor import start_janitor
from jmars.deploy.member import Member
from jmars.errors import JmarsError
from jmars.storage import Arena
from jmars.tensor.engine import NoComputeEngine, set_engine
from jmars.worker import Zygote, start_zygote

__all__ = ["main"]

log = logging.getLogger("jmars.host")

JOIN_SECONDS = 20.0


def main() -> None:
    """Be a host until the head ends it."""
    ticket: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    answer = os.dup(1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what users print goes to the log
    if os.getpgrp() != os.getpid():
        os.setsid()  # the janitor ends the process group
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    try:
        _serve(ticket, answer)
    except (JmarsError, ValueError) as error:
        _say(answer, {"error": str(error)})


def _serve(ticket: dict[str, Any], answer: int) -> None:
    sweep()
    ticket["limit"] = memory.chosen_limit(ticket["limit"])
    ticket["workers"] = ticket["workers"] or memory.usable_cores()
    set_engine(NoComputeEngine(ticket["limit"], ticket["workers"]))
    control = memory.private_bytes(os.getpid())
    capacity = memory.room_for_chunks(ticket["limit"], ticket["workers"], control)
    folders = Folders.make(f"{ticket['cluster']}-{ticket['host']}-{secrets.token_hex(2)}", ticket["spill"])
    arena_fd = os.memfd_create(f"jmars-{ticket['cluster']}-{ticket['host']}", os.MFD_CLOEXEC)
    lock = folders.lock()  # held until both the janitor and this process have ended
    janitor, alive = start_janitor(folders, ticket["kernel"], [answer, arena_fd])
    arena = Arena(arena_fd, capacity)
    zygote = start_zygote(arena_fd, arena.size, [answer, alive, lock])

    async def serve_until_the_end() -> None:
        await _run(ticket, folders, zygote, janitor, arena, answer)
        os._exit(0)

    asyncio.run(serve_until_the_end())


async def _run(
    ticket: dict[str, Any], folders: Folders, zygote: Zygote, janitor: int, arena: Arena, answer: int
) -> None:
    member = Member(ticket, folders, zygote, janitor, arena)
    link = await connect(ticket["head"][0], ticket["secret"], member.mailbox, lambda _: member.ended.set())
    member.link = link
    async with asyncio.timeout(JOIN_SECONDS):
        await link.ask("roster", "join", ticket["host"], member.facts())
    member.start()
    await member.machine.ready()
    link.tell("roster", "ready", ticket["host"])
    _say(answer, {"host": ticket["host"], "pid": os.getpid(), "janitor": janitor})
    await member.ended.wait()
    await member.close()


def _say(answer: int, told: dict[str, Any]) -> None:
    os.write(answer, json.dumps(told).encode() + b"\n")
    os.close(answer)
