"""Workers come and leave: what waits for them goes to others, and no process comes again where one left."""

from __future__ import annotations

from jmars.dispatch.task_queue import Offers, TaskQueue
from jmars.model.messages import Interrupted, Started, WorkerMoved
from jmars.processes.executor_messages import ExecutorReport
from tests.dispatch.test_host_dispatch import Link, Room, job
from tests.worker.steps_host import in_loop, program, table


class Executor(Link):
    """An executor that says when it is killed, and whose last batch can be revoked."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.is_killed = False

    def kill(self, how: str = "") -> None:
        self.is_killed = True

    def revoke(self) -> bool:
        return True


class Host(Room):
    """A `Room` that counts workers."""

    def __init__(self, workers: int) -> None:
        self.counted: list[int] = []
        super().__init__(workers)
        self.memory.count_workers = self.counted.append  # type: ignore[attr-defined]
        self.links = [Executor(100 + worker) for worker in range(workers)]
        for worker, link in enumerate(self.links):
            self.dispatch.started(worker, link)

    def add(self) -> int | None:
        number = self.dispatch.scaling.come()
        if number is not None:
            self.links[number : number + 1] = [Executor(200 + number)]
            self.dispatch.started(number, self.links[number])
        self.dispatch.dispatch()
        return number

    def end(self, worker: int) -> None:
        self.dispatch.ended(worker, self.links[worker], "killed")

    def states(self, worker: int) -> list[str]:
        return [one.state for one in self.of(WorkerMoved) if one.worker == worker]


@in_loop
def test_a_worker_that_comes_takes_what_waits():
    host = Host(1)
    host.dispatch.open_job(job(3))
    host.dispatch.enqueue_graph("job-1", [0, 1, 2], [0, 0, 0])
    assert [one.worker for one in host.of(Started)] == [0, 0]
    assert host.add() == 1 and host.counted == [2]
    assert [(one.operands, one.worker) for one in host.of(Started)][2:] == [([2], 1)]


@in_loop
def test_a_worker_leaves_after_its_batch_and_its_queue_goes_to_others():
    host = Host(2)
    host.dispatch.open_job(table(1, [program()], [0] * 8, [()] * 8))
    host.dispatch.enqueue_graph("job-1", list(range(8)), [1] * 8)
    host.dispatch.replan("job-1", [0] * 8, [-1] * 8, [0])  # worker 0 is slow: it takes only what is planned for it
    running, behind = (list(batch.operands) for batch in host.dispatch.workers[1].batches)
    host.dispatch.scaling.leave()
    host.dispatch.dispatch()
    assert not host.links[1].is_killed and host.of(Interrupted)[-1].operands == behind
    host.dispatch.enqueue_graph("job-1", behind, [1] * len(behind))  # the plan is for two workers still
    host.dispatch.received(1, ExecutorReport(len(running), [30] * len(running), 0, 0, None, []))
    assert host.links[1].is_killed
    host.end(1)
    assert host.states(1) == ["leaving", "left"] and len(host.dispatch.workers) == 1 and host.counted[-1] == 1
    for _ in range(8):
        for batch in list(host.dispatch.workers[0].batches)[:1]:
            count = len(batch.operands)
            host.dispatch.received(0, ExecutorReport(count, [30] * count, 0, 0, None, []))
    begun = [operand for one in host.of(Started) if one.worker == 0 for operand in one.operands]
    assert set(begun) | set(running) == set(range(8))


@in_loop
def test_a_worker_wanted_again_before_it_has_left_gets_a_new_process():
    host = Host(2)
    host.dispatch.open_job(job(2))
    host.dispatch.enqueue_graph("job-1", [0, 1], [1, 1])
    host.dispatch.scaling.leave()
    assert host.dispatch.leaves(1) and host.add() is None and not host.dispatch.leaves(1)
    host.dispatch.started(1, Executor(300))  # as supervision does at the end of a process that is recycled
    host.end(1)
    assert host.states(1) == ["leaving", "starting", "replaced"] and len(host.dispatch.workers) == 2


@in_loop
def test_workers_that_have_left_in_any_order_come_again():
    host = Host(3)
    host.dispatch.open_job(job(1))
    host.dispatch.enqueue_graph("job-1", [0], [2])
    ran = next(iter(host.of(Started))).worker
    for _ in range(2):
        host.dispatch.scaling.leave()
    idle = [worker for worker in (1, 2) if worker != ran]
    for worker in idle:
        host.end(worker)
    assert host.add() in (1, None)
    if ran in (1, 2):
        host.dispatch.received(ran, ExecutorReport(1, [30], 0, 0, None, []))
    assert [worker.index for worker in host.dispatch.workers] == list(range(len(host.dispatch.workers)))


@in_loop
def test_operands_pinned_to_a_worker_that_leaves_run_anywhere():
    host = Host(2)
    for worker in (0, 1):
        host.dispatch.moved(worker, 0, "suspect")
    host.dispatch.open_job(table(1, [program()], [0] * 3, [()] * 3, pinned={0: 1, 1: 0}))
    host.dispatch.enqueue_graph("job-1", [0, 1], [1, 0])
    host.dispatch.scaling.leave()
    host.dispatch.open_job(table(2, [program()], [0], [()], pinned={0: 1}))
    host.dispatch.enqueue_graph("job-2", [0], [0])
    host.dispatch.moved(0, 0, "")
    for _ in range(3):
        batches = host.dispatch.workers[0].batches
        if batches:
            count = len(batches[0].operands)
            host.dispatch.received(0, ExecutorReport(count, [30] * count, 0, 0, None, []))
    begun = [(one.job, operand) for one in host.of(Started) for operand in one.operands]
    assert sorted(begun) == [("job-1", 0), ("job-1", 1), ("job-2", 0)]
    assert not host.dispatch.jobs.by_name["job-2"].pinned


def test_a_late_job_offers_operands_to_a_new_worker_but_pinned_ones():
    queue = TaskQueue(2)
    queue.open_job(1, True, {5: 0})
    for operand in (4, 5):
        queue.push(0, 1, 0, operand)
    queue.grow(3)
    assert queue.is_offered(2)
    assert queue.pop(2) == (1, 4) and queue.pop(2) is None and queue.pop(0) == (1, 5)
    queue.grow(3)
    assert not queue and len(queue) == 0


def test_offers_grow():
    offers = Offers(workers=1)
    offers.make(key=5, to=(0,))
    offers.grow(2)
    assert offers.best(1) is None
    offers.make(key=5, to=(1,))
    assert offers.take(1) == 5 and offers.best(0) is None


def test_redirected_operands_keep_their_order():
    queue = TaskQueue(3)
    for worker, rank, operand in ((0, 3, 1), (1, 2, 2), (1, 5, 3), (2, 1, 4)):
        queue.push(worker, 1, rank, operand)
    queue.redirect(1, 0)
    assert [queue.pop(0, own=True) for _ in range(4)] == [(1, 2), (1, 1), (1, 3), None]
    assert queue.pop(0) == (1, 4)
