"""Stand-ins for sbatch, srun and mpiexec: they start processes on this machine, with the variables of the real ones."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["install"]

_HEAD = f"""#!{sys.executable}
import os, re, signal, subprocess, sys

def run_all(words, environments):
    started = [subprocess.Popen(words, env=os.environ | one) for one in environments]
    def end(*_):
        for one in started:
            one.terminate()
    signal.signal(signal.SIGTERM, end)
    sys.exit(max(one.wait() for one in started))
"""
_SRUN = """
words = sys.argv[1:]
options = {}
while words[0].startswith("--"):
    name, _, value = words.pop(0)[2:].partition("=")
    options[name] = value
assert options["nodes"] == os.environ["SLURM_JOB_NUM_NODES"], "more nodes than the job has"
count = int(options["ntasks"])
run_all(words, [{"SLURM_PROCID": str(n), "SLURM_NTASKS": str(count), "SLURM_STEP_ID": "0"} for n in range(count)])
"""
_MPIEXEC = """
assert sys.argv[1] == "-n"
count = int(sys.argv[2])
run_all(sys.argv[3:], [{"OMPI_COMM_WORLD_RANK": str(n), "OMPI_COMM_WORLD_SIZE": str(count)} for n in range(count)])
"""
_SBATCH = """
options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", open(sys.argv[1]).read(), re.MULTILINE))
assert options["ntasks"] == options["nodes"]
told = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": options["nodes"], "SLURM_CPUS_PER_TASK": options["cpus-per-task"]}
run_all(["bash", sys.argv[1]], [told])
"""


def install(folder: Path) -> str:
    """Write the programs into a folder; returns the folder, for PATH."""
    folder.mkdir()
    for name, text in (("srun", _SRUN), ("mpiexec", _MPIEXEC), ("sbatch", _SBATCH)):
        (folder / name).write_text(_HEAD + text)
        (folder / name).chmod(0o755)
    return str(folder)
