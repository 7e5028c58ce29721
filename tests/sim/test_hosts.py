"""Simulated runs of several hosts: every one keeps the promise; `python -m tests.sim --hosts 3` runs more of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sim.faults import Faults
from tests.sim.hosts import run_hosts

SEEDS, BLOCK = 1000, 10
FOUND = {
    36: "a link that was silent was looked at for ever, at one moment of time",
    27: "a result lost between the end of its stage and the end of its job was a fault of ours",
    47: "an input that was read again, and was gone, was told to be freed",
}


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_run_keeps_the_promise(first: int) -> None:
    reports = [run_hosts(seed, 3) for seed in range(first, first + BLOCK)]
    ends = [end for report in reports for end in report.ends]
    assert ends.count("succeeded") > len(ends) / 3, "runs that all fail show nothing"
    assert sum(report.fetched > 0 for report in reports) > BLOCK / 2


def test_without_faults_every_job_succeeds_or_raises_its_own_error() -> None:
    reports = [run_hosts(seed, 2 + seed % 3, Faults()) for seed in range(4)]
    assert {end for report in reports for end in report.ends} <= {"succeeded", "failed"}
    assert any(report.fetched for report in reports)


@pytest.mark.long
def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    code = "from tests.sim.hosts import run_hosts; print([run_hosts(seed, 3).trace for seed in range(4)])"
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
    assert runs == {f"{[run_hosts(seed, 3).trace for seed in range(4)]}\n"}
