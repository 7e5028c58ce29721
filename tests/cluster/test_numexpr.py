"""With `kernels="numexpr"` executors run expressions in numexpr, with NumPy's bits, and events say so."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config
from jmars.errors import SettingError
from jmars.model.events import OPERANDS_TIMED
from jmars.notebook.run_state import RunState
from jmars.remote import spawn

pytest.importorskip("numexpr", reason="the back end needs the extra numexpr")
SHAPES = ((300, 200), (300, 200), (200,), (300, 1))
DTYPES = ("f8", "f8", "f4", "i8")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2, memory_limit="256MiB") as one:
        yield one


def drawn(np: Any, rng: np.random.Generator, values: list[Any]) -> Any:
    """A program of 3 to 9 operations on values of equal dtype; `np` is NumPy or jmars."""
    values = list(values)
    for _ in range(rng.integers(3, 10)):
        a, b = (values[k] for k in rng.integers(0, len(values), 2))
        values.append(
            [
                lambda a=a, b=b: a + b,
                lambda a=a, b=b: a * b - a,
                lambda a=a, b=b: np.where(a > b, a, b),
                lambda a=a, b=b: np.where((a <= b) & (b != 1), a - b, a),
                lambda a=a: -a,
                lambda a=a, b=b: np.sqrt(abs(a)) / (b * b + 1) if a.dtype.kind == "f" else a * 3,
                lambda a=a: np.exp(-abs(a)) if a.dtype.kind == "f" else a // 2,  # not in numexpr
            ][rng.choice(7, p=[0.16] * 6 + [0.04])]()
        )
    return values[-1].sum() if rng.random() < 0.2 else values[-1]


def ran_on(job: Any) -> set[str]:
    return {name for e in job.events() if e[2] == OPERANDS_TIMED for _, name in e[4]["backends"]}


KERNEL = """
import numexpr, jmars.tensor as mt
from tests.tensor import engine
numexpr.set_num_threads(2)
run, x = engine.OneByOne(backend="numexpr"), mt.ones(9, chunk_size=9)
y = mt.where(x > 0.5, x + 1, x)
run.execute([y.data])
print(float(run.fetch(y.data)[0]), numexpr.set_num_threads(2))
"""


def test_numexpr_has_one_thread_in_executors_and_all_in_a_kernel(cluster):
    with config.using(task=config.task | {"kernels": "numexpr"}):
        job = cluster.submit(mt.sqrt(mt.ones(20_000, chunk_size=10_000)))
        job.result(60)
    assert ran_on(job) == {"numexpr"}
    assert cluster.submit(spawn(lambda: __import__("numexpr").nthreads)).result(60) == 1
    done = subprocess.run([sys.executable, "-c", KERNEL], capture_output=True, text=True, timeout=60)
    assert done.stdout == "2.0 2\n", done.stderr


@pytest.mark.long(beyond=30)
def test_drawn_programs_are_numpys_to_the_bit_and_most_run_in_numexpr(cluster):
    in_numexpr = 0
    with config.using(task=config.task | {"kernels": "numexpr"}):
        for seed in range(300):
            rng = np.random.default_rng(seed)
            dtype = DTYPES[seed % 4]
            arrays = [(rng.normal(size=SHAPES[k]) * 10).astype(dtype) for k in rng.integers(0, 4, 3)]
            state = rng.bit_generator.state
            with np.errstate(all="ignore"):
                expected = drawn(np, rng, arrays)
            rng.bit_generator.state = state
            job = cluster.submit(drawn(mt, rng, [mt.asarray(a, chunk_size=130) for a in arrays]))
            found = job.result()
            assert found.dtype == expected.dtype
            if expected.ndim:
                assert found.tobytes() == expected.tobytes(), seed
            else:  # chunks are added up in another order than NumPy's
                np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == "f4" else 1e-12, err_msg=str(seed))
            in_numexpr += "numexpr" in ran_on(job)
    assert in_numexpr > 250


def test_the_inspector_says_which_back_end_ran(cluster):
    x = mt.asarray(np.linspace(-1, 1, 20_000), chunk_size=10_000)
    for kernels, expected in (("numexpr", "numexpr"), ("numpy", "numpy"), ("auto", "numpy")):
        with config.using(task=config.task | {"kernels": kernels}):
            job = cluster.submit(mt.sqrt(x * x + 1) * 2 - x)
            job.wait()
        run = RunState()
        run.follow(job.id, "")
        run.fold(job.events())
        assert set(run.picture(0.0)["backends"]) - {""} == {expected}


def test_contradicting_switches_are_an_error_of_the_job(cluster):
    x = mt.ones(20_000, chunk_size=10_000)
    with config.using(task=config.task | {"kernels": "numpy", "jit": "on"}):
        job = cluster.submit(x + 1)
    with pytest.raises(SettingError, match="contradict each other"):
        job.result()


@pytest.mark.long(beyond=10)
def test_auto_takes_numexpr_for_long_chains_of_where(cluster):
    x = mt.ones(40_000_000, chunk_size=2_000_000)
    y = x
    for k in range(12):
        y = mt.where(x > 0.5, y + 1, x) if k == 0 else mt.where(x > 0.5, y, x)
    with config.using(task=config.task | {"jit": "off"}):
        job = cluster.submit(y.sum())
        assert job.result() == 80_000_000
    assert "numexpr" in ran_on(job)
