"""StopFlags: each open job has a word of its own. ProgramTable: many small or few large ones are kept between jobs."""

from types import SimpleNamespace

import numpy as np
import pytest

from jmars.dispatch.workers import REMEMBERED_BYTES, ProgramTable, StopFlags, Worker
from jmars.errors import ClusterError
from jmars.kernels.program import Call, ChunkType, single
from jmars.model.limits import REMEMBERED_PROGRAMS
from jmars.storage.arena import HEADER


def test_a_job_is_stopped_by_no_word_of_another_however_many_came_between():
    memory = bytearray(HEADER)
    words = memoryview(memory).cast("I")
    flags = StopFlags(memoryview(memory))
    flags.open_job(1)
    for number in range(2, 3000):
        flags.open_job(number)
        flags.stop(number)
        assert not words[flags.index(1)]
        flags.close_job(number)
    flags.open_job(3000)
    flags.stop(1)
    assert words[flags.index(1)] and not words[flags.index(3000)]


def test_more_open_jobs_than_words_are_refused_until_one_is_closed():
    flags = StopFlags(memoryview(bytearray(HEADER)))
    for number in range(1022):
        flags.open_job(number)
    with pytest.raises(ClusterError, match="1022 jobs are open"):
        flags.open_job(1024)
    flags.close_job(7)
    flags.open_job(1024)


def test_programs_are_forgotten_when_many_or_large_and_no_job_is_open():
    def forgets(sizes):
        """Whether jobs with a program of so many bytes each leave none behind."""
        programs, worker, found = ProgramTable(), Worker(0), False
        worker.link = SimpleNamespace(send=lambda message: None)
        for number, size in enumerate(sizes):
            call = Call(print, (number, bytes(size)), (), ChunkType((1,), np.dtype("u1")))
            table = SimpleNamespace(number=number, programs=[single("f", (), call)])
            programs.open_job(table)
            programs.make_known(worker, programs.numbers(table)[0], table, 0)
            found = programs.close_job(table)
        return found

    assert not forgets([10] * 100) and not forgets([REMEMBERED_BYTES // 2])
    assert forgets([10] * (REMEMBERED_PROGRAMS + 1)) and forgets([REMEMBERED_BYTES // 2] * 2)
    assert not forgets([REMEMBERED_BYTES, 10])  # counted anew


def test_a_job_hears_of_the_back_end_of_each_program_once():
    def table(number):
        types = [ChunkType((length,), np.dtype("u1")) for length in (1, 2)]
        calls = [single("f", (), Call(print, (), (), chunk)) for chunk in types]
        return SimpleNamespace(number=number, programs=calls, program=[0, 1, 0])

    programs, first, second = ProgramTable(), table(1), table(2)
    programs.open_job(first)
    programs.compiled([(0, "numexpr")])
    assert programs.backends(first, [0, 1, 2]) == [(0, "numexpr")]
    programs.compiled([(1, "function")])
    assert programs.backends(first, [1, 2]) == [(1, "function")]
    assert programs.backends(first, [0, 1]) == []
    programs.open_job(second)
    assert programs.backends(second, [2]) == [(0, "numexpr")]
