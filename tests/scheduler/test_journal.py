"""Journal: what was noted is read back, up to where the process died."""

import os

import pytest

from jmars.scheduler.journal import Journal, read_journal


def noted(path, *records):
    journal = Journal(path, later=lambda call: None)
    for record in records:
        journal.note(*record)
    journal.close()


def test_records_come_back_in_order_over_several_lives(tmp_path):
    path = str(tmp_path / "journal")
    noted(path, ("job", "job-1", 1, b"\x00\xff", None, {"a": 1.5}), ("drop", ["t-1"]))
    noted(path, ("end", {"job": "job-1"}))
    assert list(read_journal(path)) == [
        ("job", "job-1", 1, b"\x00\xff", None, {"a": 1.5}),
        ("drop", ("t-1",)),
        ("end", {"job": "job-1"}),
    ]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_no_file_is_no_record(tmp_path):
    assert list(read_journal(str(tmp_path / "nothing"))) == []


@pytest.mark.parametrize("kept", range(1, 40))
def test_a_record_that_was_not_written_whole_is_left_out_and_overwritten(tmp_path, kept):
    path = str(tmp_path / "journal")
    noted(path, ("first", 1))
    whole = os.path.getsize(path)
    noted(path, ("second", "a" * 30))
    os.truncate(path, min(whole + kept, os.path.getsize(path) - 1))
    assert list(read_journal(path)) == [("first", 1)]
    noted(path, ("third", 3))
    assert list(read_journal(path)) == [("first", 1), ("third", 3)]


def test_a_damaged_record_ends_what_is_believed(tmp_path):
    path = str(tmp_path / "journal")
    noted(path, ("first", 1))
    whole = os.path.getsize(path)
    noted(path, ("second", 2), ("third", 3))
    with open(path, "r+b") as file:
        file.seek(whole + 10)
        file.write(b"\xaa")
    assert list(read_journal(path)) == [("first", 1)]


def test_what_is_noted_is_written_with_the_turn_of_the_loop(tmp_path):
    path, later = str(tmp_path / "journal"), []
    journal = Journal(path, later.append)
    journal.note("a")
    journal.note("b")
    assert list(read_journal(path)) == [] and len(later) == 1
    later.pop()()
    assert list(read_journal(path)) == [("a",), ("b",)]
    journal.note("c")
    assert len(later) == 1
    journal.close()


def test_a_journal_that_begins_again_tells_only_that(tmp_path):
    path = str(tmp_path / "journal")
    journal = Journal(path, later=lambda call: None)
    for number in range(100):
        journal.note("old", number)
    journal.flush()
    long = journal.size
    journal.begin_again([("tensors", {"t-1": [3, 4]})])
    journal.note("new", 1)
    journal.close()
    assert list(read_journal(path)) == [("tensors", {"t-1": (3, 4)}), ("new", 1)]
    assert journal.size == os.path.getsize(path) < long
    assert os.listdir(tmp_path) == ["journal"]
