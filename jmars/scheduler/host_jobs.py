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
    blob
        The pickled table, for hosts that come later.
    opened
        Hosts that have the job open.
    at
        Host of each operand that was sent and has not ended.
    missed
        By operand, how often a host lacked an input that another host had.
    closing, measured
        Whether hosts were told to close the job, and what they measured.
    refused
        Why a host cannot open the job; the job is closed on the others.
    """

    table: JobTable
    blob: bytes
    opened: set[int] = field(default_factory=set)
    at: dict[int, int] = field(default_factory=dict)
    missed: dict[int, int] = field(default_factory=dict)
    closing: bool = False
    measured: list[Mapping[str, Any]] = field(default_factory=list)
    refused: Failure | None = None

    def leave(self, operands: Iterable[int]) -> None:
        """Operands ended on their host, one way or another."""
        for operand in operands:
            self.at.pop(operand, None)

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
