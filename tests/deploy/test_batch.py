"""Hosts that batch systems start, several by one line: they join, compute and leave nothing; nor do failed starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import jmars
import jmars.tensor as mt
from jmars.deploy.batch import own_command, slurm_script
from jmars.errors import ClusterStartError, SettingError
from tests.contract.engine.kinds import until
from tests.deploy.batch_systems import install

SMALL: dict[str, Any] = {"n_workers": 1, "memory_limit": "256MiB"}
PROGRAM = """
import jmars, jmars.tensor as mt
with jmars.Cluster.batch(n_workers=1, memory_limit="256MiB") as cluster:
    print(int(mt.arange(100, chunk_size=10).sum().fetch()), cluster.n_workers)
"""


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a batch system, and a home folder; no job runs yet."""
    monkeypatch.setenv("PATH", f"{install(tmp_path / 'bin')}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def _tickets(home: Path) -> list[Path]:
    return list((home / ".cache/jmars/tickets").iterdir())


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "jmars", *words]


@pytest.mark.long
def test_mpiexec_starts_the_hosts_of_a_cluster(system: Path) -> None:
    with jmars.Cluster.batch(["mpiexec", "-n", "2"], hosts=2, **SMALL) as cluster:
        assert cluster.n_workers == 2 and _tickets(system) == []
        x = mt.random.rand(400, 400, chunk_size=100).execute()
        np.testing.assert_allclose((x @ x.T).execute().fetch(), x.fetch() @ x.fetch().T)
        done = {worker["host"]: worker["done"] for worker in cluster.info()["workers"]}
        assert len(done) == 2 and min(done.values()) > 0
        children = psutil.Process(cluster.info()["host"]["pid"]).children(recursive=True)
        assert any("mpiexec" in " ".join(one.cmdline()) for one in children)
    until(lambda: not [one for one in children if one.is_running() and one.status() != psutil.STATUS_ZOMBIE])


@pytest.mark.long
def test_a_program_takes_all_nodes_of_its_job(system: Path) -> None:
    (system / "sum.py").write_text(PROGRAM)
    script = subprocess.check_output(_command("slurm", "--nodes", "2", "--cpus", "1", "--memory", "1GiB", "sum.py"))
    assert b"#SBATCH --nodes=2\n" in script and b"#SBATCH --ntasks-per-node=1\n" in script
    (system / "job.sh").write_bytes(script)
    done = subprocess.run(["sbatch", "job.sh"], cwd=system, stdout=subprocess.PIPE, timeout=60, check=True)
    assert done.stdout.split() == [b"4950", b"2"]


@pytest.mark.long
def test_a_job_brings_hosts_to_a_running_cluster(system: Path) -> None:
    with jmars.Cluster.hosts(["local"], **SMALL) as cluster:
        cluster.ticket("~/hosts.ticket", hosts=2, **SMALL)
        words = ["slurm", "--nodes", "2", "--cpus", "1", "--memory", "1GiB", "--join", str(system / "hosts.ticket")]
        (system / "job.sh").write_bytes(subprocess.check_output(_command(*words)))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(["sbatch", str(system / "job.sh")], **quiet) as job:
            until(lambda: cluster.n_workers == 3)
            assert not (system / "hosts.ticket").exists()
            assert float(mt.ones(1000, chunk_size=10).sum()) == 1000
            cluster.close()
            assert job.wait(30) == 0


def test_a_command_that_fails_says_so_and_leaves_nothing(system: Path) -> None:
    with pytest.raises(ClusterStartError, match=r"(?s)status 3 when 0 of 2 hosts had joined.*no node is free"):
        jmars.Cluster.batch(["sh", "-c", "echo no node is free; exit 3"], hosts=2, **SMALL)
    with pytest.raises(ClusterStartError, match="qsub cannot be run: No such file"):
        jmars.Cluster.batch(["qsub"], hosts=2, **SMALL)
    assert _tickets(system) == []
    (system / ".cache/jmars/tickets").chmod(0o755)
    with pytest.raises(ClusterStartError, match=r"others may open the folder .*; run: chmod 700"):
        jmars.Cluster.batch(["mpiexec", "-n", "2"], hosts=2, **SMALL)


def test_what_is_no_command() -> None:
    with pytest.raises(ClusterStartError, match=r"runs in no job of SLURM.*jmars.Cluster.batch\(\["):
        jmars.Cluster.batch()
    with pytest.raises(ValueError, match="list of words"):
        jmars.Cluster.batch("mpiexec -n 2", hosts=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="how many hosts"):
        jmars.Cluster.batch(["mpiexec", "-n", "2"])


def test_the_lines_for_slurm() -> None:
    words, nodes = own_command({"SLURM_NNODES": "3"})
    assert nodes == 3 and words[:4] == ["srun", "--nodes=3", "--ntasks=3", "--ntasks-per-node=1"]
    assert "--cpus-per-task=8" in own_command({"SLURM_JOB_NUM_NODES": "3", "SLURM_CPUS_PER_TASK": "8"})[0]
    script = slurm_script([], nodes=2, cpus=8, join="/shared/a ticket", python="/opt/python")
    assert script.endswith(" --overlap /opt/python -m jmars host --join '/shared/a ticket'\n")
    for program, join in ((["sum.py"], "ticket"), ([], None)):
        with pytest.raises(SettingError, match="name a Python file or, with --join"):
            slurm_script(program, join=join)
