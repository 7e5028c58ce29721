"""Chooses hosts, and workers of a host, for operands of GPUs: pure functions of the hosts' rows.

Source: docs/explanation/devices.md, "On several hosts".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jmars.model.messages import JobTable
from jmars.plan.plan_graph import GPU_ONLY, is_for_gpu
from jmars.scheduler.host_rows import HostRow

__all__ = ["able_hosts", "suits", "workers_of"]


def suits(row: HostRow, table: JobTable, operand: int) -> bool:
    """Whether a host has a warm GPU with room for an operand; True for operands of cores."""
    return not is_for_gpu(table.device, operand) or row.fits_gpu(_needs(table, operand))


def able_hosts(table: JobTable, operand: int, here: list[HostRow], staying: Sequence[HostRow]) -> list[HostRow]:
    """Hosts that may get an operand: a choice from `here`.

    Hosts with room on a warm GPU get operands for GPUs. Where there is none, cores run the operand; an operand that
    no core may run waits on a host of `staying` for a cold GPU, or is refused by a host.
    """
    if not is_for_gpu(table.device, operand):
        return here
    needs, must = _needs(table, operand), table.device[operand] == GPU_ONLY
    fit = [row for row in here if row.fits_gpu(needs)]
    return fit or (must and [row for row in staying if row.may_have_gpu]) or here


def workers_of(row: HostRow, table: JobTable, operands: Sequence[int], planned: Mapping[int, int]) -> list[int]:
    """Workers of a host for operands, by the host's own numbers: planned GPUs, else GPUs and cores in turn.

    Parameters
    ----------
    planned
        Number in the cluster of the worker that is planned for an operand.
    """
    chosen = []
    for operand in operands:
        worker = planned.get(operand, -1) - row.first
        if not (row.gpus and is_for_gpu(table.device, operand)):
            worker = row.turn % row.cores
            row.turn += 1
        elif not row.cores <= worker < row.workers:
            worker = row.cores + row.gpu_turn % len(row.gpus)
            row.gpu_turn += 1
        chosen.append(worker)
    return chosen


def _needs(table: JobTable, operand: int) -> int:
    """Bytes that inputs, output and scratch of an operand take on a GPU."""
    return table.nbytes[operand] + table.work[operand] + sum(table.nbytes[one] for one in table.inputs[operand])
