"""Operands for workers with a GPU, and their slots in the GPU's memory as the executor gets them."""

from __future__ import annotations

from typing import Any

from jmars.devices.device_program import device_program
from jmars.dispatch.workers import Worker
from jmars.memory.device_slots import DeviceSlots
from jmars.model.messages import JobTable
from jmars.plan.plan_graph import GPU

__all__ = ["device_order", "is_for", "is_for_gpu", "runs_on_device"]


def is_for_gpu(table: JobTable, operand: int) -> bool:
    """Whether an operand is planned for a GPU."""
    return bool(table.device) and table.device[operand] == GPU


def is_for(worker: Worker, table: JobTable, operand: int) -> bool:
    """Whether a worker is of the kind that an operand is planned for."""
    return worker.has_gpu == is_for_gpu(table, operand)


def runs_on_device(table: JobTable, row: int) -> bool:
    """Whether a GPU can run a program of a job."""
    return device_program(table.programs[row]) is not None


def device_order(slots: DeviceSlots, table: JobTable, operand: int) -> tuple[Any, ...] | None:
    """The grant of an operand (`RunOnDevice`); None where the GPU has less memory."""
    program = table.programs[table.program[operand]]
    found = device_program(program)
    assert found is not None
    chunks = [table.chunk[i] for i in table.inputs[operand]]
    sizes = [kind.nbytes for kind in program.inputs]
    out = table.chunk[operand]
    grant = slots.grant(list(zip(chunks, sizes, strict=True)), (out, program.output.nbytes), found.scratch)
    return None if grant is None else (grant.inputs, chunks, grant.out, out, grant.scratch)
