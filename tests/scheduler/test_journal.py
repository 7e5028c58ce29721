"""Journal: what was noted is read back, up to where the process died."""

import errno
import os

import pytest

from jmars.errors import StorageError
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


class Disk:
    """Stands in for `os.write`: takes `room` bytes in all, and then says that it is full."""

    def __init__(self, monkeypatch, room=0, refusal=errno.ENOSPC):
        self.room, self.refusal, self.write = room, refusal, os.write
        monkeypatch.setattr("jmars.scheduler.journal.os.write", self)

    def __call__(self, fd, data):
        if not self.room:
            raise OSError(self.refusal, os.strerror(self.refusal))
        count = self.write(fd, data[: self.room])
        self.room -= count
        return count


def test_on_a_full_disk_records_and_answers_wait_for_room(tmp_path, monkeypatch):
    path, timers, answers = str(tmp_path / "journal"), [], []
    journal = Journal(path, lambda call: None, lambda seconds, call: timers.append(call))
    disk = Disk(monkeypatch, room=13)  # the first record goes in half
    journal.note("first", "a" * 30)
    journal.when_written(lambda: answers.append("first"))
    journal.note("second")
    journal.when_written(lambda: answers.append("second"))
    assert answers == [] and len(timers) == 1, "one retry is under way, however much waits"
    assert str(tmp_path) in journal.trouble and "No space left" in journal.trouble
    timers.pop()()
    assert answers == [] and len(timers) == 1, "there is no room yet"
    disk.room = 1000
    timers.pop()()
    assert answers == ["first", "second"] and journal.trouble == "" and timers == []
    journal.close()
    assert list(read_journal(path)) == [("first", "a" * 30), ("second",)]
    assert journal.size == os.path.getsize(path)


def test_what_waited_in_vain_is_left_out_by_who_comes_after(tmp_path, monkeypatch):
    path = str(tmp_path / "journal")
    journal = Journal(path, lambda call: None, lambda seconds, call: None)
    disk = Disk(monkeypatch, room=20)
    journal.note("whole")
    journal.note("half of it", "b" * 30)
    journal.flush()
    disk.room = 1000
    noted(path, ("next", 1))  # another scheduler
    assert list(read_journal(path)) == [("whole",), ("next", 1)]
    os.close(journal._fd)


@pytest.mark.parametrize("refusal", [errno.EIO, errno.EROFS])
def test_a_disk_that_takes_nothing_for_another_reason_is_an_error(tmp_path, monkeypatch, refusal):
    journal = Journal(str(tmp_path / "journal"), lambda call: None, lambda seconds, call: None)
    Disk(monkeypatch, refusal=refusal)
    journal.note("first")
    with pytest.raises(StorageError, match=r"cannot be written .*; make room in"):
        journal.flush()
    os.close(journal._fd)


def test_a_journal_that_finds_no_room_to_begin_again_stays_as_it_is(tmp_path, monkeypatch):
    path = str(tmp_path / "journal")
    journal = Journal(path, lambda call: None, lambda seconds, call: None)
    journal.note("old")
    journal.flush()
    disk = Disk(monkeypatch, room=10)
    assert not journal.begin_again([("tensors", {"t-1": [3, 4]})])
    disk.room = 1000
    journal.note("new")
    journal.close()
    assert list(read_journal(path)) == [("old",), ("new",)]
    assert os.listdir(tmp_path) == ["journal"]


def test_a_journal_with_half_a_record_does_not_begin_again_elsewhere(tmp_path, monkeypatch):
    path = str(tmp_path / "journal")
    journal = Journal(path, lambda call: None, lambda seconds, call: None)
    disk = Disk(monkeypatch, room=13)

    def refuse_once(fd, data):
        try:
            return disk(fd, data)
        except OSError:
            disk.room = 1000  # somebody made room right behind it
            raise

    monkeypatch.setattr("jmars.scheduler.journal.os.write", refuse_once)
    journal.note("first", "a" * 30)
    assert not journal.begin_again([("tensors", {})])
    journal.note("second")
    journal.close()
    assert list(read_journal(path)) == [("first", "a" * 30), ("second",)]
