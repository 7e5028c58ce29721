"""The linters pass: ruff on all Python, mypy in strict mode on the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cases import needs_numpy
from tests.house.source import ROOT


def test_ruff() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise", "."]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_numpy("2.4", "the types that jmars is checked with")
def test_mypy_strict() -> None:
    command = [sys.executable, "-m", "mypy", "--no-error-summary"]  # only what has changed since the last run
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stdout + answer.stderr
