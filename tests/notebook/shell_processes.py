"""Kernels as processes: each runs cells in a shell of its own, and can be killed."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

KERNEL = "from tests.notebook.shell_processes import serve; serve()"
SETUP = "%load_ext jmars\nimport numpy as np\nimport jmars\nimport jmars.tensor as mt"


class Kernel:
    """A shell in another process.

    Attributes
    ----------
    seconds
        Of the newest cell.
    """

    seconds = 0.0

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
        self.process = subprocess.Popen(
            [sys.executable, "-c", KERNEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self(SETUP)

    def begin(self, cell: str) -> None:
        """Run a cell, which may not end."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(cell) + "\n")
        self.process.stdin.flush()

    def __call__(self, cell: str) -> str:
        """Run a cell that must not fail; what it printed."""
        self.begin(cell)
        return self.answer()

    def answer(self) -> str:
        """Wait for the end of a cell that must not fail; what it printed."""
        assert self.process.stdout is not None
        failed, text, self.seconds = json.loads(self.process.stdout.readline())
        assert not failed, text
        return str(text)

    def value(self, expression: str) -> Any:
        """The value of an expression, by JSON."""
        return json.loads(self(f"print(__import__('json').dumps({expression}))").splitlines()[-1])

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the process in order."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def kernels(*setup: str) -> Iterator[Any]:
    """Gives a function that starts a kernel, which runs these cells first; all end with the block."""
    started: list[Kernel] = []

    def start() -> Kernel:
        started.append(kernel := Kernel())
        for cell in setup:
            kernel(cell)
        return kernel

    try:
        yield start
    finally:
        for kernel in started:
            kernel.close()


def serve() -> None:
    """Run cells from standard input: JSON lines of texts; answers are JSON lines of (failed, text, seconds)."""
    from jmars.client import kept_values
    from jmars.config import config
    from jmars.tensor.ops import npy
    from tests.notebook.shells import Notebook, new_shell

    npy.FRESH, kept_values.LEAST_SAVED = 0.0, -math.inf  # all files have stamps, and all that is reused is told
    answers = os.fdopen(os.dup(1), "w")
    with new_shell() as shell, config.using(display="text", local_seconds=0):
        notebook = Notebook(shell)
        for line in sys.stdin:
            begun = time.perf_counter()
            ran = notebook.run(json.loads(line))
            answers.write(json.dumps([ran.error is not None, ran.text, time.perf_counter() - begun]) + "\n")
            answers.flush()
