"""What should run elsewhere: decided from how workers stand, without clocks or processes."""

from jmars.dispatch.speculation import LEAST_LATE, LOADING, Stragglers, WorkerLoad
from jmars.model.limits import WAITS_BEHIND

IDLE = WorkerLoad(idle=True)


def busy(seconds, **more):
    return WorkerLoad(seconds=seconds, program=7, **more)


def test_the_queue_of_a_long_operand_goes_to_the_first_free_worker():
    late = Stragglers()
    assert late.choose([busy(1.0, waits=True), IDLE]) == ([0], [])
    assert late.choose([busy(WAITS_BEHIND / 2, waits=True), IDLE]) == ([], [])
    assert late.choose([busy(1.0, waits=True), busy(1.0)]) == ([0], [])


def test_short_memory_takes_as_many_as_are_idle_the_longest_first():
    late = Stragglers()
    workers = [busy(1.0, waits=True), busy(3.0, waits=True), busy(2.0, waits=True)]
    assert late.choose([*workers, IDLE], tight=True) == ([1], [])
    assert late.choose(workers, tight=True) == ([], []), "its inputs are read while it waits"
    workers[2] = busy(2.0, waits=True, other=True)
    assert late.choose(workers, tight=True) == ([2], []), "a job does not wait behind a long operand of another job"


def test_the_queue_of_a_stopped_process_is_taken_though_nobody_is_idle():
    assert Stragglers().choose([busy(0.0, waits=True, stuck=True), busy(5.0)]) == ([0], [])


def test_an_operand_slower_than_three_quarters_of_its_like_is_copied():
    late = Stragglers()
    late.learn(7, [1_000_000 * n for n in (2, 3, 4, 4, 100)])
    assert late.limit(7, usual=22.0) == 6.0
    assert late.choose([busy(5.9, usual=22.0, repeatable=True), IDLE]) == ([], [])
    assert late.choose([busy(6.1, usual=22.0, repeatable=True), IDLE]) == ([], [(0, 1)])


def test_short_operands_are_late_after_a_second_and_unknown_ones_never():
    late = Stragglers()
    late.learn(7, [100] * 50)
    assert late.limit(7, usual=1e-4) == 1e-4 + LEAST_LATE
    assert late.choose([busy(60.0, usual=0.0, repeatable=True), IDLE]) == ([], [])


def test_the_first_run_of_a_program_in_a_process_may_load_libraries():
    late = Stragglers()
    for seconds, copies in ((LEAST_LATE + 0.1, []), (LOADING, []), (LOADING + LEAST_LATE + 0.1, [(0, 1)])):
        assert late.choose([busy(seconds, usual=1e-4, repeatable=True, loads=True), IDLE]) == ([], copies)
    assert late.choose([busy(0.0, usual=1e-4, repeatable=True, loads=True, stuck=True), IDLE]) == ([], [(0, 1)])


def test_what_may_not_run_twice_or_has_a_copy_already_gets_none():
    assert Stragglers().choose([busy(60.0, usual=1.0, repeatable=False, stuck=True), IDLE]) == ([], [])


def test_a_process_that_does_not_run_has_all_it_holds_copied_at_once():
    assert Stragglers().choose([busy(0.0, repeatable=True, stuck=True), IDLE]) == ([], [(0, 1)])


def test_what_nobody_has_begun_goes_before_copies():
    workers = [busy(60.0, usual=1.0, repeatable=True, waits=True), IDLE]
    assert Stragglers().choose(workers) == ([0], [])


def test_each_idle_worker_runs_one_copy():
    late = Stragglers()
    workers = [busy(9.0, usual=1.0, repeatable=True), busy(9.0, usual=1.0, repeatable=True), IDLE]
    assert late.choose(workers) == ([], [(0, 2)])
