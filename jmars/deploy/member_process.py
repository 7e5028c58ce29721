"""The process of a host that joins a cluster: `python -m jmars host --join FILE`, or `--join -` for standard input.

A ticket, one line of JSON, names the head and lets the host join. A file is for hosts that people or batch systems
start: the log goes to standard error, and the exit status tells whether the host joined. The process forks the janitor
and the zygote first, while there is no thread; then it joins, and answers with one line on standard output.

A guest has a ticket without a secret: it writes a request for a certificate before, and reads the certificate from
standard input.

A host that the head gave up, for instance for its silence, starts again in the same process: without jobs and chunks,
under the next incarnation.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import select
import signal
import stat
import sys
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from jmars.actors.lasting import LastingChannel
from jmars.actors.tls import HEAD, Identity, client_context
from jmars.actors.tls_link import connect_tls
from jmars.deploy import memory
from jmars.deploy.beats import Beats, beats_order
from jmars.deploy.control_process import FaultIsolation, process_settings
from jmars.deploy.folders import Folders, sweep
from jmars.deploy.janitor import LEAVE, start_janitor
from jmars.deploy.member import Member
from jmars.deploy.tickets import Ticket, certified, enrol, read_ticket
from jmars.devices.find import gpu_names
from jmars.errors import JmarsError, fault_of
from jmars.storage import Arena
from jmars.tensor.engine import NoComputeEngine, set_engine
from jmars.worker import start_zygote

log = logging.getLogger("jmars.host")

JOIN_SECONDS = 20.0
LEAST_SECONDS = 3.0  # after joining, before which a host that is refused does not try again
LOOK_SECONDS = 1.0  # between two looks at the silence of the head
WAKE_SECONDS = 1.0  # after which a janitor that has not ended is woken
AGAIN = "JMARS_AGAIN"  # variable of a process that starts itself again: descriptors of the ticket and of the answer


def main(source: str = "-") -> None:
    """Be a host until the head ends it; exit with status 1 where a host with a file could not join."""
    again = [int(fd) for fd in os.environ.pop(AGAIN, "").split()]
    answer = Answer(again[1] if again and again[1] >= 0 else os.dup(1))
    try:
        ticket = _ticket_again(again[0]) if again else read_ticket(source)
        starter = Starter(answer) if ticket.secret is None else None
        if source != "-":
            _set_environment(process_settings(ticket.threads or 1))
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)  # what users print goes to the log
        if os.getpgrp() != os.getpid():
            os.setsid()  # the janitor ends the process group
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
        _serve(ticket, answer, source, starter)
    except (JmarsError, ValueError) as error:
        answer.say({"error": str(error)})
        if source != "-":
            sys.exit(f"this host does not join: {error}")


def _set_environment(settings: dict[str, str]) -> None:
    """Start this process again with variables that libraries read at their import; no effect if all are set."""
    if any(os.environ.get(name) != value for name, value in settings.items()):
        sys.stdout.flush()
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **settings})


def _ticket_again(fd: int) -> Ticket:
    """The ticket of a process that has started itself again."""
    with open(fd, "rb") as file:
        return read_ticket("-", file)


def _start_again(again: Again, janitor: int, alive: int, answer: int) -> None:
    """Start this process again, without other processes, files and shared memory; never returns."""
    os.write(alive, LEAVE)
    _wait_for_janitor(janitor)
    fd = os.memfd_create("jmars-ticket")
    os.write(fd, again.ticket.line())
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    if answer >= 0:
        os.set_inheritable(answer, True)
    os.execve(sys.executable, sys.orig_argv, {**os.environ, **again.environment, AGAIN: f"{fd} {answer}"})


def _wait_for_janitor(janitor: int) -> None:
    """Wait until the janitor has ended, as the last process of the group; wake it if it is stopped."""
    ended = os.pidfd_open(janitor)
    while not select.select([ended], [], [], WAKE_SECONDS)[0]:
        os.kill(janitor, signal.SIGCONT)  # no effect on a process that runs
    os.close(ended)
    os.waitpid(janitor, 0)


class Again(NamedTuple):
    """How a host starts again: the ticket, and variables of its environment."""

    ticket: Ticket
    environment: dict[str, str]


class Answer:
    """The single line by which the process answers who started it, on what was standard output.

    Attributes
    ----------
    fd
        Descriptor of the output; -1 after the answer.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def say(self, told: dict[str, Any]) -> None:
        """Answer; no effect after an answer, or where nobody listens any more."""
        if self.fd < 0:
            return
        self.ask(told)
        os.close(self.fd)
        self.fd = -1

    def ask(self, told: dict[str, Any]) -> None:
        """Write a line before the answer."""
        try:
            os.write(self.fd, json.dumps(told).encode() + b"\n")
        except BrokenPipeError:
            log.warning("who started this host did not wait for its answer")


