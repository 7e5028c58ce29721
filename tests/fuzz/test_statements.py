"""Single statements, drawn from NumPy's signatures, give what NumPy gives, on arrays of any kind, layout and cut.

The short run draws hundreds of statements, `--all` 20,000, `--examples N` N for each function; another seed, and the
shortest statement that differs: `python -m tests.fuzz --seed S`. What jmars refuses by name is no failure; a wrong
value, dtype or side effect is, and so is an unclear error.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import numpy_before
from tests.fuzz import statements
from tests.fuzz.comparing import Tally, differences
from tests.tensor.engine import OneByOne

OPEN = Path(__file__).with_name("open.txt")  # functions with a known difference, each with its shortest statement
CHANGED = {"corrcoef", "histogram_bin_edges", "linalg.matrix_rank", "put", "trim_zeros"}  # by NumPy 2.3 or 2.4
NAMES = (*statements.functions(), *statements.OTHERS)


def open_differences() -> set[str]:
    """Names of functions and sorts of statements that are not compared yet."""
    changed = CHANGED if numpy_before("2.4.5") else set()
    return {line.partition(":")[0] for line in OPEN.read_text().splitlines()} | changed


@pytest.mark.parametrize("name", [name for name in NAMES if name not in open_differences()])
def test_statements_of(name: str, engine: OneByOne, request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("examples")
    examples = asked or (50 if request.config.getoption("--all") else 3)
    found = differences(name, examples, 0, engine, Tally())
    assert not found, "\n".join(found[0])


def test_open_differences_are_of_functions_there_are() -> None:
    assert open_differences() <= {*NAMES}
