"""The dispatch room alone, through its port: orders in, batches and reports out, with plain fakes for other rooms."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from jmars.actors.frames import pack, unpack
from jmars.dispatch import HostDispatch
from jmars.errors import ClusterError
from jmars.kernels.program import Call
from jmars.model.messages import (
    Failed,
    Failure,
    Finished,
    Interrupted,
    JobClosed,
    Refused,
    Started,
    WorkerLost,
    WorkerMoved,
)
from jmars.plan.plan_graph import GPU, GPU_ONLY
from jmars.processes.executor_messages import (
    DEVICE,
    FAILED,
    INTERRUPTED,
    DeviceReady,
    ExecutorReport,
    OperandFailed,
    RunBatch,
)
from jmars.processes.vitals import GRACE_LOOK_SECONDS, ProcessUsage, StopGrace
from jmars.storage.arena import HEADER
from tests.worker.steps_host import in_loop, program, table


class Memory:
    """Memory that always has room; counts the slots that are held."""

    def __init__(self) -> None:
        self.arena = SimpleNamespace(
            memory=bytearray(HEADER), used=0, peak=0, capacity=2**30, resident=0, size_of=lambda slot: 4096
        )
        self.chunks = SimpleNamespace(memory={}, disk={}, doomed=set(), spilled=0, reloaded=0, fetched=0)
        self.quota = SimpleNamespace(private={})
        self.outputs = SimpleNamespace(take=dict, waits=lambda worker: False, withdraw=self.nothing)
        self.next_use = SimpleNamespace(next_use=lambda chunk: 0, open_job=self.nothing, finished=self.nothing)
        self.retained = SimpleNamespace(settle=lambda: None, reset=self.nothing)
        self.lost_chunks = SimpleNamespace(release=lambda: None)
        self.devices = SimpleNamespace(
            advance=self.nothing,
            lose=self.nothing,
            open=lambda *_: SimpleNamespace(used=0),
            is_waiting=lambda worker: False,
            owner=lambda job, operand: -1,
        )
        self.buffers = SimpleNamespace(loading={}, mover=SimpleNamespace(seconds=0.0))
        self.staged: list[Any] = []
        self.is_spilling = self.is_blocked = False
        self.held: set[int] = set()
        self._slot = HEADER

    def admit(self, job: Any, operand: int) -> int:
        self._slot += 4096
        self.held.add(self._slot)
        return self._slot

    def admit_loose(self, job: Any, operand: int, program: int) -> int:
        return self.admit(job, operand)

    def loose_inputs(self, job: Any, operand: int, made: Any) -> list[Any]:
        return []

    def size_of(self, slot: int) -> int:
        return 4096

    def give_back(self, job: Any, operand: int, slot: int) -> None:
        self.held.discard(slot)

    def inputs(self, job: Any, operand: int) -> list[int]:
        return [self.chunks.memory[job.chunk[i]] for i in job.inputs[operand]]

    def drop_job(self, job: Any) -> list[int]:
        return []

    def waiting_urgencies(self) -> list[Any]:
        return []

    def nothing(self, *_: Any) -> None:
        pass

    close_job = release = advance = free_slot = nothing


class Link:
    """An executor that keeps its orders."""

    def __init__(self, pid: int) -> None:
        self.pid, self.how, self.peak, self.orders = pid, "", 0, []

    def send(self, order: Any) -> None:
        self.orders.append(order)

    def batches(self) -> list[RunBatch]:
        return [order for order in self.orders if isinstance(order, RunBatch)]

    def nothing(self, *_: Any) -> None:
        pass

    post = silence = unsend = kill = nothing


class Room:
    """A `HostDispatch` with fakes around."""

    def __init__(self, workers: int = 1, gpus: int = 0) -> None:
        self.memory, self.reports, self.killed = Memory(), [], []
        self.uses: dict[int, ProcessUsage] = {}  # by pid
        memory: Any = self.memory
        self.dispatch = HostDispatch(
            memory, workers, self.reports.append, lambda link, how: self.killed.append(link), self.uses.get, gpus
        )
        self.links = [Link(100 + worker) for worker in range(workers)]
        for worker, link in enumerate(self.links):
            self.dispatch.started(worker, link)

    def of(self, *kinds: type) -> list[Any]:
        return [report for report in self.reports if isinstance(report, kinds)]


def job(operands: int) -> Any:
    return table(1, [program()], [0] * operands, [()] * operands)


@in_loop
def test_ready_operands_are_sent_and_their_chunks_stored():
    room = Room()
    room.dispatch.open_job(job(1))
    room.dispatch.enqueue_graph("job-1", [0], [0])
    (batch,) = room.links[0].batches()
    assert [order[0] for order in batch.operands] == [0] and [one.operands for one in room.of(Started)] == [[0]]
    room.dispatch.received(0, ExecutorReport(1, [30], 0, 0, None, []))
    (finished,) = room.of(Finished)
    assert finished.operands == [0] and room.memory.chunks.memory[1000] in room.memory.held
    room.dispatch.close_job("job-1")
    assert [one.job for one in room.of(JobClosed)] == ["job-1"] and not room.dispatch.is_busy


@in_loop
@pytest.mark.parametrize(("seconds", "sizes"), [(2e-5, [21, 10]), (4e-4, [3, 3]), (None, [1, 1])])
def test_operands_of_unknown_size_share_a_batch_while_they_are_brief(seconds, sizes):
    room = Room()
    room.dispatch.open_job(table(1, [program(sized=False)], [0] * 40, [()] * 40))
    if seconds is not None:
        room.dispatch.ledger.estimate.learn(0, seconds)
    room.dispatch.enqueue_graph("job-1", list(range(40)), [0] * 40)
    assert [len(batch.operands) for batch in room.links[0].batches()] == sizes


@in_loop
def test_a_failed_operand_ends_its_batch_and_the_rest_is_interrupted():
    room = Room()
    room.dispatch.open_job(job(4))
    room.dispatch.ledger.estimate.learn(0, 1e-5)
    room.dispatch.enqueue_graph("job-1", [0, 1, 2, 3], [0] * 4)
    sent = [len(batch.operands) for batch in room.links[0].batches()]
    assert sent[0] > 1
    stop = OperandFailed(FAILED, Failure.of(ValueError("no")))
    room.dispatch.received(0, unpack(pack(ExecutorReport(0, [], 0, 0, stop, []))[4:]))
    ((failed,), (interrupted,)) = room.of(Failed), room.of(Interrupted)
    assert failed.operand == 0 and failed.failure.text == "no" and len(interrupted.operands) == sent[0] - 1


@in_loop
def test_a_dead_executor_loses_what_it_ran_and_the_waiting_batch_goes_back():
    room = Room()
    room.dispatch.open_job(job(2))
    room.dispatch.enqueue_graph("job-1", [0, 1], [0, 0])
    dead, link = room.links[0], Link(200)
    dead.how = "signal"
    assert len(dead.batches()) == 2
    room.dispatch.started(0, link)
    room.dispatch.ended(0, dead, "killed by SIGKILL")
    assert [(one.operands, one.how) for one in room.of(WorkerLost)] == [([0], "signal")]
    assert [one.operands for one in room.of(Interrupted)] == [[1]] and not room.memory.held
    assert [one.state for one in room.of(WorkerMoved)] == ["replaced"] and room.dispatch.workers[0].restarts == 1
    room.dispatch.enqueue_graph("job-1", [0, 1], [0, 0])
    assert len(link.batches()) == 2, "an operand that ran when a worker died runs alone"


@in_loop
def test_an_executor_that_gets_no_core_is_given_time_to_stop():
    room = Room()
    room.dispatch.open_job(job(1))
    room.dispatch.enqueue_graph("job-1", [0], [0])
    grace = StopGrace(0.0)

    def look(seconds: float, waits: bool = False) -> list[Any]:
        room.uses[100] = ProcessUsage(waits, seconds, 0.0, ())
        grace._looked -= 1.0  # a second has passed
        room.dispatch._kill_unresponsive(room.dispatch.jobs.by_name["job-1"], grace)
        return room.killed

    room.dispatch.stop_execution("job-1")
    assert not any(look(0.0) for _ in range(9)), "it waits for a core"
    assert not any(look(0.04 * k) for k in range(1, 10)), "0.36 s of its own"
    assert not look(0.36, waits=True) and look(0.36, waits=True) == [room.links[0]]
    assert look(9.0) == [room.links[0]], "once"


@in_loop
def test_a_stopped_job_is_drained_and_a_deaf_executor_is_killed():
    room = Room()
    room.dispatch.open_job(job(3))
    room.dispatch.enqueue_graph("job-1", [0, 1, 2], [0] * 3)
    room.dispatch.stop_execution("job-1")
    assert [list(one.operands) for one in room.of(Interrupted)] == [[2]]
    grace = StopGrace(0.0)
    for _ in range(5):
        room.dispatch._kill_unresponsive(room.dispatch.jobs.by_name["job-1"], grace)
        grace._looked -= GRACE_LOOK_SECONDS
    assert room.killed == [room.links[0]]
    for _ in range(2):
        room.dispatch.received(0, ExecutorReport(0, [], 0, 0, (INTERRUPTED,), []))
    assert sorted(one for report in room.of(Interrupted) for one in report.operands) == [0, 1, 2]
    assert not room.memory.held


@in_loop
def test_a_suspect_worker_is_sent_nothing_until_it_is_well():
    room = Room(workers=2)
    room.dispatch.moved(0, 100, "suspect")
    room.dispatch.open_job(job(2))
    room.dispatch.enqueue_graph("job-1", [0, 1], [0, 0])
    assert not room.links[0].batches() and len(room.links[1].batches()) == 2
    room.dispatch.moved(0, 100, "")
    assert [(one.worker, one.state) for one in room.of(WorkerMoved)] == [(0, "suspect"), (0, "idle")]


@in_loop
def test_without_processes_waiting_jobs_fail_with_the_reason():
    room = Room()
    room.dispatch.unavailable(0)
    room.dispatch.open_job(job(2))
    room.dispatch.enqueue_graph("job-1", [0, 1], [0, 0])
    room.dispatch.no_executors(ClusterError("no process"))
    (refused,) = room.of(Refused)
    assert refused.failure.text == "no process" and room.dispatch.is_busy


@in_loop
def test_a_fault_in_handling_a_report_replaces_the_executor():
    room = Room()
    room.dispatch.open_job(job(1))
    room.dispatch.enqueue_graph("job-1", [0], [0])
    room.dispatch.received(0, ExecutorReport(5, [1] * 5, 0, 0, None, []))
    assert room.killed == [room.links[0]] and type(room.reports[-1]).__name__ == "JobBroken"


@in_loop
def test_orders_for_closed_jobs_and_reports_without_a_batch_do_nothing():
    room = Room()
    room.dispatch.open_job(job(1))
    room.dispatch.close_job("job-1")
    before = len(room.reports)
    room.dispatch.enqueue_graph("job-1", [0], [0])
    room.dispatch.replan("job-1", [0], [0], [])
    room.dispatch.stop_execution("job-1")
    room.dispatch.close_job("job-1")
    assert room.dispatch.take_back("job-1", [0]) == []
    room.dispatch.received(0, ExecutorReport(1, [1], 0, 0, None, []))
    assert len(room.reports) == before and not room.killed


def with_gpus(gpus: int) -> Room:
    """A core and GPUs that are warm, the first given up while its second process opens it."""
    room = Room(1 + gpus, gpus)
    for worker in range(1, 1 + gpus):
        room.dispatch.received(worker, ExecutorReport(0, [], 0, 0, DeviceReady(DEVICE, 1 << 20, 0.1, "a GPU", ""), []))
    return room


def lose(room: Room, worker: int) -> None:
    room.dispatch.started(worker, Link(200))
    room.dispatch.ended(worker, room.links[worker], "killed")
    assert room.dispatch.is_warming(worker)
    room.dispatch.gave_up(worker, room.dispatch.workers[worker].link, "no luck")
    room.dispatch.ended(worker, room.dispatch.workers[worker].link, "killed")


@in_loop
def test_a_lost_context_is_the_gpus_fault_unless_a_function_of_a_user_ran():
    for users, how, expected in ((False, "gpu", "gpu"), (True, "gpu", "exit"), (False, "signal", "signal")):
        room = with_gpus(1)
        running = table(1, [program()], [0], [()], device=bytes([GPU]))
        room.dispatch.open_job(running)
        room.dispatch.enqueue_graph("job-1", [0], [1])
        if users:
            users_step = Call(abs, (), (), program().output, runs_user_code=True)
            running.programs[0] = replace(program(), steps=(users_step,))
        room.links[1].how = how
        assert room.dispatch.is_gpus_fault(1, room.links[1]) == (expected == "gpu")
        room.dispatch.ended(1, room.links[1], "ended")
        assert [lost.how for lost in room.of(WorkerLost)] == [expected]


@in_loop
def test_operands_of_a_gpu_that_is_given_up_go_to_cores_or_to_another_gpu():
    device = bytes([GPU] * 4)
    for gpus, takes in ((1, 0), (2, 2)):
        room = with_gpus(gpus)
        room.dispatch.open_job(table(1, [program()], [0] * 4, [()] * 4, device=device))
        room.dispatch.moved(1, 101, "suspect")  # so that operands wait for it
        room.dispatch.enqueue_graph("job-1", [0, 1], [1, 1])
        lose(room, 1)
        room.dispatch.enqueue_graph("job-1", [2, 3], [1, 1])
        begun = [one.worker for one in room.of(Started)]
        assert set(begun) == {takes} and room.dispatch.workers[1].gpu_bytes == 0
        assert [one.state for one in room.of(WorkerMoved) if one.worker == 1][-1] == "given up"
        assert not room.of(Refused)


@in_loop
def test_operands_that_need_a_gpu_that_is_given_up_fail_with_the_reason():
    room = with_gpus(1)
    room.dispatch.open_job(table(1, [program()], [0] * 3, [()] * 3, device=bytes([GPU, GPU_ONLY, GPU_ONLY])))
    room.dispatch.moved(1, 101, "suspect")
    room.dispatch.enqueue_graph("job-1", [0, 1], [1, 1])
    lose(room, 1)
    room.dispatch.enqueue_graph("job-1", [2], [1])
    refused = room.of(Refused)
    assert [one.operand for one in refused] == [1, 2] and [one.operands for one in room.of(Started)] == [[0]]
    assert refused[0].failure.text.startswith("step must run on a GPU, and gpu-0 is given up: no luck")
    assert len(room.memory.held) == 1


@in_loop
def test_operands_pinned_to_a_lost_gpu_fail_though_there_is_another():
    room = with_gpus(2)
    pinned = {0: 1, 1: 1, 2: 2}
    room.dispatch.open_job(table(1, [program()], [0] * 3, [()] * 3, device=bytes([GPU_ONLY] * 3), pinned=pinned))
    room.dispatch.moved(1, 101, "suspect")
    room.dispatch.enqueue_graph("job-1", [0], [1])
    lose(room, 1)
    room.dispatch.enqueue_graph("job-1", [1, 2], [1, 2])
    assert [one.operand for one in room.of(Refused)] == [0, 1]
    assert [(one.operands, one.worker) for one in room.of(Started)] == [([2], 2)]
