"""Chooses hosts, and workers of a host, for operands of GPUs: pure functions of the hosts' rows.

Source: docs/explanation/devices.md, "On several hosts".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jmars.model.messages import JobTable
from jmars.plan.plan_graph import GPU_ONLY, is_for_gpu
from jmars.scheduler.host_jobs import gpu_bytes
from jmars.scheduler.host_rows import HostRow

__all__ = ["able_hosts", "suits", "workers_of"]


def suits(row: HostRow, table: JobTable, operand: int) -> bool:
    """Whether a host has a warm GPU with room for an operand; True for operands of cores."""
    return not is_for_gpu(table.device, operand) or row.fits_gpu(gpu_bytes(table, operand))


def able_hosts(
    table: JobTable, operand: int, here: list[HostRow], staying: list[HostRow], leaving: list[HostRow]
) -> list[HostRow]:
    """Hosts that may get an operand: a choice from `here`, for most operands.

    Hosts with room on a warm GPU get operands for GPUs. Where there is none, cores run the operand. An operand that
    no core may run waits on a host of `staying` for a GPU that is cold, else goes to a host of `leaving`, which have
    the job open; where none of them can run it, a host refuses it.
    """
    if not is_for_gpu(table.device, operand):
        return here
    needs = gpu_bytes(table, operand)
    found = [row for row in here if row.fits_gpu(needs)]
    if not found and table.device[operand] == GPU_ONLY:
        found = (
            [row for row in staying if row.may_fit_gpu(needs)]
            or [row for row in leaving if row.may_fit_gpu(needs)]
            or [row for row in staying if row.may_have_gpu]
        )
    return found or here


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
