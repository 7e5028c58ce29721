"""The view's cost in a cell: python -m tests.benchmarks view [--check] [NAME ...].

Each work is a `%%jmars` cell in a real kernel with two workers. It runs with the view and with `--view none`, in
interleaved rounds, after a first run of both that is not counted; the kernel measures its own seconds. Goals: the view
takes at most 0.05 of the time of a long job, 0.03 and 100 kB/s of a job of 20,000 operands, 10 ms of a short job, and
2 ms of a cell without a job. `--check` fails when a goal is missed. No page is open: what a browser takes is its own
process's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.machine import this_machine
from tests.notebook.kernels import Client, running_kernel


@dataclass(frozen=True)
class Work:
    """A cell."""

    name: str
    text: str
    jobs: int = 1
    share: float | None = None  # goal: of the time without the view
    seconds: float | None = None  # goal: for each job, or for the cell
    times: int = 1  # runs that are measured together
    rate: float | None = None  # goal: bytes a second of the view's messages


WORKS = [
    Work(
        "long",
        "a = np.random.default_rng(1).random((3000, 3000), chunk_size=150)\nb = (np.sqrt(a) @ a.T).sum()",
        share=0.05,
    ),
    Work(
        "many",
        "a = np.random.default_rng(1).random(400_000_000, chunk_size=20_000)\nb = np.sin(a).sum()",
        share=0.03,
        rate=100e3,
    ),
    Work(
        "kmeans",
        """C = X[:5].copy()
for turn in range(15):
    nearest = ((X[:, None, :] - C[None]) ** 2).sum(axis=-1).argmin(axis=1)
    new = np.stack([X[nearest == k].mean(axis=0) for k in range(5)])
    if np.allclose(new, C):
        break
    C = new""",
        share=0.05,
    ),
    Work("jobs", "for turn in range(20):\n    (np.arange(1000.0, chunk_size=100) + turn).execute()", 20, seconds=0.01),
    Work("tiny", "z = 1 + 1", seconds=0.002, times=50),
]
SETUP = """%load_ext jmars
import numpy as np, time
X = np.random.default_rng(1).normal(size=(200_000, 8))"""
TIMED = """begun = time.perf_counter()
for run in range({times}):
    get_ipython().run_cell_magic("jmars", {flags!r}, {text!r})
print("took", (time.perf_counter() - begun) / {times})"""


def seconds(kernel: Client, flags: str, work: Work) -> float:
    """Seconds of a cell as the kernel measures them."""
    kernel.iopub.clear()
    code = TIMED.format(flags=flags, text=work.text, times=work.times)
    return float(kernel.run(code, timeout=300).rpartition("took ")[2].split()[0])


def message_bytes(message: dict[str, Any]) -> int:
    """Bytes of a message of a widget."""
    if not message["msg_type"].startswith("comm"):
        return 0
    return len(json.dumps(message["content"])) + sum(map(len, message["buffers"]))


def compared(kernel: Client, work: Work, rounds: int) -> tuple[float, float]:
    """Seconds without the view, and seconds more with it: of the fastest rounds, which other programs disturb least."""
    times: dict[str, list[float]] = {"": [], "--view none": []}
    for number in range(rounds + 1):
        for flags in [*times][:: 1 if (number + rounds) % 2 else -1]:  # the view's run is the last one
            took = seconds(kernel, flags, work)
            if number:
                times[flags].append(took)
    without = min(times["--view none"])
    return without, min(times[""]) - without


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="works; none for all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    missed = False
    env = {"JMARS_DISPLAY": "widget", "JMARS_LOCAL_SECONDS": "0"}  # each value is a job
    with tempfile.TemporaryDirectory() as folder, running_kernel(Path(folder), "newest", env) as kernel:
        kernel.run(SETUP)
        kernel.run("%%jmars -w 2\nnp.ones(3).sum()")
        for work in WORKS:
            if given.names and work.name not in given.names:
                continue
            base, beyond = compared(kernel, work, given.rounds)
            each = beyond / work.jobs
            ok = beyond <= work.share * base if work.share is not None else each <= work.seconds
            goal = f"{work.share:.0%}" if work.share is not None else f"{work.seconds * 1e3:g} ms"
            sent = sum(map(message_bytes, kernel.iopub)) / (base * work.times)  # of the last run, which had the view
            ok = ok and (work.rate is None or sent <= work.rate)
            missed |= not ok
            goal += f", {work.rate / 1e3:g} kB/s" if work.rate is not None else ""
            told = f"{work.name:8} {base:7.3f} s, the view {beyond / base:+6.1%}, {each * 1e3:+7.2f} ms a job"
            told += f", {sent / 1e3:.0f} kB/s"
            print(f"{told}; goal {goal}: {'met' if ok else 'MISSED'}", flush=True)
        kernel.run("%jmars stop")
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
