"""A chunk that counts as lost while an operand reads it: its slot goes to nobody else before the operand ends."""

from __future__ import annotations

from typing import Any

from jmars.model.messages import ChunksLost
from jmars.storage.chunks import Elsewhere
from tests.worker.steps_host import Host, in_loop, program, table

C = 1000  # the chunk of operand 0


def _reading(host: Host) -> Any:
    """Operand 0 has ended, and operand 1, which reads its chunk, runs."""
    job = table(1, [program(), program(inputs=1)], [0, 1, 1], [(), (0,), (0,)])
    host.run(job, 0)
    host.say(1, [9], 0, 0, None, [])
    host.execution.enqueue_graph("job-1", [1], [0])
    assert len(host.batches()) == 2 and C in host.execution.chunks.memory
    return job


@in_loop
def test_the_slot_is_kept_until_the_reader_ends() -> None:
    with Host() as host:
        _reading(host)
        slot = host.execution.chunks.memory[C]
        host.execution.drop_chunks([C])
        host.execution.dispatch.look()
        assert host.arena.allocate(4096) not in (None, slot)  # an executor reads there
        host.say(1, [9], 0, 0, None, [])
        host.execution.dispatch.look()
        assert C not in host.execution.chunks.memory and host.held()["pins"] == 0
        assert host.arena.allocate(4096) == slot


@in_loop
def test_a_chunk_that_nobody_reads_is_freed_at_once() -> None:
    with Host() as host:
        _reading(host)
        host.say(1, [9], 0, 0, None, [])
        host.execution.drop_chunks([C])
        assert C not in host.execution.chunks.memory and not host.execution.memory.lost_chunks


@in_loop
def test_a_chunk_that_is_computed_again_meanwhile_stays_as_it_is() -> None:
    with Host(workers=2) as host:
        _reading(host)
        slot, used = host.execution.chunks.memory[C], host.arena.used
        host.execution.drop_chunks([C])
        host.execution.enqueue_graph("job-1", [0], [1])
        for worker in (0, 1):
            if host.batches(worker)[-1] and host.execution.workers[worker].batches:
                host.say(1, [9], 0, 0, None, [], worker=worker)
        host.execution.dispatch.look()
        assert host.execution.chunks.memory[C] == slot and host.arena.used == used
        assert host.held() == {"slots": 0, "promised": 0, "line": 0, "pins": 0, "batches": 0}


@in_loop
def test_a_copy_whose_original_is_lost_is_spilled_like_an_original() -> None:
    with Host() as host:
        chunks = host.execution.chunks
        chunks.locate(7, Elsewhere(4096, (2,)))
        place = chunks.elsewhere[7]
        slot = host.arena.allocate(4096)
        assert slot is not None and chunks.fetch_done(7, place, slot, "")
        host.execution.keep_chunks([7, 8])  # of chunk 8 it had a copy once
        assert chunks.start_spill(7) is not None  # a copy would be forgotten without a write
        (lost,) = host.scheduler.of(ChunksLost)
        assert lost.chunks == [8] and "was evicted" in lost.why
