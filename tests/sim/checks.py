"""What must hold after every event of a simulated run, and at its end.

The checks read everything and trust nothing: slots are counted against all who may hold one, states against a fold of
the events, the scheduler's rows against what lies at the host.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.model import events
from jmars.model.status import TERMINAL
from jmars.model.status import OperandState as S
from jmars.scheduler.lifecycle import LEGAL
from tests.sim.client import Wrong

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["Fold", "check", "check_end"]


class Fold:
    """States of operands as the events tell them; every move must be legal.

    `stored` tells whether an operand of a job stands for a chunk that was there before.
    """

    def __init__(self, stored: Callable[[str, int], bool]) -> None:
        self._stored = stored
        self.count = 0  # events told
        self.states: dict[str, dict[int, int]] = {}
        self.jobs: dict[str, str] = {}

    def told(self, kind: str, job: str, data: dict[str, Any]) -> None:
        """One more event."""
        self.count += 1
        if kind == events.GRAPH_BUILT:
            self.states[job] = {}
        elif kind == events.JOB_MOVED:
            before = self.jobs.get(job)
            if before in TERMINAL:
                raise Wrong(f"{job} went from {before} to {data['state']}")
            self.jobs[job] = data["state"]
        elif kind == events.OPERANDS_MOVED and data["state"] != S.SPILLED:
            known = self.states[job]
            after = data["state"]
            for operand in np.frombuffer(data["ids"], "<u4").tolist():
                before = known.get(operand, int(S.UNSCHEDULED))
                if operand not in known and self._stored(job, operand):
                    before = int(S.FINISHED)
                if after not in LEGAL[before] and before != after:
                    raise Wrong(f"operand {operand} of {job} went from {S(before).name} to {S(after).name}")
                known[operand] = after


def check(world: World) -> None:
    """After every event."""
    if world.loop.failures:
        raise Wrong(f"a callback raised: {world.loop.failures[0]}") from world.loop.failures[0].get("exception")
    for host in world.machines:
        if host.executor.torn:
            raise Wrong(host.executor.torn[0])
        if host.arena.changes or not world.loop.steps % 8:
            host.arena.changes = 0
            _check_slots(host)
            _check_devices(host.execution)
    if world.checked == world.fold.count and world.loop.steps % 16:
        return  # nothing that the rows tell has changed
    world.checked = world.fold.count
    for graph in world.session.graphs.values():
        if graph.state not in TERMINAL:
            _check_operands(world, graph)


def _check_devices(execution: Any) -> None:
    """Slots of GPUs have a holder each, and a chunk that only a GPU has is there."""
    for worker, gpu in execution.memory.devices._gpus.items():
        places = set(gpu.slots.places.values())
        pinned = [place for grant, _ in gpu.grants.values() for place in (*grant.inputs, grant.out)]
        pinned += [place for copies in gpu.downs.values() for place, _ in copies]
        held = {place.offset: place for place in (*places, *pinned)}
        held |= {grant.scratch: grant for grant, _ in gpu.grants.values() if grant.scratch >= 0}
        if set(held) != set(gpu.slots._allocator._sizes):
            raise Wrong(f"slots of GPU {worker}: {sorted(gpu.slots._allocator._sizes)}, held {held}")
        for chunk, kept in execution.chunks.on_device.items():
            if kept.worker == worker and not (chunk in gpu.slots.places and gpu.slots.places[chunk].is_there):
                raise Wrong(f"chunk {chunk} is said to be on GPU {worker}, and is not")


def _check_slots(world: Any) -> None:
    """Every slot of the arena has one holder, and every holder its slot."""
    arena = world.arena
    held = [slot for slots in _holders(world).values() for slot in slots]
    if len(held) != len(arena._sizes) or set(held) != set(arena._sizes):
        count = Counter(held)
        odd = {slot for slot, times in count.items() if times > 1} | set(held) ^ set(arena._sizes)
        who = {slot: [name for name, slots in _holders(world).items() if slot in slots] for slot in sorted(odd)}
        raise Wrong(f"slots and who holds them: {who}; nobody: leaked, several: held twice, one: free already")
    if arena.used != sum(arena._sizes.values()) or arena.used > arena.capacity:
        raise Wrong(f"the arena counts {arena.used} bytes of {arena.capacity}, slots are {sum(arena._sizes.values())}")


def _holders(world: Any) -> dict[str, list[int]]:
    """All who may hold slots, and the slots that each holds."""
    execution = world.execution
    memory = execution.memory
    storing, quota = memory.buffers, memory.quota
    requests = [*storing.queue, *storing.loading]
    dying = [child.gone for child in world.children.living.values() if child.gone is not None]
    return {
        "chunks": list(execution.chunks.memory.values()),
        "batches": [slot for worker in execution.workers for batch in worker.batches for slot in batch.outs if slot],
        "staged": [slot for _, _, slot in memory.staged if slot],
        "requests": [slot for one in requests for slot in one.slots],
        "promises": [slot for slots in quota._slots.values() for slot in slots],
        "private": [slot for own in quota.private.values() for slot in own.values()],
        "clients": list(world.store._reserved.values()),
        "quarantined": [slot for worker in execution.workers for slot in worker.quarantined if slot],
        "frozen": [slot for gone in dying for slot in inspect.getclosurevars(gone).nonlocals["slots"]],
        "fetches": [slot for _, slot in storing.reads.fetches.values()],
        "from GPUs": list(storing.reads.downs.values()),
        "gathers": [one.slot for one in storing.gathers._running.values() if one.done is None],
    }


def _check_operands(world: World, graph: Any) -> None:
    """The scheduler's rows agree with one another, with the events and with the host."""
    run = graph.stage
    if run is None or run.ended:
        return
    rows, table = run.operands, run.table
    by_state: dict[int, set[int]] = {int(state): set() for state in S}
    for operand, state in enumerate(rows.state):
        by_state[state].add(operand)
    chosen, owner = rows.chosen, rows.owner  # of several shards put together each time
    ready, running = by_state[S.READY], by_state[S.RUNNING] | by_state[S.CANCELLING]
    told = world.fold.states[graph.job]
    differ = {one: state for one, state in told.items() if rows.state[one] != state}
    if differ:
        raise Wrong(f"{graph.job}: events say {differ}, the rows are {[(one, rows.state[one]) for one in differ]}")
    if rows.running != len(running) or rows.load != [
        sum(worker == one for one in chosen.values()) for worker in range(len(rows.load))
    ]:
        raise Wrong(f"{graph.job}: counts {rows.running} running, load {rows.load}; {running} run on {chosen}")
    if set(chosen) != ready | running:
        raise Wrong(f"{graph.job}: workers are chosen for {sorted(chosen)}, not for {sorted(ready | running)}")
    held = [0] * len(rows.held)
    for operand in by_state[S.FINISHED]:
        if owner[operand] >= 0:
            held[owner[operand]] += rows.nbytes[operand]
    if held != rows.held:
        raise Wrong(f"{graph.job}: chunks of {held} bytes by worker, counted {rows.held}")
    world.check_job(graph)
    if world.is_spread:
        return  # reports and orders are on their way
    execution = world.execution
    waiting, sent = _at_host(execution, table)
    if sorted(waiting) != sorted(ready) or sorted(sent) != sorted(running):
        raise Wrong(
            f"{graph.job}: ready {sorted(ready)}, at the host wait {sorted(waiting)}; "
            f"running {sorted(running)}, at executors are {sorted(sent)}"
        )
    here = execution.chunks
    for operand in by_state[S.FINISHED]:
        chunk = table.chunk[operand]
        if not here.is_here(chunk) and not run._stopping:
            raise Wrong(f"{graph.job}: chunk {chunk} of operand {operand} is needed and not there")
    for operand in by_state[S.FREED]:
        chunk = table.chunk[operand]
        if table.program[operand] >= 0 and chunk not in here.doomed and here.is_here(chunk):
            raise Wrong(f"{graph.job}: chunk {chunk} of operand {operand} is freed and still there")


