"""The `%%jmars` line: what it understands, and how it refuses the rest."""

import pytest
from IPython.core.error import UsageError

from jmars.config import config
from jmars.notebook.flags import CellFlags


def test_no_flag_asks_for_nothing():
    assert CellFlags.parse("") == CellFlags()
    assert CellFlags.parse("").settings() == {}


def test_every_flag():
    line = "-w 3 --memory 1.5GiB --chunk 16MiB -b -o job --lazy"
    assert CellFlags.parse(line) == CellFlags(3, 3 * 2**29, 2**24, True, "job", True)
    assert CellFlags.parse("--workers=3 --background --output=job") == CellFlags(
        workers=3, background=True, output="job"
    )


def test_chunk_is_the_largest_chunk_of_arrays_that_give_none():
    assert CellFlags.parse("--chunk 1MiB").settings() == {"chunk_size_limit": 2**20}


def test_the_view_begins_as_the_line_says():
    assert CellFlags.parse("--view line").settings() == {"view": "line"}
    with pytest.raises(UsageError, match="full"):
        CellFlags.parse("--view small")


def test_gpus_are_preferred_required_or_left_out():
    for line, gpu in (("--gpu", "prefer"), ("--gpu=prefer", "prefer"), ("--gpu=only", "only"), ("--gpu off -b", "off")):
        assert CellFlags.parse(line).settings() == {"task": config.task | {"gpu": gpu}}
    with pytest.raises(UsageError, match="only"):
        CellFlags.parse("--gpu=always")


def test_a_comment_may_follow():
    assert CellFlags.parse("-w 2  # two are enough") == CellFlags(workers=2)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("-w none", "'none' is not a number of workers; give 1 or more"),
        ("-w 0", "'0' is not a number of workers"),
        ("--memory much", "'much' is not a size; give bytes or a text such as '512MiB'"),
        ("--chunk 1000", "needs a unit, as in --chunk 16MiB"),
        ("-o 2fast", "'2fast' is not a Python name"),
        ("--worker-count 3", "unrecognized arguments: --worker-count 3"),
        ("x + 1", "unrecognized arguments: x + 1"),
        ("-o 'job", "No closing quotation"),
    ],
)
def test_what_is_wrong_is_named(line, why):
    with pytest.raises(UsageError, match=why.replace("+", r"\+")):
        CellFlags.parse(line)
