"""Which display a cell gets, and what it does where something is missing."""

from __future__ import annotations

import pytest

from jmars.config import config
from jmars.model.status import JobState
from jmars.notebook import display, kernel_access, widget
from jmars.notebook.running_cell import RunningCell
from tests.notebook.events_for_tests import started


class Cluster:
    """The log of one job."""

    def __init__(self) -> None:
        self.log = started().add("JobMoved", 0.1, state="succeeded", error=None, elapsed=0.3)

    def events(self, since=0, job=None):
        return [event for event in self.log.events if event[0] > since], self.log.events[-1][0]


class Job:
    id, name = "job-1", "In [1]"


@pytest.fixture
def cell():
    return RunningCell(compile("1", "<cell>", "exec"), 1)


@pytest.mark.parametrize(("wanted", "kind"), [("none", "CellDisplay"), ("text", "TextDisplay"), ("", "TextDisplay")])
def test_without_a_kernel_a_cell_shows_text(cell, wanted, kind):
    with config.using(display=wanted):
        assert type(display.choose_display(cell)).__name__ == kind


def test_the_text_has_no_times(capsys):
    shown = display.TextDisplay()
    shown.cluster = Cluster()
    shown.follow(Job())
    shown.close(JobState.SUCCEEDED)
    assert capsys.readouterr().out == "jmars: succeeded, 9 operands, 5 after fusion\n"


def test_a_cell_without_a_job_says_nothing(capsys):
    display.TextDisplay().close(JobState.SUCCEEDED)
    assert capsys.readouterr().out == ""


def test_a_front_end_that_was_not_built_is_named_and_text_takes_its_place(cell, monkeypatch):
    monkeypatch.setattr(widget, "_CODE", "")
    monkeypatch.setattr(kernel_access, "current_kernel", lambda: type("Kernel", (), {"comm_manager": object()})())
    with config.using(display=""), pytest.warns(UserWarning, match=r"widget.js is missing.*; this cell shows text"):
        assert type(display.choose_display(cell)) is display.TextDisplay
    with config.using(display="widget"), pytest.raises(FileNotFoundError, match="or run `jlpm && jlpm build:prod`"):
        display.choose_display(cell)


def test_a_cell_without_a_view_shows_nothing(cell):
    with config.using(display="text", view="none"):
        assert type(display.choose_display(cell)) is display.CellDisplay
    with config.using(view="small"), pytest.raises(ValueError, match="use full, line, none"):
        display.choose_display(cell)


def test_an_unknown_display_is_refused(cell):
    with config.using(display="hologram"), pytest.raises(ValueError, match="use none, text or widget"):
        display.choose_display(cell)
