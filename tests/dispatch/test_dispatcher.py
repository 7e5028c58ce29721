"""Who gets what next: jobs take turns, and nothing is bound behind what runs long."""

import numpy as np

from jmars.kernels.program import Call, ChunkType, single
from jmars.model.limits import WINDOW
from jmars.model.messages import Failed, Interrupted
from tests.worker.steps_host import Host, in_loop, program, table

DONE = (1, [2_000_000], 0, 0, None, [])
REVOKED = (0, [], 0, 0, ("revoked",), [])
USERS = [program(users=True)]


def sent(host, worker):
    """(job, operands) of each batch that a worker has."""
    return [(batch.table.number, list(batch.operands)) for batch in host.execution.workers[worker].batches]


def job(number, operands, programs=USERS):
    return table(number, programs, [0] * operands, [()] * operands)


@in_loop
def test_the_queue_of_a_long_function_runs_at_the_first_free_worker():
    with Host(workers=2) as host:
        host.run(job(1, 4), 0, 1, 2, 3)
        assert sent(host, 0) == [(1, [0]), (1, [2])] and sent(host, 1) == [(1, [1]), (1, [3])]
        host.children.token = True
        for worker in host.execution.workers:
            worker.since -= 1.0  # nobody knew that it takes so long
        assert host.execution.dispatch.speculation.look()
        assert Interrupted("job-1", [2], 0) in host.scheduler.told
        host.execution.enqueue_graph("job-1", [2, 3], [0, 0])
        assert sent(host, 0) == [(1, [0])] and sent(host, 1) == [(1, [1])], "nothing waits behind what runs long"
        host.say(*DONE, worker=1)
        host.say(*REVOKED, worker=1)
        assert sent(host, 1)[0] == (1, [2]), "it was sent to the other one first"


@in_loop
def test_an_earlier_job_and_a_later_one_that_waited_in_a_window_take_turns():
    with Host(workers=2) as host:
        host.execution.open_job(job(1, 2))
        host.run(job(2, 4), 0, 1, 2, 3)
        host.children.token = True
        for worker in host.execution.workers:
            worker.since -= 1.0
        host.execution.dispatch.speculation.look()
        host.execution.enqueue_graph("job-2", [2, 3], [0, 1])
        host.execution.enqueue_graph("job-1", [0, 1], [0, 0])
        for worker in (1, 0):
            host.say(*DONE, worker=worker)
            host.say(*REVOKED, worker=worker)
        assert sent(host, 1)[0] == (1, [0]) and sent(host, 0)[0] == (2, [2])


@in_loop
def test_time_that_a_job_had_alone_is_not_taken_off_its_turns():
    with Host() as host:
        host.execution.open_job(job(1, 40))
        host.execution.open_job(job(2, 1))
        host.execution.open_job(job(3, 20))
        host.execution.enqueue_graph("job-1", list(range(40)), [0] * 40)
        host.execution.enqueue_graph("job-2", [0], [0])
        ran = []

        def run(number):
            for _ in range(number):
                ran.append(sent(host, 0)[0][0])
                host.say(*DONE)

        run(20)  # job 2 has ended soon, and job 1 is alone then
        host.execution.enqueue_graph("job-3", list(range(20)), [0] * 20)
        run(WINDOW + 12)
        assert ran.count(2) == 1 and 5 <= ran.count(3) <= 7, "it had half of the time since it came"


@in_loop
def test_where_memory_is_short_the_earlier_job_goes_first():
    for tight, order in ((False, [1, 1, 1, 2, 1]), (True, [1, 1, 1, 1, 2])):
        with Host() as host:
            host.execution.open_job(table(1, USERS, [0] * 4, [()] * 4, tight=tight))
            host.execution.open_job(job(2, 1))
            host.execution.enqueue_graph("job-1", [0, 1, 2, 3], [0] * 4)  # two of them are sent, and then one begins
            host.execution.enqueue_graph("job-2", [0], [0])
            ran = []
            while sent(host, 0):
                ran.append(sent(host, 0)[0][0])
                host.say(*DONE)
            assert ran == order


@in_loop
def test_nothing_waits_behind_a_long_operand_but_where_memory_is_short():
    for tight, held in ((False, [[0]]), (True, [[0], [1]])):
        with Host() as host:
            one = table(1, USERS, [0, 0], [(), ()], tight=tight)
            host.execution.open_job(one)
            (number,) = host.execution.dispatch.programs.numbers(one)
            host.execution.ledger.estimate.learn(number, 3.0)
            host.execution.enqueue_graph("job-1", [0, 1], [0, 0])
            assert [operands for _, operands in sent(host, 0)] == held
            host.say(*DONE)
            assert [operands for _, operands in sent(host, 0)] == [[1]]


