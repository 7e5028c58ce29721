"""What goes wrong in one run, drawn from its seed.

Each kind of fault is on in some runs only, so that its rare consequences are common where it is on. Counts are bounded:
what a run may lose is no more than what the promise covers. Source: FoundationDB's BUGGIFY; RELIABILITY 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random

__all__ = ["Faults"]


@dataclass
class Faults:
    """Shares of events that go wrong, and how often at most; 0 where a kind is off."""

    executor_dies: float = 0.0  # share of operands during which the executor is killed
    executor_deaths: int = 2  # in all: fewer than an operand survives
    executor_stops: float = 0.0  # share of operands during which a signal or a freezer stops the executor for a while
    ignores_stop: float = 0.0  # share of operands that do not look whether their job was stopped
    straggles: float = 0.0  # share of operands that take a hundred times as long
    mover_dies: float = 0.0  # share of the mover's orders
    mover_deaths: int = 2  # fewer than give up what a mover had
    disk_refuses: float = 0.0  # share of writes that fail
    disk_loses: float = 0.0  # share of reads before which something happens to a file
    disk_size: int = 2**40  # bytes
    disk_slow: float = 1.0
    apart: int = 0  # whether the scheduler is a process of its own
    scheduler_deaths: int = 0  # how often that dies
    wire_late: float = 0.0  # share of frames between the two that are late
    cancels: float = 0.0  # share of jobs
    stalls: float = 0.0  # share of callbacks before which the control process stood still for a while
    repeats: float = 0.0  # share of reports that reach the scheduler twice
    # of several hosts; the first host is spared what would lose it
    cuts: int = 0  # how often nothing passes between two hosts, or one way, for a while
    resets: int = 0  # how often connections of a host break
    host_deaths: int = 0  # hosts that are switched off, or whose processes are killed
    host_stops: int = 0  # how often the control process of a host is stopped
    newcomers: int = 0  # hosts that join later
    leavers: int = 0  # hosts that are asked to leave
    returns: float = 0.0  # share of lost hosts that join again as another incarnation
    bytes_change: float = 0.0  # share of chunks between hosts that change on their way
    carrier_dies: float = 0.0  # share of orders after which a carrier is killed
    carrier_deaths: int = 3
    pieces: float = 0.0  # share of uploaded chunks that come in pieces
    echoes: float = 0.0  # share of messages that come once more when what they are about is over
    late: float = 0.0  # share of messages that are a second late, and all behind them

    @classmethod
    def drawn(cls, random: Random) -> Faults:
        """The faults of one run."""
        on = lambda share, value: value if random.random() < share else 0  # noqa: E731
        apart = random.random() < 0.3
        return cls(
            apart=int(apart),
            scheduler_deaths=random.choice((0, 0, 1, 3)) if apart else 0,
            wire_late=random.choice((0.0, 0.02, 0.2)) if apart else 0.0,
            executor_dies=on(0.4, 0.05),
            executor_stops=on(0.2, 0.02),
            ignores_stop=on(0.3, 0.3),
            straggles=on(0.2, 0.05),
            mover_dies=on(0.3, 0.1),
            disk_refuses=on(0.2, 0.1),
            disk_loses=on(0.2, 0.1),
            disk_size=random.choice((2**40, 2**40, 2**40, 100_000)),
            disk_slow=random.choice((1.0, 1.0, 30.0)),
            cancels=on(0.4, 0.4),
            stalls=on(0.2, 0.01),
            repeats=on(0.3, 0.1),
            echoes=on(0.5, 0.2),
            late=on(0.3, 0.02),
        )

    @classmethod
    def drawn_for_hosts(cls, random: Random, hosts: int) -> Faults:
        """The faults of one run of several hosts."""
        on = lambda share, value: value if random.random() < share else 0  # noqa: E731
        faults = cls(
            executor_dies=on(0.2, 0.05),
            executor_stops=on(0.1, 0.02),
            ignores_stop=on(0.2, 0.3),
            straggles=on(0.2, 0.05),
            mover_dies=on(0.2, 0.1),
            disk_refuses=on(0.1, 0.1),
            disk_loses=on(0.1, 0.1),
            disk_size=random.choice((2**40, 2**40, 2**40, 2**40, 100_000)),
            disk_slow=random.choice((1.0, 1.0, 30.0)),
            cancels=on(0.3, 0.4),
            stalls=on(0.1, 0.002),
            repeats=on(0.2, 0.1),
            cuts=on(0.5, random.choice((1, 3))),
            resets=on(0.4, random.choice((1, 4))),
            host_deaths=on(0.3, random.randint(1, hosts - 1)),
            host_stops=on(0.2, 1),
            newcomers=on(0.2, 1),
            leavers=on(0.2, 1),
            returns=on(0.6, 0.7),
            bytes_change=on(0.3, 0.1),
            carrier_dies=on(0.3, 0.05),
            carrier_deaths=2,
            pieces=on(0.5, 0.5),
            echoes=on(0.5, 0.2),
            late=on(0.3, 0.02),
        )
        own = Random()  # so that what is drawn after these stays the same
        own.setstate(random.getstate())
        if own.random() < 0.3:
            faults.apart, faults.scheduler_deaths = 1, own.choice((0, 1, 1, 3))
            faults.wire_late = own.choice((0.0, 0.02, 0.2))
        return faults

    def __str__(self) -> str:
        quiet = Faults()
        on = [one.name for one in fields(self) if getattr(self, one.name) != getattr(quiet, one.name)]
        return ", ".join(f"{name}={getattr(self, name):g}" for name in on) or "none"