def _at_host(execution: Any, table: Any) -> tuple[list[int], list[int]]:
    """Operands of a job that wait at the host, and those that executors have."""
    waiting = execution.dispatch.queue.waiting(table.number)
    waiting += [operand for owner, operand, _ in execution.memory.staged if owner is table]
    waiting += [operand for owner, operand in execution.memory.admission.preparing.values() if owner is table]
    waiting += [
        gpu.head.request.operand
        for gpu in execution.memory.devices._gpus.values()
        if gpu.head is not None and gpu.head.request.table is table
    ]
    batches = [
        batch for worker in execution.workers for batch in worker.batches if batch.table is table and not batch.is_copy
    ]
    return waiting, [operand for batch in batches for operand in batch.operands]


def check_end(world: World) -> None:
    """Nothing runs, nothing is held, nothing is left."""
    left = {"holders": world.session.meta._holders, "tensors": world.session.meta.tensors}
    for host in world.machines:
        left |= {f"{name} of {host}": value for name, value in _left(host).items()}
    wrong = {name: value for name, value in left.items() if value}
    if wrong:
        raise Wrong(f"left behind: {wrong}")


def _left(host: Any) -> dict[str, Any]:
    """What a host still has."""
    execution = host.execution
    return {
        "slots": {name: slots for name, slots in _holders(host).items() if slots},
        "chunks in memory": len(execution.chunks.memory),
        "chunks on disk": len(execution.chunks.disk),
        "chunks on GPUs": len(execution.chunks.on_device),
        "GPUs": [
            (gpu.head, gpu.grants, gpu.downs, gpu.slots.used)
            for gpu in execution.memory.devices._gpus.values()
            if gpu.head or gpu.grants or gpu.downs or gpu.slots.used
        ],
        "chunks elsewhere": len(execution.chunks.elsewhere),
        "copies": len(execution.chunks.copies),
        "files": host.disk.left,
        "pins": execution.chunks.pins,
        "doomed": execution.chunks.doomed,
        "queue": len(execution.dispatch.queue),
        "line": len(execution.memory.buffers.queue),
        "loading": len(execution.memory.buffers.loading),
        "jobs": execution.dispatch.jobs.by_name,
        "flags": len(execution.dispatch.jobs.flags._index),
        "batches": sum(len(worker.batches) for worker in execution.workers),
        "quota": execution.memory.quota.granted,
    }
