"""The page of NumPy's names says what jmars offers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.cases import needs_numpy

ROOT = Path(__file__).parents[2]


@needs_numpy("2.4", "the names on the page")
def test_the_page_is_true():
    command = [sys.executable, ROOT / ".ci" / "names", "--check"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_nearly_all_of_numpys_functions_of_arrays_are_there():
    page = (ROOT / "docs" / "reference" / "numpy.md").read_text()
    names, lazy, own = map(int, re.search(r"Of (\d+) names (\d+) are lazy and (\d+) are NumPy's own", page).groups())
    assert (lazy + own) / names >= 0.95
    assert lazy / names >= 0.9
