"""What graphs take in the control process: held against the memory for chunks, and given up as the last thing."""

import asyncio
from time import perf_counter
from types import SimpleNamespace

from jmars.deploy.host import Host
from jmars.deploy.host_machine import HALF_SECONDS, HostMachine
from jmars.memory.host_memory import PIECE, STEP
from jmars.model.messages import Refused
from jmars.model.status import GRAPHS
from tests.worker.steps_host import Host as Steps
from tests.worker.steps_host import in_loop, program, table

CHUNK = 4 * STEP
CAPACITY = 64 * STEP


def host(workers=1):
    return Steps(pages=CAPACITY // 4096, workers=workers, graph_bytes=10 * STEP)


def take(one, taken):
    """The control process takes so many bytes beyond what is set aside for it."""
    one.execution.memory.graph_room.update(10 * STEP + taken)


def held(one):
    """Bytes that are promised to it, by everybody's books."""
    memory = one.execution.memory
    assert memory.graph_room.held == memory.quota.promised(GRAPHS, 0)
    assert memory.worker_room.held == memory.quota.promised(GRAPHS, 1)
    return memory.process_room


def fill(one):
    """All memory holds chunks that nobody reads."""
    for chunk in range(CAPACITY // CHUNK):
        one.execution.chunks.memory[chunk] = one.arena.allocate(CHUNK)


def land(one):
    """What is on its way to disk gets there."""
    for chunk in sorted(one.execution.chunks.moving):
        spilled = ("spilled", chunk, f"file-{chunk}", b"", "")
        one.execution.memory.buffers.received(one.children.links["mover"], spilled)


@in_loop
def test_what_graphs_take_is_held_against_the_memory_for_chunks():
    with host() as one:
        take(one, -STEP)
        assert held(one) == 0, "that is set aside for it"
        take(one, 5)
        assert held(one) == STEP, "whole steps, and not less than it takes"
        take(one, 3 * STEP - 5)
        assert held(one) == 3 * STEP
        take(one, STEP)
        assert held(one) == STEP
        one.execution.memory.graph_room.update(0)
        assert held(one) == 0 and one.arena.used == 0


@in_loop
def test_chunks_go_to_disk_for_it():
    with host() as one:
        fill(one)
        take(one, 6 * STEP)
        assert one.execution.memory.buffers.queue[0].what == GRAPHS
        land(one)
        assert not one.execution.memory.buffers.queue and held(one) == 6 * STEP and len(one.execution.chunks.disk) == 2


@in_loop
def test_much_of_it_is_asked_for_in_pieces():
    with host() as one:
        fill(one)
        take(one, 40 * STEP)  # once: the next piece is asked for when one is granted
        for _ in range(3):
            assert one.execution.memory.buffers.queue[0].scratch <= PIECE
            land(one)
        assert not one.execution.memory.buffers.queue and held(one) == 40 * STEP


@in_loop
def test_a_request_that_is_not_needed_any_more_is_taken_back():
    with host() as one:
        fill(one)
        take(one, 6 * STEP)
        one.execution.memory.graph_room.update(0)
        assert not one.execution.memory.buffers.queue
        land(one)
        assert held(one) == 0


@in_loop
def test_it_asks_for_no_more_than_chunks_can_go_to_disk_for():
    with host() as one:
        pinned = one.arena.allocate(CAPACITY - CHUNK - STEP // 2)
        one.execution.chunks.memory[0] = one.arena.allocate(CHUNK)
        take(one, 6 * STEP)
        assert one.execution.memory.buffers.queue[0].scratch == CHUNK
        land(one)
        assert not one.execution.memory.buffers.queue and held(one) == CHUNK + STEP // 2
        take(one, 6 * STEP)
        assert not one.execution.memory.buffers.queue, "that would stop all others"
        one.arena.free(pinned)
        take(one, 6 * STEP)
        assert held(one) == 6 * STEP


def finds_room(one, size):
    """Whether an operand that needs so much runs."""
    calls = []
    one.execution.memory.buffers.later = lambda seconds, call: calls.append(call)
    one.run(table(1, [program(size=size)], [0], [()]), 0)
    while calls:
        calls.pop()()
    return len(one.batches()) == 1 and not one.scheduler.of(Refused)


@in_loop
def test_it_is_given_up_where_an_operand_would_find_no_room():
    with host() as one:
        take(one, CAPACITY // 2)
        assert finds_room(one, CAPACITY * 3 // 4) and held(one) == 0


@in_loop
def test_memory_of_workers_is_given_up_before_that_of_graphs():
    with host() as one:
        take(one, CAPACITY // 4)
        one.execution.memory.worker_room.update(CAPACITY // 4)
        assert finds_room(one, CAPACITY * 5 // 8) and held(one) == CAPACITY // 4
        one.execution.memory.worker_room.update(CAPACITY // 4)
        assert held(one) == CAPACITY * 3 // 8, "what the operand left"
        assert not one.execution.memory.buffers.queue, "no chunk can go to disk for more: the operand has the memory"
        assert one.execution.memory.quota.promised(GRAPHS, 0) == CAPACITY // 4


@in_loop
def test_an_operand_gets_a_piece_of_it_if_that_is_enough():
    with host() as one:
        one.arena.allocate(CAPACITY // 2 - STEP)
        take(one, CAPACITY // 2)
        assert finds_room(one, 2 * STEP) and held(one) == CAPACITY // 2 - PIECE


@in_loop
def test_memory_for_a_graph_is_given_up_behind_a_waiting_operand():
    with host() as one:
        take(one, CAPACITY // 2)
        calls = []
        one.execution.memory.buffers.later = lambda seconds, call: calls.append(call)
        small, large = program(size=CAPACITY // 4), program(size=CAPACITY * 3 // 4)
        one.run(table(1, [small, large], [0, 1], [(), ()]), 0, 1)
        take(one, CAPACITY)  # as much as there is
        assert [request.what == GRAPHS for request in one.execution.memory.buffers.queue] == [False]
        one.say(1, [5], 0, 0, None, [])  # the small one is done, and its chunk goes to disk
        land(one)
        while calls:
            calls.pop()()
        assert not one.scheduler.of(Refused) and len(one.batches()) == 2


def machine_of(one, sizes):
    """A HostMachine without processes, which measures `sizes`."""
    machine = HostMachine.__new__(HostMachine)
    machine.execution, machine.arena, machine._workers, machine.limit = one.execution, one.arena, 2, 2**40
    machine.peak, machine._beyond, machine._known = 0, 0, {}
    machine._looked, machine._aside = perf_counter(), 10 * STEP
    machine.pids, machine.private = dict, lambda more: asyncio.sleep(0, sizes)
    return machine


def test_pages_without_content_go_back_to_the_system_beyond_the_limit():
    async def run():
        with host(workers=2) as one:
            machine, arena = machine_of(one, {"control": 20 * STEP}), one.arena
            for size, last in ((20 * STEP, True), (2 * STEP, False)):
                slot = arena.allocate(size, last)
                arena.memory[slot : slot + size] = b"1" * size
                if last:
                    arena.free(slot)
            one.execution.memory.quota.add("job", 7, [slot])  # pieces of chunks
            before = arena.resident

            async def left(over):
                machine.limit = 20 * STEP + arena.resident - over
                await machine.look({})
                return (arena.resident - before) // STEP

            assert await left(0) == 0, "free pages are used again without a page fault"
            assert held(one) == 10 * STEP
            assert await left(9 * STEP) == -10, "those of the control process"
            assert machine.peak == 20 * STEP + before
            assert await left(STEP) <= -20
            assert arena.memory[slot : slot + size] == b"1" * size

    asyncio.run(run())


def test_room_stays_when_a_job_ends():
    """The processes keep the memory, and chunks of the next job would fill the arena before it is measured again."""

    async def run():
        with host(workers=2) as one:
            head = Host.__new__(Host)
            head.machine = machine_of(one, {"control": 20 * STEP})
            head.scheduler = SimpleNamespace(active=False)
            head.clients = SimpleNamespace(job_ended=lambda report: False)
            head._log_memory = head.look_at_lease = lambda: None
            await head.machine.look({})
            head.job_ended({"job": "job-1"})
            assert held(one) == 10 * STEP

    asyncio.run(run())


def test_memory_that_workers_take_without_a_promise_is_held_too():
    async def run():
        with host(workers=2) as one:
            sizes = {"control": 10 * STEP}
            machine = machine_of(one, sizes)
            helpers = {"zygote": 10 * STEP, "mover": 10 * STEP, "janitor": 10 * STEP}

            async def looks(worker, promised=0):
                assert not promised or one.execution.memory.quota.request("job", 7, promised)
                sizes.update(helpers, **{"worker-0": worker, "worker-1": 10 * STEP})
                await machine.look({})
                one.execution.memory.quota.release("job", 7)
                return held(one) // STEP

            assert await looks(10 * STEP) == 0
            assert await looks(30 * STEP, promised=20 * STEP) == 0, "an operand was promised it"
            assert await looks(30 * STEP) == 20

            async def begins(more):
                assert one.execution.memory.quota.request("job", 8, 20 * STEP)
                return sizes

            held_then, private, machine.private = held(one), machine.private, begins
            sizes["worker-0"] = 50 * STEP
            await machine.look({})
            assert held(one) <= held_then, "an operand began while memory was measured"
            machine.private = private
            one.execution.memory.quota.release("job", 8)
            machine._looked -= HALF_SECONDS / 4
            assert 10 <= await looks(10 * STEP) < 20, "a function may take it again"
            machine._looked -= 10 * HALF_SECONDS  # without a job, and so without a look
            assert await looks(10 * STEP) <= 1

    asyncio.run(run())
