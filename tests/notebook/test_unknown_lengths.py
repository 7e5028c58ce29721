"""Parts of unknown length that may be small are computed before a call, and NumPy goes on with them in the kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from jmars.client.cluster import default_cluster
from jmars.config import config
from tests.notebook.shells import Notebook, new_shell

START = """import numpy as np
rng = np.random.default_rng(0)
x = rng.normal(50, 10, 600_000)
y = 3 * x + rng.normal(size=x.size)
g = rng.integers(0, 12, x.size)"""


@pytest.fixture(scope="module")
def started() -> Iterator[Notebook]:
    """A notebook with a cluster of its own."""
    with new_shell() as shell, config.using(display="none"):
        made = Notebook(shell)
        made(f"%load_ext jmars\n{START}")
        made("%%jmars -w 2 --memory 600MiB\nfirst = (x + y + g).sum()")
        yield made
        made("%jmars stop")


def number_of_jobs() -> int:
    cluster = default_cluster()
    assert cluster is not None
    return len(cluster.jobs())


@pytest.mark.parametrize(
    "text",
    [
        "[np.median(x[g == k]) for k in range(12)]",
        "{k: np.percentile(x[g == k], [5, 50, 95]) for k in range(12)}",
        "[np.polyfit(x[g == k], y[g == k], 1) for k in range(12)]",
        "[np.corrcoef(x[g == k], y[g == k])[0, 1] for k in range(12)]",
        "[len(x[g == k]) for k in range(12)]",
        "[np.linalg.lstsq(np.column_stack([x[g == k], np.ones((g == k).sum())]), y[g == k], rcond=None)[0]"
        " for k in range(12)]",
    ],
)
def test_a_function_of_each_group_needs_no_job_for_each(started, text):
    started(f"want = {text}")
    before = number_of_jobs()
    started(f"%%jmars\nfound = {text}")
    assert number_of_jobs() <= before + 2
    want, found = ([*one.values()] if isinstance(one, dict) else one for one in (started["want"], started["found"]))
    np.testing.assert_allclose(found, want, rtol=1e-9)


def test_the_value_that_a_length_needed_is_numpys_from_then_on(notebook):
    notebook(START)
    notebook(
        """%%jmars
part = y[g == 3]
n = len(part)
before = part.base is None, part.flags.owndata
part[0] = 1.5
half = part[: n // 2]
half += 1
kept = part[part > 200]
total = len(kept)"""
    )
    notebook(
        """want = y[g == 3]
want[0] = 1.5
want[: n // 2] += 1
same = np.array_equal(want, part) and np.array_equal(want[want > 200], kept) and total == (want > 200).sum()
untouched = 1.5 not in y"""
    )
    assert notebook["same"] and notebook["untouched"]


def test_an_array_of_a_shape_that_was_computed_is_small(notebook):
    notebook(START)
    notebook(
        "%%jmars\ncounts = np.zeros(g.max() + 1)\nfor k in range(12):\n    counts[k] += k\nm = np.full((g.max(), 2), 7)"
    )
    notebook("same = np.array_equal(counts, np.arange(12.0)) and (m == 7).all() and m.shape == (11, 2)")
    assert notebook["same"]


def test_a_part_that_may_be_large_stays_lazy(notebook):
    notebook("import numpy as np\nx = np.arange(12_000_000.0)")
    notebook.jobs.clear()
    notebook("%%jmars\nmiddle = np.median(x[x > 3])\nhigh = np.percentile(x[x > 5], 90)")
    assert len(notebook.jobs) == 1
    notebook("same = middle == np.median(x[x > 3]), high == np.percentile(x[x > 5], 90)")
    assert notebook["same"] == (True, True)


def test_a_part_whose_length_another_part_told_comes_too(started):
    started("want = np.interp(np.arange(200), x[g == 2][:100], y[g == 2][:100])")
    before = number_of_jobs()
    started("%%jmars\nm = g == 2\nv, t = y[m], x[m]\nn = len(v)\nfound = np.interp(np.arange(200), t[:100], v[:100])")
    assert number_of_jobs() == before
    np.testing.assert_array_equal(started["found"], started["want"])


def test_a_loop_over_small_rows_goes_on_with_values(started):
    loop = (
        "hot = np.sqrt(x.reshape(4000, 150)) > limit\nrun = np.zeros(150, int)\nlongest = np.zeros(150, int)\n"
        "for d in range(4000):\n    run = np.where(hot[d], run + 1, 0)\n    longest = np.maximum(longest, run)\n"
    )
    started(f"limit = np.percentile(np.sqrt(x), 60)\n{loop}want = longest, run")
    started(f"%%jmars\nlimit = np.percentile(np.sqrt(x), 60)\n{loop}")
    cluster = default_cluster()
    assert cluster is not None
    assert all(job["operands"] < 500 for job in cluster.jobs()[-3:])
    np.testing.assert_array_equal((started["longest"], started["run"]), started["want"])


def test_a_cell_that_is_planned_reads_no_rows(started):
    before = number_of_jobs()
    started(
        "%%jmars --plan\nhot = np.sqrt(x.reshape(4000, 150)) > 7.2\nrun = np.zeros(150)\n"
        "for d in range(100):\n    run = np.where(hot[d], run + 1, 0)"
    )
    assert number_of_jobs() == before
