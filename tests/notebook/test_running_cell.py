"""A cell while it runs, seen and cancelled from other threads."""

from __future__ import annotations

import queue
import signal
import threading
import time
from contextlib import contextmanager

import pytest

from jmars.notebook.kernel_access import Whole
from jmars.notebook.running_cell import RunningCell

WAITS = """def wait():
    at_line_2.set()
    go_on.wait()

wait(); done = True
after = cell.line()
"""


class Job:
    id = "job-of-the-cell"

    def __init__(self, ended: bool) -> None:
        self.ended, self.cancelled = ended, False

    def wait(self, timeout: float) -> bool:
        return self.ended

    def cancel(self) -> None:
        self.cancelled = True


def cell_of(text: str) -> RunningCell:
    return RunningCell(compile(text, "<cell>", "exec"), len(text.splitlines()))


def test_another_thread_sees_the_line_of_the_cell_not_of_its_functions():
    cell = cell_of(WAITS)
    names = {"cell": cell, "at_line_2": threading.Event(), "go_on": threading.Event()}
    seen = []

    def look():
        names["at_line_2"].wait()
        seen.append(cell.line())
        names["go_on"].set()

    looking = threading.Thread(target=look)
    looking.start()
    exec(cell.code, names)
    looking.join()
    assert (seen, names["after"], cell.line()) == ([5], 6, 0)


def test_cancel_interrupts_the_python_of_the_cell_and_no_later_cell(interruptible):
    cell = cell_of("begun.put(1)\nwhile True: sleep(0.01)")
    names = {"begun": queue.SimpleQueue(), "sleep": time.sleep}
    clicking = threading.Thread(target=lambda: (names["begun"].get(), RunningCell.find(cell.id).cancel(cell.id)))
    clicking.start()
    with pytest.raises(KeyboardInterrupt):
        exec(cell.code, names)
    clicking.join()
    assert cell.cancelled
    cell.end()
    cell.cancel(cell.id)  # a click that came late


def test_cancel_interrupts_the_cell_of_another_thread_there():
    found = []

    def run():
        cell = cell_of("begun.put(cell)\nwhile True: sleep(0.01)")
        try:
            exec(cell.code, {"begun": begun, "cell": cell, "sleep": time.sleep})
        except KeyboardInterrupt as error:
            found.append(error)

    begun = queue.SimpleQueue()
    running = threading.Thread(target=run)
    running.start()
    begun.get().cancel("")
    running.join(60)
    assert len(found) == 1


@pytest.mark.parametrize("ended", [False, True])
def test_cancel_cancels_the_job_while_it_runs(ended):
    cell, job = cell_of("1"), Job(ended)
    cell.follow(job)
    cell.end()
    RunningCell.find(job.id).cancel(job.id)
    assert job.cancelled is not ended


def test_a_cell_that_is_over_is_not_found():
    name = cell_of("1").id
    assert RunningCell.find(name) is None


def test_contexts_are_entered_and_left_whole_by_an_interrupt(interruptible):
    seen = []

    @contextmanager
    def interrupted(name, at):
        seen.append(f"enter {name}")
        if at == "enter":
            signal.raise_signal(signal.SIGINT)
        try:
            seen.append(f"entered {name}")
            yield
        finally:
            seen.append(f"leave {name}")
            if at == "leave":
                signal.raise_signal(signal.SIGINT)
            seen.append(f"left {name}")

    with pytest.raises(KeyboardInterrupt), Whole(interrupted("a", "enter"), interrupted("b", "")):
        seen.append("never")
    with pytest.raises(KeyboardInterrupt), Whole(interrupted("c", ""), interrupted("d", "leave")):
        seen.append("body")
    steps = "enter a, entered a, enter b, entered b, leave b, left b, leave a, left a, "
    assert ", ".join(seen) == steps + "enter c, entered c, enter d, entered d, body, leave d, left d, leave c, left c"
