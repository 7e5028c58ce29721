"""Messages that come once more, as soon as what they are about is over: then they must have no effect.

Each handler of messages between hosts and processes is tapped: orders, reports, news of peers, and what children say.
Not repeated are OpenJob and LocateChunks, which begin something: `Delivery` drops their doubles, as
tests/actors/test_delivery.py shows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from jmars.model import messages
from jmars.processes.executor_messages import INTERRUPTED, ExecutorReport

if TYPE_CHECKING:
    from tests.sim.members import SimHost
    from tests.sim.world import World

__all__ = ["Echoes"]

LATE = 0.2  # seconds until an echo, on average
TRIES = 12  # looks whether it is over, each twice as late as the one before


class Echoes:
    """Taps handlers of one run.

    Attributes
    ----------
    heard
        Number of echoes, by handler.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.heard: dict[str, int] = {}

    def tap(self, owner: Any, name: str, is_over: Callable[..., bool], what: str = "") -> None:
        """Have a method of `owner` called once more with some of its arguments when `is_over` of these holds."""
        handle, loop, share = getattr(owner, name), self._world.loop, self._world.faults.echoes
        called = what or f"{type(owner).__name__}.{name}"

        @wraps(handle)  # it may be a remote method
        def heard(*args: Any) -> Any:
            found = handle(*args)
            if share and loop.random.random() < share:
                loop.call_later(loop.random.expovariate(1 / LATE), again, args, TRIES)
            return found

        def again(args: Any, tries: int) -> None:
            if is_over(*args):
                self.heard[called] = self.heard.get(called, 0) + 1
                self._world.trace(f"an echo: {called}")
                handle(*args)
            elif tries:
                late = LATE * 2 ** (TRIES - tries)
                loop.call_later(loop.random.expovariate(1 / late), again, args, tries - 1)

        if share:
            setattr(owner, name, heard)

    def of_machine(self, execution: Any) -> None:
        """What executors and the mover say."""
        dispatch, buffers = execution.dispatch, execution.memory.buffers

        def is_done(worker: int, message: Any) -> bool:
            stop = ExecutorReport(*message).stop
            return not dispatch.workers[worker].batches and (stop is None or stop[0] == INTERRUPTED)

        self.tap(dispatch, "received", is_done)
        self.tap(buffers, "received", lambda _, message: message[0] == "disk" or not buffers._is_awaited(*message[:2]))

    def of_host(self, host: SimHost) -> None:
        """What the head and the carrier tell a host."""
        self.of_machine(host.execution)
        member, world = host.member, self._world
        carrier, known, places = member.exchange.carrier, member._orders._known, world.head.hosts.places  # type: ignore[attr-defined]

        def is_answered(link: Any, message: Any) -> bool:
            if link is not carrier._process:
                return True
            under_way = carrier._pulls if message[0] in ("pulled", "withdrawn") else carrier._asked
            return message[0] in ("link", "transport", "listening") or message[1] not in under_way

        def is_closed(order: Any) -> bool:
            if isinstance(order, messages.OpenJob | messages.LocateChunks):
                return False
            if isinstance(order, messages.FreeChunks | messages.KeepChunks):
                return not any(chunk in places.have or host.execution.chunks.is_here(chunk) for chunk in order.chunks)
            return order.job not in known.jobs

        def is_another(number: int, incarnation: int, *_: Any) -> bool:
            return (number, incarnation) in carrier._gone

        self.tap(carrier, "received", is_answered)
        self.tap(member._orders, "_act_on", is_closed)
        self.tap(member.exchange, "add_peer", is_another)
        self.tap(member.exchange, "drop_peer", is_another)

    def of_carrier(self, carrier: Any) -> None:
        """Orders of a carrier."""
        self.tap(carrier, "_pull", lambda ticket, *_: ticket not in carrier.puller._began, "carrier: pull")
        self.tap(carrier, "_withdraw", lambda ticket: ticket not in carrier.puller._began, "carrier: withdraw")
        self.tap(carrier, "_give", lambda request, _: request not in carrier.server._requests, "carrier: give")
        self.tap(carrier, "_peer", lambda host, number, _: (host, number) in carrier.gone, "carrier: peer")
        self.tap(carrier, "_gone", lambda *_: True, "carrier: gone")

    def of_head(self, head: Any) -> None:
        """Reports of hosts, one by one, and their addresses."""
        hosts, roster = head.hosts, head.roster
        jobs, places = hosts.jobs, hosts.places

        def is_over(number: int, told: Any) -> bool:
            (report,) = told
            if not hosts.rows[number].here:
                return True
            if isinstance(report, messages.ChunksLost | messages.ChunksCopied):
                return not any(chunk in places.have for chunk in report.chunks)
            job = getattr(report, "job", None)
            return job is not None and job not in jobs

        self.tap(hosts, "take", is_over)
        whole = hosts.take
        hosts.take = lambda number, told: [whole(number, [one]) for one in told]
        self.tap(roster, "lost", lambda number, *_: number not in roster.links)
        self.tap(roster, "heard_of", lambda number: number not in roster.links)
        self.tap(roster, "_suspect", lambda number, *_: number not in roster.links)
