"""A chunk's next use is the lowest rank among its readers that have not finished."""

from jmars.memory.host_memory import NEVER, NextUse
from jmars.model.messages import JobTable


def table(number, program, inputs, rank, base, chunk=None):
    n = len(program)
    readers = [[] for _ in range(n)]
    for operand, reads in enumerate(inputs):
        for one in reads:
            readers[one].append(operand)
    return JobTable(
        job=f"job-{number}",
        number=number,
        programs=[],
        program=program,
        inputs=inputs,
        args=None,
        base=base,
        chunk=chunk or list(range(base, base + n)),
        nbytes=[8] * n,
        work=[0] * n,
        rank=rank,
        kept=0,
        stored=[i for i in range(n) if program[i] < 0],
        readers=readers,
    )


def test_the_next_reader_counts_and_not_the_last():
    uses = NextUse()
    uses.open_job(table(1, [0, 0, 0], [(), (0,), (0, 1)], [0, 1, 2], base=10))
    assert [uses.next_use(chunk) for chunk in (10, 11, 12)] == [1, 2, NEVER]
    uses.finished(1, [1])
    assert uses.next_use(10) == 2
    uses.finished(1, [2])
    assert uses.next_use(10) == uses.next_use(11) == NEVER


def test_chunks_of_other_jobs_count_for_all_who_read_them():
    uses = NextUse()
    uses.open_job(table(1, [-1, 0], [(), (0,)], [0, 5], base=10, chunk=[3, 11]))
    uses.open_job(table(2, [-1, 0, 0], [(), (0,), (0,)], [0, 2, 1], base=20, chunk=[3, 21, 22]))
    assert uses.next_use(3) == 1
    uses.finished(2, [2])
    assert uses.next_use(3) == 2
    uses.close_job(2)
    assert uses.next_use(3) == 5
    assert uses.next_use(10) == NEVER  # a number that no chunk has: the operand stands for chunk 3
    uses.close_job(1)
    assert uses.next_use(3) == uses.next_use(99) == NEVER
