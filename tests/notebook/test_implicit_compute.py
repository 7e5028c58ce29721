"""Many implicit computations in a cell cause one warning, with the line and what to do instead."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from jmars.config import config
from jmars.notebook import cell_engine
from jmars.notebook.cell_engine import MANY, ImplicitComputes
from jmars.tensor.operand import SourceLine
from tests.notebook.shells import Notebook, new_shell

LOOP = SourceLine("cell", 4, "if v > 0:")


def test_the_hint_comes_once_and_names_the_line():
    seen = ImplicitComputes()
    said = [hint for _ in range(3 * MANY) if (hint := seen.hint(LOOP, 0.002))]
    assert len(said) == 1
    assert f"computed {MANY} single values at line 4 (if v > 0:)" in said[0]
    assert f"{MANY * 0.002:.1f} s so far" in said[0]


def test_the_line_that_asked_most_is_named():
    seen = ImplicitComputes()
    others = [SourceLine("cell", 9, "float(x)"), None] * 10
    said = [hint for line in [*others, *[LOOP] * MANY] if (hint := seen.hint(line, 0.002))]
    assert f", {MANY - 20} of them at line 4" in said[0]


def test_jobs_that_compute_something_do_not_count():
    seen = ImplicitComputes()
    assert not any(seen.hint(LOOP, 0.3) for _ in range(3 * MANY))


@pytest.fixture
def cluster(monkeypatch):
    """A notebook with a cluster of its own, which finds twenty values many and each job small."""
    monkeypatch.setattr(cell_engine, "MANY", 20)
    monkeypatch.setattr(cell_engine, "SHORT_JOB_SECONDS", 1e6)
    with new_shell() as shell, config.using(display="none"):
        started = Notebook(shell)
        started("%load_ext jmars\nimport numpy as np\nx = np.arange(30)")
        yield started
        started("%jmars stop")


def test_a_loop_in_a_cell(cluster, only_jobs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cluster("%%jmars -w 1 --memory 400MiB\ny = x + 0\nn = 0\nfor i in range(30):\n    if y[i] > 3:\n        n += 1")
        for _ in range(2):
            cluster("%%jmars\nn = sum(1 for v in x.fetch() if v > 3); total = float(x.sum()); same = float(x.sum())")
    assert cluster["n"] == 26
    (one,) = [warning for warning in caught if "single values" in str(warning.message)]
    assert one.lineno == 5
    assert "at line 5 (if y[i] > 3:)" in str(one.message)


def test_a_loop_over_elements_in_a_cell_is_a_job(cluster):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cluster("%%jmars -w 1 --memory 400MiB\ny = x + 0\nn = sum(1 for v in y if v > 3)\nnone = any(y > 100)")
        cluster("%%jmars\ncounts = dict(zip(*np.unique(x % 3, return_counts=True)))\nbest = f'{max(x + 0.5):.3f}'")
    assert (cluster["n"], cluster["none"], cluster["counts"], cluster["best"]) == (
        26,
        False,
        {0: 10, 1: 10, 2: 10},
        "29.500",
    )


def test_a_large_array_that_is_computed_again_and_again_is_named_once():
    seen, line = ImplicitComputes(), SourceLine("cell", 7, "x = step(x)")
    said = [hint for _ in range(30) if (hint := seen.hint_recomputed([line]))]
    assert len(said) == 1
    assert "the array of line 7 (x = step(x)) again each time" in said[0]


def test_several_large_arrays_once_or_twice_each_are_no_loop():
    seen = ImplicitComputes()
    assert not any(seen.hint_recomputed([SourceLine("cell", number % 10, "x")]) for number in range(40))


def test_what_a_loop_carries_is_kept_if_it_is_small_and_told_of_if_not(cluster):
    turns = "for turn in range(12):\n    y = np.sqrt(y + 1)\n    seen = float(y.sum())"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cluster(f"%%jmars -w 1 --memory 400MiB\ny = x + 0.0\n{turns}")
        small = cluster("seen")
        assert not [one for one in caught if "again each time" in str(one.message)]
        cluster(f"%%jmars\ny = np.ones(14_000_000)\n{turns}")
    (one,) = [one for one in caught if "again each time" in str(one.message)]
    assert "the array of line 4 (y = np.sqrt(y + 1)) again each time" in str(one.message)
    assert one.lineno == 5
    real, ones = np.arange(30.0), 1.0
    for _ in range(12):
        real, ones = np.sqrt(real + 1), np.sqrt(ones + 1)
    assert small == pytest.approx(real.sum(), rel=1e-12)
    assert cluster["seen"] == pytest.approx(ones * 14_000_000, rel=1e-12)
