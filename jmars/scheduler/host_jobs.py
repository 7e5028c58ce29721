"""A job on several hosts: operands that hosts have, and the hosts that have not closed it yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jmars.model.failure import Failure
from jmars.model.messages import JobTable

__all__ = ["HostJob"]


@dataclass(eq=False)
class HostJob:
    """A job that hosts have opened.

    Attributes
    ----------
    opened
        Hosts that have the job open.
    at
        Host of each operand that was sent and has not ended.
    running
        Operands that a worker took.
    called_back
        Operands that a host shall give up, and the host that they go to then.
    missed
        By operand, how often a host lacked an input that another host had.
    closing, measured
        Whether hosts were told to close the job, and what they measured.
    refused
        Why a host cannot open the job; the job is closed on the others.
    """

    table: JobTable
    opened: set[int] = field(default_factory=set)
    at: dict[int, int] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    called_back: dict[int, int] = field(default_factory=dict)
    missed: dict[int, int] = field(default_factory=dict)
    closing: bool = False
    measured: list[Mapping[str, Any]] = field(default_factory=list)
    refused: Failure | None = None

    def leave(self, operands: Iterable[int]) -> None:
        """Operands ended on their host, one way or another."""
        at, running, called_back = self.at, self.running, self.called_back
        for operand in operands:
            at.pop(operand, None)
            running.discard(operand)
            if called_back:
                called_back.pop(operand, None)

    def waiting(self, host: int) -> list[int]:
        """Operands that wait on a host and may go to another one, the last by rank first."""
        stay, rank = {*self.running, *self.called_back, *self.table.pinned}, self.table.rank
        found = [operand for operand, at in self.at.items() if at == host and operand not in stay]
        return sorted(found, key=rank.__getitem__, reverse=True)

    def taken_from(self, host: int) -> list[int]:
        """Operands that a host has; they are taken from the host."""
        found = [operand for operand, at in self.at.items() if at == host]
        self.leave(found)
        return found

    def merged(self) -> dict[str, Any]:
        """Measurements of all hosts: the longest makespan, sums of bytes, everything else of the first host."""
        found: dict[str, Any] = {}
        for told in self.measured:
            for name, value in told.items():
                if name not in found:
                    found[name] = value
                elif name == "makespan":
                    found[name] = max(found[name], value)
                elif isinstance(value, int | float) and not isinstance(value, bool):
                    found[name] += value
        return found
