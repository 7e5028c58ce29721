"""Which lines of functions are reported: in order, bounded, the last ones kept."""

from __future__ import annotations

from jmars.dispatch.output_reports import LAST_LINES, LINES_AT_ONCE, LINES_PER_SECOND, JobLines
from jmars.model.messages import LEFT_OUT
from jmars.processes.output import Source

HERE = Source(0, "o", "", 0)


def numbered(first, last):
    return [b"%d" % k for k in range(first, last)]


def told(lines, *args, **how):
    return [f"-{one.line}" if one.kind == LEFT_OUT else one.text for one in lines.take(*args, **how)]


def test_few_lines_are_reported_in_order():
    lines = JobLines(now=0.0)
    lines.add(0, HERE, numbered(0, 3))
    lines.add(1, HERE, numbered(5, 6))
    assert (told(lines, 0, now=0.1), told(lines, 1, now=0.1), told(lines, 0, now=0.2)) == (["0", "1", "2"], ["5"], [])


def test_of_many_lines_the_last_are_kept_and_the_others_counted():
    lines, n = JobLines(now=0.0), 100_000
    for first in range(0, n, 1_000):
        lines.add(0, HERE, numbered(first, first + 1_000))
    found = told(lines, 0, now=0.0, ends=True)
    assert found[: LINES_AT_ONCE + 1] == [*map(str, range(LINES_AT_ONCE)), f"-{n - LINES_AT_ONCE - LAST_LINES}"]
    assert found[LINES_AT_ONCE + 1 :] == [*map(str, range(n - LAST_LINES, n))]


def test_kept_lines_are_reported_as_soon_as_there_is_room():
    lines = JobLines(now=0.0)
    lines.add(0, HERE, numbered(0, LINES_AT_ONCE + 50))
    assert len(told(lines, 0, now=0.0)) == LINES_AT_ONCE and lines.holds
    found = told(lines, 0, now=LAST_LINES / LINES_PER_SECOND)
    assert found == ["-30", *map(str, range(LINES_AT_ONCE + 30, LINES_AT_ONCE + 50))] and not lines.holds
    lines.add(0, HERE, numbered(0, 1))
    assert told(lines, 0, now=LAST_LINES / LINES_PER_SECOND) == [] and told(lines, 0, now=1.0) == ["0"]


def test_a_line_that_is_not_complete_is_news_when_it_changes():
    lines = JobLines(now=0.0)
    lines.set_live(0, "10%")
    assert lines.news(0, 0.0) == ([], "10%") and lines.news(0, 0.1) is None
    lines.set_live(0, "")
    assert lines.news(0, 0.2) == ([], "")
