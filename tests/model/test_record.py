"""Records behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace

import pytest

from jmars.model.messages import Finished, Started
from jmars.model.record import record, values_of

STARTED = Started("job-1", (3, 4), 0)


def test_fields_and_defaults() -> None:
    assert is_dataclass(Started) and [one.name for one in fields(Started)] == ["job", "operands", "worker"]
    assert Finished("job-1", [1], 0).shapes is None
    match STARTED:
        case Started(job, operands, worker):
            assert (job, operands, worker) == ("job-1", (3, 4), 0)
    assert replace(STARTED, worker=1) == Started("job-1", (3, 4), 1)
    assert repr(STARTED) == "Started(job='job-1', operands=(3, 4), worker=0)"


def test_equal_records_have_equal_hashes() -> None:
    assert Started("job-1", (3, 4), 0) == STARTED and hash(STARTED) == hash(Started("job-1", (3, 4), 0))
    assert Started("job-1", (3, 4), 1) != STARTED
    assert Finished("job-1", (3, 4), 0) != STARTED


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError, match="assign to field 'worker'"):
        STARTED.worker = 1
    with pytest.raises(FrozenInstanceError, match="delete field 'worker'"):
        del STARTED.worker
    with pytest.raises(FrozenInstanceError):
        STARTED.other = 1


def test_records_can_be_pickled_and_copied() -> None:
    assert pickle.loads(pickle.dumps(STARTED)) == copy.copy(STARTED) == copy.deepcopy(STARTED) == STARTED


def test_methods_of_the_class_itself_stay() -> None:
    @record
    class Shy:
        text: str

        def __repr__(self) -> str:
            return "Shy()"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Shy) and self.text.lower() == other.text.lower()

    assert repr(Shy("a")) == "Shy()" and Shy("a") == Shy("A") != Shy("b")
    assert hash(Shy("a")) == hash(Shy("a"))  # of the fields, as that of a frozen dataclass


def test_records_of_one_field_and_of_none() -> None:
    @record
    class One:
        x: tuple[int, ...]

    @record
    class Nothing:
        pass

    assert values_of(One((1, 2))) == ((1, 2),) and values_of(Nothing()) == ()
    assert One((1,)) == One((1,)) != One((2,)) and Nothing() == Nothing()
    assert copy.copy(One((1,))) == One((1,)) and repr(Nothing()).endswith("Nothing()")


def test_a_class_that_needs_more_than_a_record_is_refused() -> None:
    class Base:
        x: int

    class Heir(Base):
        y: int

    class Made:
        x: int

        def __init__(self, x: int) -> None:
            self.x = x

    class Listed:
        x: list[int] = field(default_factory=list)

    for kind in (Heir, Made, Listed):
        with pytest.raises(TypeError, match=f"{kind.__name__} cannot be a record, since .*; use dataclass"):
            record(kind)


def test_the_constructor_says_its_class_and_types() -> None:
    with pytest.raises(TypeError, match=r"Started\.__init__\(\) missing 1 required positional argument: 'worker'"):
        Started("job-1", (3, 4))
    taken = inspect.signature(Started).parameters
    assert list(taken) == ["job", "operands", "worker"] and taken["worker"].annotation == "int"
