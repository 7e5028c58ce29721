"""What users' functions leave behind in executors: held against the memory, bounded, and given back."""

from hypothesis import given
from hypothesis import strategies as st

from jmars.dispatch.workers import RECYCLED
from jmars.memory.quota import LEAST_SLACK, bound
from jmars.model.messages import Failed, Refused, WorkerLost
from jmars.processes.executor_messages import INTERRUPTED, RETAINED, UNSIZED
from tests.worker.steps_host import Host, in_loop, program, table

DONE = (1, [5], 0, 0, None, [])
PAGES = 64 * LEAST_SLACK // 4096
USERS = [program(users=True)]


def kept(size, imported=False):
    return (0, [], 0, 0, (RETAINED, size, imported), [])


def host(workers=1):
    return Host(pages=PAGES, workers=workers)


def killed(one):
    ends = []
    for name, link in one.children.links.items():
        link.kill = lambda how="", name=name, link=link: (ends.append(name), setattr(link, "how", how))
    return ends


def gone(one, worker=0):
    link = one.children.links[f"worker-{worker}"]
    link.ended(link.how)


@given(*[st.integers(0, 2**40)] * 3, st.integers(0, 100))
def test_a_bound_never_grows_beyond_what_may_grow(first, slack, most, renewed):
    assert first <= bound(first, slack, most, renewed) <= bound(first, slack, most, renewed + 1) <= first + most


@in_loop
def test_what_functions_keep_is_held_against_the_memory_for_chunks():
    with host() as one:
        ends, slack = killed(one), one.execution.memory.functions.slack
        one.say(*kept(slack // 2))
        assert one.held()["promised"] == 0, "a little is within the tenth by which a limit may be missed"
        one.say(*kept(slack + 5 * 4096))
        assert one.held()["promised"] == 5 * 4096 and not ends
        one.say(*kept(0))
        assert one.held()["promised"] == 0


@in_loop
def test_what_had_no_room_beside_a_function_is_promised_later():
    with host() as one:
        memory, slack = one.execution.memory, one.execution.memory.functions.slack
        memory.quota.adjust("job-1", 0, memory.arena.capacity)
        one.say(*kept(slack + 5 * 4096))
        assert memory.quota.promised("retained memory", 0) == 0
        memory.quota.release("job-1", 0)
        one.execution.dispatch.look()
        assert memory.quota.promised("retained memory", 0) == 5 * 4096


@in_loop
def test_a_process_full_of_memory_is_replaced_at_rest():
    with host() as one:
        ends, slack = killed(one), one.execution.memory.functions.slack
        one.run(table(1, USERS, [0, 0], [(), ()]), 0, 1)
        worker = one.execution.workers[0]
        one.say(*kept(100))  # after its first functions
        one.say(*kept(2 * slack))  # the first operand is reported next, and the second one has begun
        assert worker.state == RECYCLED and not ends
        one.say(*DONE)
        assert not ends and one.batches()
        one.say(*DONE)
        assert ends == ["worker-0"] and not worker.batches
        gone(one)
        assert worker.state == "" and one.execution.memory.retained.nbytes(0) == 0 and one.held()["promised"] == 0
        assert not one.scheduler.of(WorkerLost) and not one.execution.dispatch.recovery.deaths


@in_loop
def test_first_memory_of_a_process_is_no_reason_and_renewals_give_more():
    with host() as one:
        slack = one.execution.memory.functions.slack
        for more in (2, 3, 5, 5):
            ends = killed(one)
            one.say(*kept(6 * slack))
            one.say(*kept(6 * slack + (more - 1) * slack * (more > 2)))
            assert not ends, "it was replaced for as much before"
            one.say(*kept(6 * slack + more * slack))
            assert ends == ["worker-0"]
            gone(one)


@in_loop
def test_memory_of_imports_is_no_reason():
    with host() as one:
        ends, slack = killed(one), one.execution.memory.functions.slack
        one.say(*kept(100))
        one.say(*kept(5 * slack, imported=True))
        one.say(*kept(5 * slack + slack // 2))
        assert not ends
        one.say(*kept(7 * slack))
        assert ends == ["worker-0"]


@in_loop
def test_memory_that_grows_with_endless_imports_is_a_reason():
    with host() as one:
        ends, slack = killed(one), one.execution.memory.functions.slack
        for number in range(1, 20):
            one.say(*kept(2 * number * slack, imported=True))
            if ends:
                break
        assert ends == ["worker-0"] and 3 < number < 15


@in_loop
def test_who_finds_no_room_has_processes_replaced_that_keep_memory():
    with host(workers=2) as one:
        ends = killed(one)
        one.say(*kept(one.arena.capacity // 2), worker=1)
        assert not ends and one.held()["promised"] > 0
        need = one.arena.capacity * 3 // 4
        one.run(table(1, [program(size=need)], [0], [()]), 0)
        assert ends == ["worker-1"] and one.held()["line"] == 1 and not one.scheduler.of(Refused)
        gone(one, 1)
        assert one.held()["line"] == 0 and len(one.batches(0)) + len(one.batches(1)) == 1


@in_loop
def test_operands_that_wait_in_a_full_process_run_in_another():
    with host() as one:
        ends, slack = killed(one), one.execution.memory.functions.slack
        one.run(table(1, [program(sized=False)], [0], [()]), 0)
        one.say(*kept(one.arena.capacity // 2 + slack))
        size = one.arena.capacity * 2 // 5
        one.say(0, [], 0, 0, (UNSIZED, size), [])
        assert one.children.sent["worker-0"][-1] == ("place", 0, ""), "else it would wait for its own end"
        assert one.held()["line"] == 0 and not ends
        one.say(0, [], 0, 0, (INTERRUPTED,), [])
        assert ends == ["worker-0"] and not one.scheduler.of(Failed)
        gone(one)
        one.execution.enqueue_graph("job-1", [0], [0])
        ((_, _, [(_, (slot, _), *_)], _),) = one.batches()
        assert one.arena.size_of(slot) >= size


@in_loop
def test_more_workers_have_less_slack_each_and_what_is_beyond_is_promised():
    with host() as one:
        memory = one.execution.memory
        before = memory.functions.slack
        memory.retained.update(0, before)
        assert memory.quota.granted == 0
        memory.count_workers(4)
        assert memory.functions.slack < before and memory.quota.granted == before - memory.functions.slack
        memory.count_workers(1)
        assert memory.quota.granted == 0
