"""Flags: each open job has a word of its own."""

import pytest

from jmars.errors import ClusterError
from jmars.storage.arena import HEADER
from jmars.worker.crew import Flags


def test_a_job_is_stopped_by_no_word_of_another_however_many_came_between():
    memory = bytearray(HEADER)
    words = memoryview(memory).cast("I")
    flags = Flags(memoryview(memory))
    flags.open_job(1)
    for number in range(2, 3000):
        flags.open_job(number)
        flags.stop(number)
        assert not words[flags.word(1)]
        flags.close_job(number)
    flags.open_job(3000)
    flags.stop(1)
    assert words[flags.word(1)] and not words[flags.word(3000)]


def test_more_open_jobs_than_words_are_refused_and_the_next_fits_when_one_is_closed():
    flags = Flags(memoryview(bytearray(HEADER)))
    for number in range(1024):
        flags.open_job(number)
    with pytest.raises(ClusterError, match="1024 jobs are open"):
        flags.open_job(1024)
    flags.close_job(7)
    flags.open_job(1024)
