"""Processes looked after: what becomes of what they held, with children that only note what happens to them."""

import pytest

from jmars.model.messages import Interrupted, JobClosed, Refused, WorkerLost, WorkerMoved
from jmars.processes.vitals import LOOK_SECONDS, Vital
from jmars.worker import execution as supervision
from tests.worker.steps_host import Host, in_loop, program, table

NOTHING = {"slots": 0, "promised": 0, "line": 0, "pins": 0, "batches": 0}


class Clock:
    """Looks at a host's processes, four times a second of its own."""

    def __init__(self, host, monkeypatch):
        self.host, self.now = host, 1000.0
        monkeypatch.setattr(supervision, "monotonic", lambda: self.now)

    def look(self, seconds=LOOK_SECONDS):
        for _ in range(round(seconds / LOOK_SECONDS)):
            self.now += LOOK_SECONDS
            self.host.execution.processes._look()

    def states(self):
        return [one.state for one in self.host.scheduler.of(WorkerMoved)]


@pytest.fixture
def looked(monkeypatch):
    """A function that makes the clock of a host."""
    return lambda host: Clock(host, monkeypatch)


@in_loop
def test_a_stopped_process_is_sent_nothing_until_it_runs_again(looked):
    with Host() as host:
        host.run(table(1, [program(users=True)], [0] * 3, [()] * 3), 0)
        clock = looked(host)
        host.children.states[host.execution.workers[0].link.pid] = Vital.STOPPED
        clock.look(1)
        host.execution.enqueue_graph("job-1", [1], [0])
        assert len(host.batches()) == 1 and clock.states() == ["suspect"]
        host.children.states.clear()
        clock.look()
        assert len(host.batches()) == 2 and clock.states() == ["suspect", "idle"]


@in_loop
def test_one_that_stays_stopped_is_ended_and_what_it_held_runs_elsewhere(looked):
    with Host() as host:
        host.run(table(1, [program(users=True)], [0], [()]), 0)
        clock = looked(host)
        pid = host.execution.workers[0].link.pid
        host.children.states[pid] = Vital.STOPPED
        clock.look(8)
        assert clock.states() == ["suspect", "fenced", "replaced"]
        lost = host.scheduler.of(WorkerLost)
        assert len(lost) == 1 and (lost[0].job, lost[0].operands, lost[0].worker) == ("job-1", [0], 0)
        assert lost[0].how == "stopped"
        assert host.held() == NOTHING and host.execution.workers[0].link.pid != pid
        (death,) = host.execution.dispatch.recovery.deaths
        assert (death.how, death.operand, death.pid, death.worker) == ("stopped", 0, pid, "worker-0")


@in_loop
def test_what_waits_for_a_process_that_cannot_be_started_goes_to_others(looked):
    with Host(workers=2) as host:
        clock = looked(host)
        one, other = host.execution.workers
        one.link.pid = 0
        host.run(table(1, [program()], [0] * 2, [()] * 2), 0)
        assert one.batches
        host.children.trouble = "Resource temporarily unavailable (errno 11)"
        clock.look()
        assert Interrupted("job-1", [0], 0) in host.scheduler.told and not one.batches
        host.execution.enqueue_graph("job-1", [0], [0])
        assert not one.batches and other.batches


@in_loop
def test_without_any_process_for_ten_seconds_jobs_are_told_why(looked):
    with Host() as host:
        clock = looked(host)
        host.execution.workers[0].link.pid = 0
        host.children.trouble = "Resource temporarily unavailable (errno 11)"
        host.run(table(1, [program()], [0] * 3, [()] * 3), 0, 1, 2)
        clock.look(1)
        host.execution.enqueue_graph("job-1", [0, 1], [0, 0])  # what was taken back comes again
        clock.look(8)
        assert not host.scheduler.of(Refused)
        clock.look(3)
        (told,) = host.scheduler.of(Refused)
        assert told.job == "job-1" and told.operand in (0, 1)
        for part in ("no worker process can be started", "errno 11", "ulimit -u"):
            assert part in told.failure.text


@in_loop
def test_one_whose_children_take_far_more_than_was_granted_is_ended(looked):
    with Host() as host:
        host.run(table(1, [program(users=True)], [0], [()]), 0)
        clock = looked(host)
        host.children.private = lambda pid: 2**30
        clock.look()
        (lost,) = host.scheduler.of(WorkerLost)
        assert lost.how == "memory" and host.execution.memory.functions.gets_all(1, 0)
        assert host.held() == NOTHING


@in_loop
def test_kernels_of_ours_are_not_weighed(looked):
    with Host() as host:
        host.run(table(1, [program()], [0], [()]), 0)
        clock = looked(host)
        host.children.private = lambda pid: 2**40
        clock.look(2)
        assert not host.scheduler.of(WorkerLost)


@in_loop
def test_the_looking_ends_with_the_work(looked):
    with Host() as host:
        host.run(table(1, [program()], [0], [()]), 0)
        clock = looked(host)
        assert host.execution.processes._timer is not None
        host.say(1, [5], 0, 0, None, [])
        host.execution.close_job("job-1")
        assert host.scheduler.of(JobClosed)
        host.execution.processes._timer.cancel()
        clock.look()
        assert host.execution.processes._timer is None
