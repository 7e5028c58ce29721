"""A job on several hosts: operands that hosts have, and the hosts that have not closed it yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jmars.model.failure import Failure
from jmars.model.messages import JobTable
from jmars.plan.plan_graph import GPU_ONLY, is_for_gpu

__all__ = ["HostJob", "gpu_bytes"]


def gpu_bytes(table: JobTable, operand: int) -> int:
    """Bytes that inputs, output and scratch of an operand take on a GPU."""
    return table.nbytes[operand] + table.work[operand] + sum(table.nbytes[one] for one in table.inputs[operand])


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
    waits, runs
        By host: operands that wait there and may go elsewhere, and how many run. Operands for GPUs count in neither.
    for_gpus
        By host: operands for GPUs that were sent and have not ended.
    called_back
        Operands that a host shall give up, and the host that they go to then.
    missed
        By operand, how often a host lacked an input that another host had.
    leaving
        Leaving hosts that were told to close the job before the job's end.
    closing, measured
        Whether hosts were told to close the job, and what they measured.
    refused
        Why a host cannot open the job; the job is closed on the others.
    """

    table: JobTable
    opened: set[int] = field(default_factory=set)
    at: dict[int, int] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    waits: dict[int, set[int]] = field(default_factory=dict)
    runs: dict[int, int] = field(default_factory=dict)
    for_gpus: dict[int, int] = field(default_factory=dict)
    called_back: dict[int, int] = field(default_factory=dict)
    missed: dict[int, int] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)
    closing: bool = False
    measured: list[Mapping[str, Any]] = field(default_factory=list)
    refused: Failure | None = None

    @cached_property
    def neediest(self) -> int:
        """The operand that takes most memory of a GPU, of those that must run on one; -1 if there are none."""
        must = [one for one, device in enumerate(self.table.device) if device == GPU_ONLY]
        return max(must, key=lambda one: gpu_bytes(self.table, one), default=-1)

    def send(self, operands: Iterable[int], host: int) -> None:
        """A host is sent operands; those that another host gave up wait here now."""
        at, pinned, device = self.at, self.table.pinned, self.table.device
        waits = self.waits.setdefault(host, set())
        for operand in operands:
            if operand in at:
                self.leave([operand])
            at[operand] = host
            if device and is_for_gpu(device, operand):
                self.for_gpus[host] = self.for_gpus.get(host, 0) + 1
            elif operand not in pinned:
                waits.add(operand)

    def start(self, operands: Iterable[int], host: int) -> None:
        """Workers of a host took operands; no effect on operands that the host has not."""
        at, running, waits, device = self.at, self.running, self.waits.get(host, set()), self.table.device
        for operand in operands:
            if at.get(operand) == host and operand not in running:
                running.add(operand)
                waits.discard(operand)
                if not (device and is_for_gpu(device, operand)):
                    self.runs[host] = self.runs.get(host, 0) + 1

    def leave(self, operands: Iterable[int]) -> None:
        """Operands ended on their host, one way or another."""
        at, running, called_back, device = self.at, self.running, self.called_back, self.table.device
        for operand in operands:
            host = at.pop(operand, -1)
            if device and host >= 0 and is_for_gpu(device, operand):
                running.discard(operand)
                self.for_gpus[host] -= 1
            elif operand in running:
                running.discard(operand)
                self.runs[host] -= 1
            elif host >= 0:
                self.waits[host].discard(operand)
            if called_back:
                called_back.pop(operand, None)

    def call_back(self, targets: Mapping[int, int]) -> None:
        """A host shall give up operands that wait there, for other hosts."""
        for operand in targets:
            self.waits[self.at[operand]].discard(operand)
        self.called_back.update(targets)

    def waiting(self, host: int) -> list[int]:
        """Operands that wait on a host and may go to another one, the last by rank first."""
        return sorted(self.waits.get(host, ()), key=self.table.rank.__getitem__, reverse=True)

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
