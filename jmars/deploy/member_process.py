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
from typing import Any

from jmars.actors.lasting import LastingChannel
from jmars.actors.tls import HEAD, Identity, client_context
from jmars.actors.tls_dial import connect_tls
from jmars.deploy import memory
from jmars.deploy.enrolment import enrol
from jmars.deploy.folders import Folders, sweep
from jmars.deploy.janitor import start_janitor
from jmars.deploy.member import Member
from jmars.deploy.tickets import Ticket, read_ticket
from jmars.errors import JmarsError
from jmars.storage import Arena
from jmars.tensor.engine import NoComputeEngine, set_engine
from jmars.worker import start_zygote

__all__ = ["main"]

log = logging.getLogger("jmars.host")

JOIN_SECONDS = 20.0


def main() -> None:
    """Be a host until the head ends it."""
    try:
        ticket = read_ticket("-")
    except JmarsError as error:
        _say(os.dup(1), {"error": str(error)})
        return
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


def _serve(ticket: Ticket, answer: int) -> None:
    sweep()
    limit, workers = memory.chosen_limit(ticket.limit), ticket.workers or memory.usable_cores()
    orders = {"limit": limit, "workers": workers, "threads": ticket.threads or 1}
    set_engine(NoComputeEngine(limit, workers))
    capacity = memory.room_for_chunks(limit, workers, memory.private_bytes(os.getpid()))
    folders = Folders.make(f"{ticket.cluster}-{ticket.host}-{secrets.token_hex(2)}", ticket.spill)
    arena_fd = os.memfd_create(f"jmars-{ticket.cluster}-{ticket.host}", os.MFD_CLOEXEC)
    lock = folders.lock()  # held until both the janitor and this process have ended
    janitor, alive = start_janitor(folders, 0, [answer, arena_fd])
    arena = Arena(arena_fd, capacity)
    zygote = start_zygote(arena_fd, arena.size, [answer, alive, lock])

    async def serve_until_the_end() -> None:
        try:
            await _run(ticket, Member(orders, folders, zygote, janitor, arena), answer)
        except (JmarsError, TimeoutError) as error:
            log.error("the host did not join: %s", error)
            _say(answer, {"error": str(error) or "the head does not answer"})
        os._exit(0)

    asyncio.run(serve_until_the_end())


async def _run(ticket: Ticket, member: Member, answer: int) -> None:
    """Join, and compute until the head ends the host, or is silent for as long as the lease."""
    credentials = await enrol(ticket)

    def ended(channel: LastingChannel, why: str) -> None:
        log.info("the host ends: %s", why)
        member.ended.set()

    link = LastingChannel(member.mailbox, ticket.identity, Identity(HEAD, 0), on_end=ended)
    member.link = link
    async with asyncio.timeout(JOIN_SECONDS):
        await connect_tls(link, ticket.head, client_context(credentials), ticket.cluster)
        await link.ask("roster", "join", member.facts())
    member.start()
    await member.machine.ready()
    link.tell("roster", "ready")
    _say(answer, {"host": ticket.host, "pid": os.getpid(), "janitor": member.machine.janitor})
    lease = asyncio.ensure_future(_lease(link, ticket.lease))
    await member.ended.wait()
    lease.cancel()
    await member.close()
    link.close()


async def _lease(link: LastingChannel, seconds: float) -> None:
    """Give the head up when it is silent for so many seconds."""
    loop = asyncio.get_running_loop()
    while (left := link.last_heard + seconds - loop.time()) > 0:
        await asyncio.sleep(left)
    link.give_up(f"the head has not been heard for {seconds:g} s")


def _say(answer: int, told: dict[str, Any]) -> None:
    os.write(answer, json.dumps(told).encode() + b"\n")
    os.close(answer)
