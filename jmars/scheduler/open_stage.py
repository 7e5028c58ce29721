"""Opens a job, or its next stage, on the workers: chunk numbers, inputs from outside, then the job's table."""

from __future__ import annotations

from jmars.scheduler.fitting import refuse_unfit
from jmars.scheduler.prepare import Ready
from jmars.scheduler.scheduler_context import SchedulerContext
from jmars.scheduler.stage_listener import StageListener
from jmars.scheduler.stage_run import StageRun
from jmars.scheduler.stages import Stages

__all__ = ["open_stage"]


def open_stage(
    job: str, number: int, listener: StageListener, context: SchedulerContext, ready: Ready, stages: Stages | None
) -> StageRun:
    """Open a job, or the next stage of a job, on the workers; an exception leaves no change.

    Raises
    ------
    ClusterError
        If a tensor that it reads was dropped, or too many jobs are open.
    ChunkLostError
        If chunks of it were lost.
    MemoryLimitError
        If one of its operands does not fit in memory by itself.
    """
    prepared, bound = ready
    most = prepared.hungriest
    machine = None if context.machine is None else context.machine()
    if most is not None and machine is not None and most.nbytes > machine.largest:
        what = prepared.blame(most.operand, bound)[0]
        refuse_unfit(most, machine.largest, what, machine.advice, machine.giver())
    meta, port = context.meta, context.port
    table = prepared.open(job, number, context.take_chunks(prepared.plan.dag.n), bound)
    given: dict[int, int] = {}
    if stages is not None:
        stages.hold(meta)
    for name, operands in prepared.stored.items():
        key = bound.key(name)
        held = meta.chunks(key if stages is None else stages.name(key))
        for operand, index in operands:
            given[operand] = table.chunk[operand] = held[index]
    run = StageRun(job, listener, context, ready, table, given)
    try:
        port.open_job(table)
    except Exception:
        prepared.pool.release(run.operands.counters)
        raise
    meta.hold(given.values())
    if stages is not None:
        port.free_chunks(stages.begin(meta))
    return run
