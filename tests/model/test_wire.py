"""Records travel: each comes out of a message and of the journal as it went in."""

import dataclasses
import pickle

import pytest

from jmars.actors.frames import pack, unpack
from jmars.errors import MemoryLimitError, OperandError, ProtocolError
from jmars.model.messages import ORDERS, REPORTS, EnqueueGraph, Failed, Failure, Finished, Submission
from jmars.scheduler.journal import Journal, read_journal

VALUES = {
    "Sequence[int]": [1, 2**20],
    "Sequence[Sequence[int]]": [(2, 1), (3,)],
    "Mapping[int, Sequence[int]] | None": {3: (2, 2)},
    "Sequence[bytes]": [b"", b"\1\0\0\0"],
    "Sequence[tuple[int, int, int]]": [(3, 0, 2), (4, 1, 1)],
    "Sequence[tuple[int, str]]": [(0, "numpy"), (3, "numexpr")],
    "Sequence[tuple[str, str, int, str]]": [("o", "", 0, "a line"), ("-", "", 3, "")],
    "Mapping[int, tuple[int, ...]] | None": {3: (2, 2)},
    "dict[str, Any]": {"makespan": 1.5, "peak": 10},
    "Failure": Failure("ValueError", "no", "a line", b"...", "the operand add", 1, True),
    "int": -1,
    "str": "text \udcff",
    "bytes": b"\x80",
    "bool": True,
    "float": 0.25,
}


def example(cls):
    """A record with a value other than its default in each field."""
    return cls(*[VALUES[cls.__annotations__[name]] for name in cls.__struct_fields__])


RECORDS = [example(cls) for cls in (*REPORTS, *ORDERS, Failure)] + [
    Submission(
        b"graph", "job", {"combine_size": 4}, "ticket", b"digest", [("a", None)], [True, (("k", "f8"),)], [(b"key", 8)]
    )
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_from_a_message_and_from_the_journal(record, tmp_path):
    assert unpack(pack((1, "actor", "method", (record, [record])))[4:]) == (1, "actor", "method", (record, (record,)))
    journal = Journal(path := str(tmp_path / "journal"), later=lambda call: None)
    journal.note("report", record)
    journal.flush()
    journal.close()
    assert list(read_journal(path)) == [("report", record)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_cannot_be_changed(record):
    with pytest.raises(AttributeError, match="immutable"):
        setattr(record, record.__struct_fields__[0], None)


def test_operands_are_lists_and_shapes_are_tuples_behind_a_message_too():
    found = unpack(pack(Finished("job-1", [1, 2], 0, {1: (3, 4)}, [5, 6]))[4:])
    assert type(found.operands) is list and found.shapes == {1: (3, 4)} and type(found.shapes[1]) is tuple


@dataclasses.dataclass(frozen=True, slots=True)
class Stranger:
    """Not one of ours."""

    field: int


def test_only_known_records_travel():
    with pytest.raises(TypeError, match="Stranger"):
        pack(Stranger(1))
    with pytest.raises(ProtocolError):
        unpack(pack(EnqueueGraph("job-1", [], []))[4:].replace(b"EnqueueGraph", b"EnqueueGrape"))


def test_a_failure_is_the_exception_with_notes_on_operand_and_traceback():
    error = MemoryLimitError("too large")
    error.operand = 7
    failure = Failed("job-1", 7, 0, Failure.of(error).at("the operand add")).failure
    revived = failure.exception()
    assert isinstance(revived, MemoryLimitError) and revived.operand == 7
    assert revived.__notes__ == ["in the operand add"]


def test_an_exception_that_cannot_travel_becomes_an_operand_error():
    def raises(self):
        raise ValueError("no pickle")

    odd = type("Odd", (Exception,), {"__reduce__": raises})
    assert str(Failure.of(odd("text")).exception()) == "Odd: text"
    assert isinstance(Failure("Gone", "text", "", pickle.dumps(SystemExit(3))).exception(), OperandError)
    assert Failure("Gone", "text", "", b"not a pickle").unpickled() is None


def test_an_exception_that_takes_no_notes_is_raised_without_them():
    error = ValueError("text")
    error.__notes__ = 5
    revived = Failure.of(error, "operand f").exception()
    assert (type(revived), str(revived), revived.__notes__) == (ValueError, "text", 5)
