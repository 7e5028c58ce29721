"""`np.errstate` in a `%%jmars` cell reaches the workers: a floating point error raises at the user's line."""

from __future__ import annotations

from jmars.config import config
from tests.notebook.shells import Notebook, new_shell

CELL = """%%jmars -w 1 --memory 400MiB
x = np.arange(200_000.0)
with np.errstate(divide="raise"):
    y = 1 / x
z = (y + 1).sum()"""


def test_an_error_of_a_worker_is_shown_at_the_line_in_errstate():
    with new_shell() as shell, config.using(display="none"):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np")
        for seconds in (0.0, 10.0):  # on a worker; in this process, which then asks the cluster for the line
            with config.using(local_seconds=seconds):
                ran = notebook.run(CELL)
                assert type(ran.error) is FloatingPointError and "divide by zero" in str(ran.error)
                assert "----> 4     y = 1 / x" in ran.text
                notebook(CELL.replace('"raise"', '"ignore"'))
                assert float(notebook["z"]) == float("inf")
        notebook("%jmars stop")
