"""Copies and batches taken back: one result counts, and all that either held is free at the end."""

from jmars.dispatch import speculation
from jmars.model.messages import Finished, Interrupted, JobClosed, WorkerLost, WorkerMoved
from tests.worker.steps_host import Host, in_loop, program, table

NOTHING = {"slots": 0, "promised": 0, "line": 0, "pins": 0, "batches": 0}
DONE = (1, [5], 0, 0, None, [])


def late(host, work=4096):
    """One operand runs on the first worker, and a copy of it on the second."""
    host.run(table(1, [program(work=work)], [0], [()]), 0)
    first = host.execution.workers[0]
    host.execution.workers[0].state = "suspect"
    host.execution.dispatch.speculation.look()
    second = host.execution.workers[1]
    assert second.batches[0].duplicate is first.batches[0] and second.batches[0].is_copy
    assert host.held() == {"slots": 2 * 8192, "promised": 2 * 4096, "line": 0, "pins": 0, "batches": 2}
    return first, second


def finished(host):
    return [(one.operands, one.worker) for one in host.scheduler.of(Finished)]


def gone(host, worker, how="signal"):
    link = host.children.links[f"worker-{worker}"]
    link.how = link.how or how
    link.ended(how)


def killed(host):
    """Have every `kill` noted."""
    ends = []
    for name, link in host.children.links.items():
        link.kill = lambda how="", name=name, link=link: (ends.append((name, how)), setattr(link, "how", how))
    return ends


@in_loop
def test_the_copy_is_first_and_the_other_process_ends_with_its_slot():
    with Host(workers=2) as host:
        first, _ = late(host)
        ends = killed(host)
        host.say(*DONE, worker=1)
        assert finished(host) == [([0], 1)] and ends == [("worker-0", "discarded")]
        assert not first.batches and len(first.quarantined) == 1 and host.held()["promised"] == 0
        host.say(*DONE, worker=0)  # what it says now is not heard
        gone(host, 0)
        assert finished(host) == [([0], 1)] and host.held() == NOTHING
        assert [one.state for one in host.scheduler.of(WorkerMoved)] == ["idle"]
        assert not host.execution.dispatch.recovery.deaths  # it did nothing wrong


@in_loop
def test_the_first_one_is_first_and_the_copys_process_ends():
    with Host(workers=2) as host:
        _, second = late(host)
        ends = killed(host)
        host.say(*DONE, worker=0)
        assert finished(host) == [([0], 0)] and ends == [("worker-1", "discarded")]
        gone(host, 1)
        assert host.held() == NOTHING and not second.quarantined


@in_loop
def test_a_copy_goes_on_when_the_process_of_the_first_dies():
    with Host(workers=2) as host:
        _, second = late(host)
        gone(host, 0)
        assert not host.scheduler.of(WorkerLost) and not host.scheduler.of(Interrupted)
        assert second.batches[0].duplicate is None and not second.batches[0].is_copy
        host.say(*DONE, worker=1)
        assert finished(host) == [([0], 1)] and host.held() == NOTHING


@in_loop
def test_when_the_copys_process_dies_the_first_one_goes_on():
    with Host(workers=2) as host:
        first, _ = late(host)
        gone(host, 1)
        assert not host.scheduler.of(WorkerLost) and first.batches[0].duplicate is None
        host.say(*DONE, worker=0)
        assert finished(host) == [([0], 0)] and host.held() == NOTHING


@in_loop
def test_of_two_that_were_told_to_stop_only_the_last_one_is_told():
    with Host(workers=2) as host:
        late(host)
        for worker in (1, 0):
            host.say(0, [], 0, 0, ("interrupted",), [], worker=worker)
        told = host.scheduler.of(Interrupted)
        assert told == [Interrupted("job-1", [0], 0)] and host.held() == NOTHING


@in_loop
def test_no_copy_of_users_functions_nor_where_memory_is_short():
    with Host(workers=2) as host:
        host.run(table(1, [program(users=True)], [0], [()]), 0)
        host.execution.workers[0].state = "suspect"
        host.execution.dispatch.speculation.look()
        assert not host.execution.workers[1].batches
    with Host(pages=3, workers=2) as host:
        host.run(table(1, [program(work=4096)], [0], [()]), 0)
        host.execution.workers[0].state = "suspect"
        host.execution.dispatch.speculation.look()
        assert not host.execution.workers[1].batches
        assert host.held() == {"slots": 8192, "promised": 4096, "line": 0, "pins": 0, "batches": 1}


@in_loop
def test_who_waited_behind_the_loser_is_interrupted_and_not_to_blame():
    with Host(workers=2) as host:
        host.run(table(1, [program()], [0, 0], [(), ()]), 0)
        host.execution.workers[0].state = "suspect"
        host.execution.dispatch.speculation.look()
        host.execution.workers[0].state = ""
        host.execution.enqueue_graph("job-1", [1], [0])
        killed(host)
        host.say(*DONE, worker=1)
        gone(host, 0)
        assert Interrupted("job-1", [1], 0) in host.scheduler.told and not host.scheduler.of(WorkerLost)


@in_loop
def test_a_job_that_was_closed_ends_with_its_last_batch_that_is_revoked():
    with Host() as host:
        host.run(table(1, [program()], [0], [()]), 0)
        host.run(table(2, [program()], [0], [()]), 0)
        worker, dispatch = host.execution.workers[0], host.execution.dispatch
        assert [batch.table.number for batch in worker.batches] == [1, 2]
        host.execution.stop_execution("job-2")
        host.execution.close_job("job-2")
        dispatch.look()
        assert not host.scheduler.of(JobClosed), "it may be about to run"
        host.children.token = True
        assert dispatch.speculation.revoke(worker)
        dispatch.look()
        assert [one.job for one in host.scheduler.of(JobClosed)] == ["job-2"]


@in_loop
def test_operands_that_ran_through_a_sleep_are_not_late(monkeypatch):
    with Host(workers=2) as host:
        job = table(1, [program()], [0], [()])
        host.run(job, 0)
        first, second = host.execution.workers
        first.batches[0].loads = False
        now = first.since
        host.execution.ledger.estimate.learn(host.execution.dispatch.programs.numbers(job)[0], 0.1)
        monkeypatch.setattr(speculation, "monotonic", lambda: now)
        copied = []
        for passed in (0.25, 600.0, 0.25, 0.25):
            now += passed
            host.execution.dispatch.speculation.look()
            copied.append(bool(second.batches))
        assert copied == [False, False, False, True]


@in_loop
def test_a_process_that_loads_the_library_of_a_program_is_given_time(monkeypatch):
    with Host(workers=2) as host:
        job = table(1, [program()], [0, 0], [(), ()])
        host.run(job, 0)
        first, second = host.execution.workers
        now = first.since
        host.execution.ledger.estimate.learn(host.execution.dispatch.programs.numbers(job)[0], 0.01)
        monkeypatch.setattr(speculation, "monotonic", lambda: now)

        def copied_within(seconds):
            nonlocal now
            for _ in range(int(seconds / 0.25)):
                now += 0.25
                host.execution.dispatch.speculation.look()
            return bool(second.batches)

        assert not copied_within(5.0)
        host.say(*DONE, worker=0)
        host.run(job, 1)
        now = first.since
        assert copied_within(5.0)  # the process has run the program
