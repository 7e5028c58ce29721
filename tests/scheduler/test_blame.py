"""Only an operand that ended workers while it ran alone is to blame; bystanders and stopped processes are not."""

from jmars.scheduler.operand_rows import ALONE, MOST_STOPPED, TOTAL, Blame


def test_an_operand_that_ends_each_worker_is_found_after_three():
    blame = Blame()
    assert [blame.died([4], "signal") for _ in range(TOTAL)] == [[], [], [4]]
    blame = Blame()
    assert blame.died([3, 4, 5], "exit") == []  # any of them
    assert [blame.died([4], "exit"), blame.died([4], "exit")] == [[], [4]]
    assert (blame.deaths[4].total, blame.deaths[4].alone) == (TOTAL, ALONE)


def test_bystanders_are_not_blamed_however_often_their_worker_dies():
    blame = Blame()
    for _ in range(10):
        assert blame.died([1, 2, 3], "signal") == []
    assert blame.died([1], "signal") == []
    assert blame.died([1], "signal") == [1]


def test_what_ran_on_a_gpu_that_lost_its_context_is_not_blamed():
    blame = Blame()
    assert not any(blame.died([4], "gpu") for _ in range(20))


def test_deaths_by_memory_are_counted_apart():
    blame = Blame()
    blame.died([1, 2], "memory")
    blame.died([1], "signal")
    assert blame.died([1], "memory") == [1]
    assert (blame.deaths[1].by_memory, blame.deaths[2].by_memory) == (2, 1)


def test_workers_that_do_not_answer_blame_only_much_later():
    blame = Blame()
    assert [blame.died([1], "stopped") for _ in range(MOST_STOPPED)] == [[]] * (MOST_STOPPED - 1) + [[1]]
    assert blame.died([2, 3], "stopped") == [] and blame.deaths[2].total == 0


def test_all_who_are_to_blame_for_one_death_are_found_and_counted():
    blame = Blame()
    for operand in (1, 2, 1, 2):
        assert blame.died([operand], "signal") == []
    assert blame.died([1, 2, 3], "signal") == [1, 2]
    assert [blame.deaths[one].total for one in (1, 2, 3)] == [3, 3, 1]


def test_deaths_that_an_engine_counted_count_together():
    blame = Blame()
    assert blame.died([1, 2], "signal", 4) == [] and blame.died([1], "memory", 4) == [1]
    assert (blame.deaths[1].total, blame.deaths[1].alone, blame.deaths[1].by_memory) == (8, 4, 4)
    assert blame.died([3], "signal", TOTAL) == [3]
