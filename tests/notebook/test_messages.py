"""What errors say on a real cluster: one advice, in the flags that were typed, below the user's lines."""

from __future__ import annotations

import signal
import threading

import pytest

from jmars.config import config
from jmars.errors import MemoryLimitError
from jmars.notebook import magic
from jmars.notebook.display import CellDisplay
from tests.fault.harness import until
from tests.notebook.shells import Notebook, new_shell


@pytest.fixture(scope="module")
def notebook():
    """A notebook with a cluster of its own."""
    with new_shell() as shell, config.using(display="none"):
        started = Notebook(shell)
        started("%load_ext jmars\nimport numpy as np, time\nfrom jmars.tensor import map_blocks")
        started("%%jmars -w 1 --memory 400MiB\nx = np.arange(4.0)")
        yield started
        started("%jmars stop")


@pytest.mark.parametrize(
    ("flags", "said"), [("--memory 2", "--memory"), ("-w 1 --memory 90TiB", "more than this machine's")]
)
def test_a_cluster_that_cannot_start_takes_one_line(notebook, flags, said):
    text = notebook.run(f"%%jmars {flags}\n1").text.strip()
    assert len(text.splitlines()) == 1
    assert said in text and "memory_limit" not in text


def test_a_memory_error_gives_one_advice_in_flags_in_view_and_traceback(notebook, monkeypatch):
    told = []

    class Told(CellDisplay):
        def explain(self, job, error):
            told.append(error)

    monkeypatch.setattr(magic, "choose_display", lambda cell: Told())
    ran = notebook.run("%%jmars\na = np.ones((12000, 12000), chunk_size=12000)\nb = (a + a.T).sum()")
    assert isinstance(ran.error, MemoryLimitError)
    assert told == [str(ran.error)]
    assert "%%jmars --memory " in told[0] and "memory_limit" not in told[0]
    assert ran.text.count("--memory") == 1


def test_an_interrupt_of_a_plain_cell_shows_the_users_lines(notebook, interruptible, tmp_path):
    begun = tmp_path / "begun"
    wait = f"lambda b: (open({str(begun)!r}, 'w').close(), time.sleep(60))"
    notebook(f"%%jmars --lazy\ny = map_blocks({wait}, np.zeros(4), dtype=float)")

    def interrupt() -> None:
        until(begun.exists, 20, "the function runs")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    ran = notebook.run("found = 1\ny.fetch()")
    interrupting.join()
    assert isinstance(ran.error, KeyboardInterrupt)
    assert "----> 2 y.fetch()" in ran.text and "jmars/" not in ran.text


def test_an_error_of_a_plain_cell_shows_no_frame_of_jmars(notebook):
    ran = notebook.run("x + np.ones(7)")
    assert isinstance(ran.error, ValueError)
    assert "----> 1 x + np.ones(7)" in ran.text and "jmars/" not in ran.text
    ran = notebook.run("np.ones(3) + np.ones(4)")
    assert "operands could not be broadcast" in ran.text


HELPERS = """%%jmars
class Bad(Exception):
    pass
def solve(a, b):
    return np.linalg.solve(a, b)
def outer(a):
    y = solve(a, np.ones(900))
    return y * 2
good = outer(np.eye(900))
"""


def shown_lines(text):
    """The lines to which arrows of a traceback point."""
    return [line.split("-> ")[1].split(" ", 1) for line in text.splitlines() if line.startswith("--") and "-> " in line]


def test_a_late_error_shows_the_way_through_the_users_functions(notebook):
    text = notebook.run(HELPERS + "x = outer(np.zeros((900, 900)))").text
    assert [int(number) for number, _ in shown_lines(text)] == [10, 7, 5]
    assert "in outer" in text and "in solve" in text and "jmars/" not in text


def test_a_late_error_of_a_look_names_the_callers(notebook):
    text = notebook.run(HELPERS + "x = outer(np.zeros((900, 900)))\nprint(x[:3])").text
    assert [int(number) for number, _ in shown_lines(text)] == [11]
    assert "called from line 7 in outer, from line 10" in text


def test_chained_errors_show_no_frame_of_jmars(notebook):
    caught = "try:\n    x = {}\nexcept ValueError as error:\n    raise Bad('no solution'){}"
    for call in ("outer(np.zeros((900, 900)))", "np.ones(3).reshape(7)", "np.ones(10**6) + np.ones(10**5)"):
        for cause in (" from error", ""):
            text = notebook.run(HELPERS + caught.format(call, cause)).text
            numbers = [int(number) for number, _ in shown_lines(text)]
            assert numbers == ([11, 7, 5, 13] if "outer" in call else [11, 13])
            assert "jmars/" not in text and "Bad: no solution" in text


def test_a_memory_error_names_its_operand_once(notebook):
    text = notebook.run("%%jmars\na = np.ones((12000, 12000), chunk_size=12000)\nb = np.sort(a, axis=0).sum()").text
    assert text.count("needs") == 1 and text.count("operand ") <= 2
