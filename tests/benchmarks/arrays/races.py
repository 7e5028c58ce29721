"""Array works beside dask.array and xorbits: python -m tests.benchmarks races [--check] [--only NAME ...].

Each run is a process of its own, in interleaved rounds; every engine draws arrays cut alike, computes the same and has
two workers of one thread (works.py, engines.py). Printed are seconds (the median, the least and the most), seconds of
CPU of all processes, which say more where the machine has other things to do, and the peak of their memory; then who
lost to whom. xorbits is run by a Python of its own (`--xorbits PYTHON`), since it needs older libraries than ours:

    python -m venv OTHER
    OTHER/bin/pip install xorbits==0.8.2 xoscar==0.6.2 pandas==2.2.3 'numpy<2.2' 'scipy<1.16' psutil

Goals: matmul takes at most 1/0.9 of NumPy's time; of the rest each takes less time and less memory than dask.array (on
threads and on a local cluster) and than xorbits. `--check` fails when one is missed. `--scale 1` is matrices of 8192 ×
8192 and half a gigabyte for the others; `--held` computes the inputs before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.arrays.engines import ENGINES, NoSuchFunctionError, middle, run
from tests.benchmarks.arrays.works import FURTHER, WORKS, Work
from tests.benchmarks.machine import this_machine

ROOT = Path(__file__).parents[3]
MIB = 2**20
OF_NUMPY = 0.9  # of the speed of its matmul
DEFAULT = [name for name in ENGINES if name != "jmars-dask"]  # tests/benchmarks/engines.py races that one


class Figures(NamedTuple):
    """What is compared."""

    seconds: float
    cpu: float
    peak: float  # bytes


def one_run(engine: str, work: Work, given: argparse.Namespace) -> dict[str, Any]:
    """What a run in a new process gave, or what went wrong."""
    python = given.xorbits if engine == "xorbits" else sys.executable
    order = [python, "-m", "tests.benchmarks.arrays.races", "--run", engine, work.name, "--scale", str(given.scale)]
    threads = "1" if engine == "dask" else "2"  # dask's two threads would each have two of the BLAS
    env = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)}
    if engine not in ("numpy", "dask"):
        env = {name: value for name, value in env.items() if not name.endswith("_NUM_THREADS")}
    answer = subprocess.run(
        [*order, *(["--held"] if given.held else [])], capture_output=True, text=True, timeout=900, env=env, cwd=ROOT
    )
    lines = [line for line in answer.stdout.splitlines() if line.startswith("{")]
    if lines:
        found: dict[str, Any] = json.loads(lines[-1])
        return found
    said = answer.stderr.strip().splitlines()
    errors = [line for line in said if re.match(r"\S*(Error|Exception|Exit)\b", line)]
    return {"error": (errors or said or [f"exit {answer.returncode}"])[-1]}


def race(work: Work, engines: list[str], given: argparse.Namespace) -> list[str]:
    """Run one work everywhere, print, and tell what ours lost."""
    runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
    for _ in range(given.rounds):
        for engine in engines:
            if not any("error" in one for one in runs[engine]):
                runs[engine].append(one_run(engine, work, given))
    found: dict[str, Figures] = {}
    values = {}
    for engine, some in runs.items():
        wrong = next((one["error"] for one in some if "error" in one), None)
        if wrong is not None:
            print(f"{work.name:12}{engine:12} does not run: {wrong}", flush=True)
            continue
        seconds = [one["seconds"] for one in some]
        cpu = middle([one["cpu"] for one in some])
        found[engine] = Figures(middle(seconds), cpu, max(one["peak"] for one in some))
        values[engine] = np.array(some[0]["value"])
        print(
            f"{work.name:12}{engine:12} {found[engine].seconds:7.2f} s ({min(seconds):.2f}–{max(seconds):.2f})  "
            f"{cpu:7.2f} s of CPU  {found[engine].peak / MIB:7.0f} MiB  value {np.round(values[engine], 4).tolist()}",
            flush=True,
        )
    if "jmars" not in found:
        return [f"{work.name}: ours did not run"]
    for engine, value in values.items():
        assert np.allclose(value, values["jmars"], rtol=work.tolerance), (work.name, engine, value, values["jmars"])
    return judge(work, found)


def judge(work: Work, found: dict[str, Figures]) -> list[str]:
    """What ours lost; prints the ratios."""
    ours, lost, ratios = found["jmars"], [], []
    for engine, other in found.items():
        if engine == "jmars":
            continue
        time, cpu, memory = (theirs / own for theirs, own in zip(other, ours))
        ratios.append(f"{engine} {time:.2f} × the time, {cpu:.2f} × the CPU, {memory:.2f} × the memory")
        if engine == "numpy":
            if work.name == "matmul" and time < OF_NUMPY:
                lost.append(f"matmul: {time:.2f} of NumPy's speed ({cpu:.2f} by CPU), {OF_NUMPY} promised")
            continue
        if time < 1:
            lost.append(f"{work.name}: {1 / time:.2f} × the time of {engine} ({1 / cpu:.2f} × its CPU)")
        if memory < 1:
            lost.append(f"{work.name}: {1 / memory:.2f} × the memory of {engine}")
    print(f"{work.name:12}beside ours: {'; '.join(ratios)}{f' ({work.note})' if work.note else ''}\n", flush=True)
    return lost


def main() -> int:
    """Race, print, and with --check judge."""
    works = [*WORKS, *FURTHER]
    names = [work.name for work in works]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--held", action="store_true", help="inputs are computed before")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--engines", nargs="+", choices=[*ENGINES], default=DEFAULT)
    parser.add_argument("--xorbits", help="the Python that has xorbits; without it there is no such column")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        engine, name = given.run
        try:
            answer = run(engine, works[names.index(name)], given.scale, given.held)
        except NoSuchFunctionError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
        return 0
    print(f"machine: {this_machine()}")
    engines = [engine for engine in given.engines if engine != "xorbits" or given.xorbits]
    lost = [line for work in works if work.name in given.only for line in race(work, engines, given)]
    print("lost:", *(lost or ["nothing"]), sep="\n  ")
    return 1 if given.check and lost else 0


if __name__ == "__main__":
    sys.exit(main())