class Starter:
    """The process that started a guest, at the other end of the standard streams; the guest ends with the starter.

    Attributes
    ----------
    fd
        Descriptor of what was standard input; it closes when the starter ends.
    pid
        Process that started this one; the janitor watches it.
    """

    def __init__(self, answer: Answer) -> None:
        self.fd, self.pid = os.dup(0), os.getppid()
        self._answer = answer

    def certificate(self, request: bytes) -> bytes:
        """The certificate for a request; blocks. Empty where the starter has ended."""
        self._answer.ask({"request": request.decode("ascii")})
        line = b""
        while not line.endswith(b"\n"):
            data = os.read(self.fd, 65536)
            if not data:
                return b""
            line += data
        return str(json.loads(line)["certificate"]).encode()

    def watch(self, ended: asyncio.Event) -> None:
        """Set `ended` when the starter has ended."""

        def hear() -> None:
            if not os.read(self.fd, 65536):
                asyncio.get_running_loop().remove_reader(self.fd)
                log.info("the host ends: the process that started it has ended")
                ended.set()

        asyncio.get_running_loop().add_reader(self.fd, hear)


def _serve(ticket: Ticket, answer: Answer, source: str, starter: Starter | None) -> None:
    sweep()
    limit, workers = memory.chosen_limit(ticket.limit), ticket.workers or memory.usable_cores()
    gpus = gpu_names(ticket.gpus)
    orders = {"limit": limit, "workers": workers, "gpus": gpus}
    set_engine(NoComputeEngine(limit, workers))
    capacity = memory.room_for_chunks(limit, workers + len(gpus), memory.private_bytes(os.getpid()))
    folders = Folders.make(f"{ticket.cluster}-{ticket.host}-{secrets.token_hex(2)}", ticket.spill)
    lock = folders.lock()  # tells `sweep` that this process or the janitor lives
    log_file = _keep_log(folders) if source == "-" else ""
    arena_fd = os.memfd_create(f"jmars-{ticket.cluster}-{ticket.host}", os.MFD_CLOEXEC)
    ours, parent = ([answer.fd, starter.fd], starter.pid) if starter else ([answer.fd], 0)
    janitor, alive = start_janitor(folders, parent, [*ours, arena_fd], Beats(os.getpid()))
    arena = Arena(arena_fd, capacity)
    zygote = start_zygote(arena_fd, arena.size, [*ours, alive, lock])

    async def serve_until_the_end() -> None:
        try:
            member = Member(orders, folders, zygote, janitor, arena)
            again = await _run(ticket, member, answer, log_file, alive, source, starter)
        except Exception as error:  # whatever it is, who started the host must hear of it
            known = isinstance(error, JmarsError | TimeoutError)
            why = (str(error) or "the head does not answer") if known else fault_of(error)
            log.error("the host ends: %s", why, exc_info=source == "-" or not known)
            answer.say({"error": why})
            os._exit(source != "-")
        if again is not None:
            _start_again(again, janitor, alive, answer.fd)
        os._exit(0)

    asyncio.run(serve_until_the_end())


