"""Which worker: most input bytes, then the least load."""

from jmars.scheduler.operand_rows import choose_worker


def test_s3_18_most_bytes_win_and_equals_go_to_the_idler():
    assert choose_worker([0, 1], [0, 1], [90, 10], [9, 0]) == 0
    assert choose_worker([0, 1], [0, 1], [50, 50], [3, 1]) == 1
    assert choose_worker([0, 1], [0, 1], [50, 50], [1, 1]) == 0
    assert choose_worker([0], [1], [5], [0, 100]) == 1


def test_chunks_that_no_worker_made_count_for_nobody():
    assert choose_worker([0], [-1], [5], [4, 2]) == 1
    assert choose_worker([0, 1], [-1, 0], [99, 1], [9, 0]) == 0
    assert choose_worker([0, 1], [-1, -1], [99, 1], [9, 0]) == 1
