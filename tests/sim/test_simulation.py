"""Simulated runs: every one keeps the promise, whatever goes wrong; `python -m tests.sim` runs more of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sim.faults import Faults
from tests.sim.world import run

SEEDS, BLOCK = 2000, 20


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_run_keeps_the_promise(first: int) -> None:
    reports = [run(seed) for seed in range(first, first + BLOCK)]
    ends = [end for report in reports for end in report.ends]
    assert ends.count("succeeded") > BLOCK / 2, "runs that all fail show nothing"
    assert sum(report.spilled > 0 for report in reports) > BLOCK / 10
    assert len({report.faults for report in reports}) > BLOCK / 5


def test_without_faults_every_job_succeeds_or_raises_its_own_error() -> None:
    for seed in range(20):
        report = run(seed, Faults())
        assert set(report.ends) <= {"succeeded", "failed"}, report


@pytest.mark.parametrize("seed", [99, 146, 293])
def test_a_scheduler_that_is_killed_as_it_comes_up_is_replaced(seed: int) -> None:
    run(seed, Faults(apart=1, scheduler_deaths=3, stalls=0.01))


def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    code = "from tests.sim.world import run; print([run(seed).trace for seed in range(6)])"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{[run(seed).trace for seed in range(6)]}\n"}
