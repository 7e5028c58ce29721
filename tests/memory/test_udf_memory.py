"""What a user's function is granted: counted, without processes."""

from jmars.errors import MemoryLimitError
from jmars.memory.quota import LEAST_SLACK, UdfMemoryPolicy

MiB = 2**20


def grants(capacity=512 * MiB, workers=2):
    return UdfMemoryPolicy(capacity, workers)


def ask(one, operand=0, program=0, work=0, others=0, resident=512 * MiB):
    return one.demand(1, operand, program, work, others, resident)


def test_where_memory_is_short_a_function_is_promised_what_it_says():
    assert ask(grants(), work=5 * MiB) == (5 * MiB, 5 * MiB)


def test_where_memory_is_ample_it_gets_more_and_waits_for_what_it_says():
    wish, need = ask(grants(), work=5 * MiB, resident=56 * MiB)
    assert (wish, need) == (5 * MiB + 50 * MiB, 5 * MiB)


def test_memory_beyond_promises_is_below_a_tenth_of_a_usual_limit():
    for capacity, workers in ((512 * MiB, 2), (2**33, 4), (2**33, 64)):
        one = grants(capacity, workers)
        assert one.slack == LEAST_SLACK or one.slack * workers <= capacity / 10


def test_a_function_that_wants_more_gets_what_its_inputs_leave():
    one = grants()
    assert one.wants_all(1, 7, 0) and one.gets_all(1, 7)
    wish, need = ask(one, operand=7, work=5 * MiB, others=100 * MiB)
    assert wish == need and 390 * MiB < need < 412 * MiB
    assert not one.wants_all(1, 7, 0)
    assert ask(one, operand=8, program=1, work=5 * MiB) == (5 * MiB, 5 * MiB)


def test_those_of_its_program_wait_until_it_has_shown_what_they_take():
    one = grants()
    one.wants_all(1, 7, 0)
    assert ask(one, operand=8, program=0)[1] > 400 * MiB
    one.took(1, 7, program=0, peak=40 * MiB)
    assert ask(one, operand=8, program=0)[1] == 50 * MiB


def test_what_one_took_is_promised_to_the_next_of_its_program():
    one = grants()
    one.wants_all(1, 7, 3)
    one.took(1, 7, program=3, peak=80 * MiB)
    assert ask(one, operand=8, program=3) == (100 * MiB, 100 * MiB) and ask(one, operand=8, program=4) == (0, 0)
    assert not one.gets_all(1, 7)
    one.forget()
    assert ask(one, operand=8, program=3) == (0, 0)


def test_eight_small_calls_in_a_row_lower_the_promise():
    one = grants()
    one.wants_all(1, 7, 3)
    assert one.is_measured(1, 7, 3) and not one.is_measured(1, 8, 3)
    assert one.took(1, 7, program=3, peak=200 * MiB)
    assert one.is_measured(1, 8, 3) and not one.is_measured(1, 8, 4)
    for peak in (10, 80, 10, 10, 10, 10, 10):
        assert not one.took(1, 8, program=3, peak=peak * MiB)
    assert ask(one, operand=8, program=3)[1] == 250 * MiB
    assert one.took(1, 9, program=3, peak=10 * MiB)
    assert ask(one, operand=8, program=3)[1] == 100 * MiB
    assert [one.took(1, 9, program=3, peak=MiB) for _ in range(8)] == [False] * 7 + [True]
    assert one.is_plain(3) and not one.is_measured(1, 9, 3)
    one.wants_all(1, 10, 3)
    assert ask(one, operand=11, program=3)[1] < 2 * MiB  # the others need not wait until it has run
    assert one.took(1, 10, program=3, peak=200 * MiB)
    assert [one.took(1, 9, program=3, peak=MiB) for _ in range(16)] == [False] * 15 + [True]


def test_one_that_takes_more_than_those_before_it_ends_their_row():
    one = grants()
    one.wants_all(1, 7, 3)
    one.took(1, 7, program=3, peak=80 * MiB)
    for peak in (10, 10, 10, 10, 10, 10, 10, 88, 10):
        one.took(1, 9, program=3, peak=peak * MiB)
    assert ask(one, operand=8, program=3)[1] == 110 * MiB


def test_no_more_is_waited_for_than_can_ever_be_had():
    one = grants()
    one.wants_all(1, 7, 3)
    one.took(1, 7, program=3, peak=500 * MiB)
    assert ask(one, operand=8, program=3, others=300 * MiB)[1] < 212 * MiB


def test_a_closed_job_is_forgotten():
    one = grants()
    one.wants_all(1, 7, 0)
    one.wants_all(2, 7, 0)
    one.close_job(1)
    assert not one.gets_all(1, 7) and one.gets_all(2, 7)


def test_the_error_names_operand_peak_and_limit():
    one = grants()
    one.limit = 700 * MiB
    error = one.too_much("the operand grab", 12 * MiB, 400 * MiB, "Unable to allocate 5.59 GiB")
    assert isinstance(error, MemoryLimitError)
    for part in ("grab", "12.0 MiB", "400.0 MiB", "512.0 MiB", "700.0 MiB", "5.59 GiB", "chunk_size"):
        assert part in str(error)
    assert "had taken all of the 400.0 MiB" in str(one.too_much("the operand grab", 500 * MiB, 400 * MiB, ""))