@in_loop
def test_no_other_job_waits_behind_a_long_operand_where_memory_is_short():
    with Host() as host:
        one = table(1, USERS, [0, 0, 0], [(), (), ()], tight=True)
        host.execution.open_job(one)
        host.execution.open_job(job(2, 1))
        (number,) = host.execution.dispatch.programs.numbers(one)
        host.execution.ledger.estimate.learn(number, 3.0)
        host.execution.enqueue_graph("job-1", [1], [0])
        host.execution.enqueue_graph("job-2", [0], [0])
        assert sent(host, 0) == [(1, [1])]
        host.execution.enqueue_graph("job-1", [0], [0])
        assert sent(host, 0) == [(1, [1]), (1, [0])]
        host.say(*DONE)
        assert sent(host, 0) == [(1, [0])]


@in_loop
def test_admitted_operands_of_other_jobs_do_not_wait_behind_a_long_one():
    with Host() as host:
        one, two = job(1, 1), job(2, 1)
        host.execution.open_job(one)
        host.execution.open_job(two)
        dispatcher, (worker,) = host.execution.dispatch.dispatcher, host.execution.workers
        host.execution.memory.staged.append((two, 0, 0))
        assert dispatcher._staged(worker, True, one.number) is None
        assert dispatcher._staged(worker, True, two.number) == (two, 0, 0)


@in_loop
def test_no_more_is_gathered_ahead_than_the_workers_soon_read():
    line, out = ChunkType((-1,), np.dtype("u1")), ChunkType((4096,), np.dtype("u1"))
    merge = single("merge", [line], Call(len, (), (0,), out, True, 4096, alone=True, gathers=True))
    bounds = (np.array([[0, 64]]).tobytes(),)
    readers = 30
    rows, inputs, args = [0] + [1] * readers, [(), *[(0,)] * readers], [(), *[(bounds,)] * readers]
    with Host(pages=200, workers=2) as host:
        host.run(table(1, [program(), merge], rows, inputs, args=args), 0)
        host.say(1, [1000], 0, 0, None, [])
        host.execution.enqueue_graph("job-1", list(range(1, readers + 1)), [0] * readers)
        assert len(host.execution.memory.buffers.gathers) == WINDOW * 2, "the others wait in the queue, without memory"
        assert len(host.execution.dispatch.queue) == readers - WINDOW * 2


def chained(host, inputs, seconds=1e-5, size=100, **more):
    """A job of cheap functions with small results, known to be so."""
    ways = sorted({len(read) for read in inputs})
    loose = ChunkType((-1,), np.dtype("u1"))
    calls = [
        single("step", [loose] * n, Call(len, (), tuple(range(n)), loose, True, alone=True, runs_user_code=True))
        for n in ways
    ]
    one = table(1, calls, [ways.index(len(read)) for read in inputs], inputs, chains=True, **more)
    host.execution.open_job(one)
    for number in host.execution.dispatch.programs.numbers(one):
        host.execution.ledger.estimate.learn(number, seconds)
        host.execution.memory.outputs.learn(number, size)
    return one


@in_loop
def test_a_chain_of_cheap_functions_is_one_batch():
    with Host() as host:
        chained(host, [(), (0,), (1,), (2,)])
        host.execution.enqueue_graph("job-1", [0], [0])
        assert sent(host, 0) == [(1, [0, 1, 2, 3])]
        ((_, _, operands, _),) = host.batches()
        assert [ins for _, _, ins, _ in operands] == [[], [(-1, None)], [(-2, None)], [(-3, None)]]
        host.say(4, [10] * 4, 0, 0, None, [[k, [100]] for k in range(4)])
        assert host.held()["slots"] == host.held()["batches"] == host.held()["promised"] == 0


@in_loop
def test_a_reader_of_several_goes_along_when_the_batch_makes_all_of_them():
    with Host() as host:
        chained(host, [(), (), (), (), (0, 1), (2, 3), (4, 5)], rank=[0, 1, 3, 4, 2, 5, 6])
        host.execution.enqueue_graph("job-1", [0, 1, 2, 3], [0] * 4)
        assert sent(host, 0) == [(1, [0, 1, 4]), (1, [2, 3, 5])], "each batch has its share of what waited"


@in_loop
def test_no_reader_goes_along_that_is_long_or_unknown_or_shared_or_large():
    for seconds, size, inputs in (
        (0.01, 100, [(), (0,)]),
        (0.0, 100, [(), (0,)]),
        (1e-5, 2**20, [(), (0,)]),
        (1e-5, 100, [(), (0,), (0,)]),
    ):
        with Host(pages=2048) as host:
            chained(host, inputs, seconds, size)
            host.execution.enqueue_graph("job-1", [0], [0])
            assert sent(host, 0) == [(1, [0])]


@in_loop
def test_readers_that_went_along_wait_again_before_a_failure_is_told():
    with Host() as host:
        chained(host, [(), (0,), (1,)])
        host.execution.enqueue_graph("job-1", [0], [0])
        host.say(1, [10], 0, 0, ("failed", ("ValueError", "no")), [[0, [100]]])
        told = host.scheduler.of(Failed, Interrupted)
        assert [type(one) for one in told] == [Interrupted, Failed] and told[0].operands == [2]
        assert host.held()["slots"] == host.held()["batches"] == 0