def _keep_log(folders: Folders) -> str:
    """Write to a file of our own where standard error ends with its reader, such as ssh; returns its path, "" for none.

    Who prints would fail then, users' functions, too.
    """
    status = os.fstat(2)
    if stat.S_ISREG(status.st_mode) and status.st_nlink:
        return ""
    fd = os.open(folders.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    return str(folders.log)


async def _run(
    ticket: Ticket,
    member: Member,
    answer: Answer,
    log_file: str,
    alive: int,
    source: str,
    starter: Starter | None,
) -> Again | None:
    """Join, and compute until the head ends the host, or is silent for as long as the lease.

    The janitor reads `alive`, and beats from when the host has joined. Returns how the host starts again if the head
    has given it up.
    """
    if starter is None:
        identity, credentials, left = await enrol(ticket)
    else:
        async with asyncio.timeout(JOIN_SECONDS):
            identity, credentials, left = await asyncio.to_thread(certified, ticket, starter.certificate)
        starter.watch(member.ended)
    if source != "-":
        for number in (signal.SIGINT, signal.SIGTERM):  # of a person, of a batch system
            asyncio.get_running_loop().add_signal_handler(number, member.ended.set)
        if not left:
            Path(source).unlink(missing_ok=True)  # nobody else can join by it
    ticket = structs.replace(ticket, host=identity.host, incarnation=identity.incarnation)
    link = LastingChannel(member.mailbox, ticket.identity, Identity(HEAD, 0))
    member.link = link
    _isolate_faults(link, member)
    member.joined(ticket, credentials)
    async with asyncio.timeout(JOIN_SECONDS):
        await connect_tls(link, ticket.head, client_context(credentials), ticket.cluster)
        told = await link.ask("roster", "join", member.facts())
    joined = asyncio.get_running_loop().time()
    number, secret = told["again"]
    ticket_again = structs.replace(ticket, host=HEAD, incarnation=number, secret=secret)
    if told["environment"]:
        await member.close()
        link.close()
        return Again(ticket_again, told["environment"])
    os.write(alive, beats_order(ticket.head, ticket.cluster, credentials, ticket.lease))
    member.start()
    await member.ready(JOIN_SECONDS)
    answer.say({"host": ticket.host, "pid": os.getpid(), "janitor": member.machine.janitor, "log": log_file})
    waits = (_lease(link, ticket.lease), member.ended.wait(), link.ended.wait(), member.again.wait())
    ends = [asyncio.ensure_future(one) for one in waits]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    is_stale = not ends[0].done() and not member.ended.is_set()
    for task in ends:
        task.cancel()
    await member.close()
    link.close()
    log.info("the host ends: %s", link.why)
    is_early = asyncio.get_running_loop().time() - joined < LEAST_SECONDS and not member.again.is_set()
    if starter is not None or not is_stale or not number or is_early:  # the head starts another guest
        return None
    return Again(ticket_again, member.environment)


def _isolate_faults(link: LastingChannel, member: Member) -> None:
    """A callback that raises ends the jobs that run here; a host that fails again and again ends."""

    def give_up(why: str) -> None:
        link.give_up(why)
        member.ended.set()

    isolation = FaultIsolation(member.break_jobs, give_up)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: isolation.handle(context))


async def _lease(link: LastingChannel, seconds: float) -> None:
    """Return when the head was silent for so many seconds in which this process ran."""
    loop = asyncio.get_running_loop()
    slack, heard, before = 0.0, link.last_heard, loop.time()
    while (left := link.last_heard + slack + seconds - before) > 0:
        await asyncio.sleep(min(left, LOOK_SECONDS))
        stalled = loop.time() - before - 2 * LOOK_SECONDS
        if link.last_heard > heard:
            slack = 0.0
        slack += max(0.0, stalled)
        heard, before = link.last_heard, loop.time()
    log.warning("the head has not been heard for %g s", seconds)
