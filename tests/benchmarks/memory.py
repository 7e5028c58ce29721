"""Arrays of four times the memory limit, beside dask.distributed: python -m tests.benchmarks memory [--check].

The mean of an anomaly, quadratic means and a full sort; each engine with two workers of one thread, the same limit for
all of them, the same chunks, the same disk, and a process of its own for each run, in interleaved rounds. Printed are
the most memory (ours as the limit counts it: proportional set size of all of the cluster's processes and the shared
memory; Dask's: that of its workers and nannies, its scheduler left out), bytes written to disk (of Dask those that the
system counts for its workers, also for those that were ended), and seconds from submission to the value.

Dask's workers may be ended over and over for their memory, and sometimes nobody starts them again. A run of Dask's that
has no value after `--patience` seconds is stopped: what it took and wrote until then is the least that it needs, and
counts as that.

dask.array has no full sort. The one here is the usual one by hand: percentiles of the array, computed first; each
block cut into as many pieces; the pieces of one part joined and sorted. Both results are reduced to the same numbers.

Goals: at most the limit and 10 %; at most half of the bytes that Dask writes; at most 5 % more seconds than Dask takes.
`--check` fails when one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.machine import this_machine

MIB = 2**20
TIMES = 4  # the limit, in bytes of the arrays
WORKERS = 2
CHUNK = 32  # part of the limit that a chunk takes
SAMPLE_SECONDS = 0.1  # between two readings of the memory


def lengths(limit: int, arrays: int = 1) -> tuple[int, int]:
    """Elements of each array and of a chunk."""
    chunk = limit // CHUNK // 8
    return TIMES * limit // 8 // arrays // chunk * chunk, chunk


def table(limit: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Shape of the array of anomalies, and of a chunk of it."""
    n, chunk = lengths(limit)
    columns = 8192
    rows = max(1, chunk // 2048)
    return (n // columns // rows * rows, columns), (rows, 2048)


# -- ours
def jmars_anomaly(limit: int) -> Any:
    """How far an array is from its mean over rows: all of it is needed twice."""
    import jmars.tensor as mt

    shape, chunks = table(limit)
    x = mt.random.default_rng(1).random(shape, chunk_size=chunks)
    return (abs(x - x.mean(axis=0))).mean()


def jmars_quadratic(limit: int) -> Any:
    """Means of the products of two arrays, each used twice."""
    import jmars.tensor as mt

    n, chunk = lengths(limit, 2)
    u = mt.random.default_rng(2).random(n, chunk_size=chunk)
    v = mt.random.default_rng(3).random(n, chunk_size=chunk)
    return mt.stack([(u * u).mean(), (v * v).mean(), (u * v).mean()])


def jmars_sort(limit: int) -> Any:
    """The squares of a sorted line added up, and how many steps go down: none."""
    import jmars.tensor as mt

    n, chunk = lengths(limit)
    s = mt.sort(mt.random.default_rng(4).random(n, chunk_size=chunk))
    return mt.stack([(s * s).sum() / n, s.max(), s.min()])


# -- Dask
def dask_anomaly(limit: int) -> Any:
    """As `jmars_anomaly`."""
    import dask.array as da

    shape, chunks = table(limit)
    x = da.random.default_rng(1).random(shape, chunks=chunks)
    return (abs(x - x.mean(axis=0))).mean()


def dask_quadratic(limit: int) -> Any:
    """As `jmars_quadratic`."""
    import dask.array as da

    n, chunk = lengths(limit, 2)
    u = da.random.default_rng(2).random(n, chunks=chunk)
    v = da.random.default_rng(3).random(n, chunks=chunk)
    return da.stack([(u * u).mean(), (v * v).mean(), (u * v).mean()])


def dask_sort(limit: int) -> Any:
    """Percentiles first, then a shuffle by blocks."""
    import dask.array as da
    from dask import delayed

    n, chunk = lengths(limit)
    parts = n // chunk
    x = da.random.default_rng(4).random(n, chunks=chunk)
    cuts = da.percentile(x, np.linspace(0, 100, parts + 1)[1:-1]).compute()
    blocks = x.to_delayed().ravel()
    pieces = [delayed(cut_at, nout=parts)(block, cuts) for block in blocks]
    ordered = [delayed(joined)([piece[j] for piece in pieces]) for j in range(parts)]
    s = da.concatenate([da.from_delayed(one, (np.nan,), x.dtype) for one in ordered], allow_unknown_chunksizes=True)
    return da.stack([(s * s).sum() / n, s.max(), s.min()])


def cut_at(block: np.ndarray, cuts: np.ndarray) -> list[np.ndarray]:
    """The elements of a block, sorted and in as many pieces as there are parts."""
    block = np.sort(block)
    return np.split(block, np.searchsorted(block, cuts))


def joined(pieces: list[np.ndarray]) -> np.ndarray:
    """One part of the result."""
    return np.sort(np.concatenate(pieces))


WORKS = {"anomaly mean": "anomaly", "quadratic mean": "quadratic", "sort": "sort"}


# -- one run, in a process of its own
class Peak(threading.Thread):
    """The most of what `read` gives, read now and then."""

    def __init__(self, read: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self.read, self.most, self.ended = read, 0, threading.Event()

    def run(self) -> None:
        """Read until told to end."""
        while not self.ended.wait(SAMPLE_SECONDS):
            self.most = max(self.most, self.read())


def run_jmars(work: str, limit: int, folder: str, patience: float) -> dict[str, Any]:
    """One run on a cluster of ours."""
    import jmars

    with jmars.Cluster(n_workers=WORKERS, memory_limit=limit, spill_dir=folder) as cluster:
        asked = globals()[f"jmars_{work}"](limit)
        peak = Peak(lambda: cluster.info()["memory"]["resident"])
        peak.start()
        start = time.perf_counter()
        job = cluster.submit(asked)
        assert job.wait(patience) and job.state == "succeeded", job.error
        value = np.asarray(job.result())
        seconds = time.perf_counter() - start
        peak.ended.set()
        memory = cluster.info()["memory"]
    return {
        "value": value.ravel().tolist(),
        "seconds": seconds,
        "peak": max(peak.most, memory["peak"]),
        "spilled": memory["spilled_total"],
        "reloaded": memory["reloaded_total"],
    }


def run_dask(work: str, limit: int, folder: str, patience: float) -> dict[str, Any]:
    """One run on dask.distributed."""
    import dask
    import distributed
    import psutil

    dask.config.set({"temporary-directory": folder, "distributed.admin.tick.limit": "60s"})
    dask.config.set({"distributed.scheduler.allowed-failures": 50})  # by default it gives a sort up after 3
    with (
        distributed.LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            memory_limit=limit // WORKERS,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        children = psutil.Process().children(recursive=True)

        disk: dict[str, dict[int, int]] = {"write_bytes": {}, "read_bytes": {}}  # of each process there was

        def used() -> int:
            alive = {child.pid for child in {*children, *psutil.Process().children(recursive=True)}}
            for pid in alive:
                for kind, count in disk_bytes(pid).items():
                    disk[kind][pid] = count
            return sum(map(pss, alive))

        peak = Peak(used)
        peak.start()
        start = time.perf_counter()
        value, stopped = np.full(1, np.nan), False
        try:
            value = np.asarray(client.compute(globals()[f"dask_{work}"](limit)).result(timeout=patience))
        except TimeoutError:
            stopped = True
        seconds = time.perf_counter() - start
        peak.ended.set()
        peak.join()
        answer = {
            "value": value.ravel().tolist(),
            "stopped": stopped,
            "seconds": seconds,
            "peak": peak.most,
            "spilled": sum(disk["write_bytes"].values()),
            "reloaded": sum(disk["read_bytes"].values()),
        }
        if stopped:  # closing would wait for workers that do not answer
            print(json.dumps(answer), flush=True)
            for child in psutil.Process().children(recursive=True):
                child.kill()
            os._exit(0)
    return answer


def disk_bytes(pid: int) -> dict[str, int]:
    """What a process wrote to disks and read from them so far, in bytes; nothing when it is gone."""
    try:
        with open(f"/proc/{pid}/io") as counts:
            found = dict(line.split(": ") for line in counts)
    except (OSError, ValueError):
        return {}
    return {kind: int(found[kind]) for kind in ("write_bytes", "read_bytes")}


def pss(pid: int) -> int:
    """Proportional set size of a process, in bytes; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as rollup:
            return next(int(line.split()[1]) * 1024 for line in rollup if line.startswith(b"Pss:"))
    except (OSError, StopIteration):
        return 0


# -- all of it
def one_run(engine: str, work: str, given: argparse.Namespace) -> dict[str, Any]:
    """What a run in a new process gave."""
    options = ["--limit", str(given.limit), "--folder", given.folder, "--patience", str(given.patience)]
    order = [sys.executable, "-m", "tests.benchmarks", "memory", "--run", engine, work, *options]
    answer = subprocess.run(order, capture_output=True, text=True, timeout=given.patience + 120, env={**os.environ})
    if answer.returncode:
        return {"error": answer.stderr.strip().splitlines()[-1] if answer.stderr else f"exit {answer.returncode}"}
    found: dict[str, Any] = json.loads(answer.stdout.strip().splitlines()[-1])
    return found


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=1024 * MIB, help="bytes")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where both spill to")
    parser.add_argument("--patience", type=float, default=600, help="seconds that a run may take")
    parser.add_argument("--only", choices=[*WORKS.values()])
    parser.add_argument("--engine", choices=["jmars", "dask"], help="only this one, without judging")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        engine, work = given.run
        run = run_jmars if engine == "jmars" else run_dask
        print(json.dumps(run(work, given.limit, given.folder, given.patience)))
        return 0
    print(f"machine: {this_machine()}")
    print(f"limit {given.limit / MIB:.0f} MiB, arrays of {TIMES} times as much, spilled to {given.folder}")
    engines = [given.engine] if given.engine else ["jmars", "dask"]
    met = True
    for name, work in WORKS.items():
        if given.only not in (None, work):
            continue
        runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
        for _ in range(given.rounds):
            for engine in engines:
                runs[engine].append(one_run(engine, work, given))
        middle: dict[str, dict[str, float]] = {}
        for engine in engines:
            good = [run for run in runs[engine] if "error" not in run]
            if len(good) < given.rounds:
                print(f"{name:15s}{engine:6s} FAILED {given.rounds - len(good)} times: "
                      f"{next(run['error'] for run in runs[engine] if 'error' in run)}")  # fmt: skip
            if not good:
                met &= engine != "jmars"
                continue
            found = middle[engine] = {
                key: statistics.median(run[key] for run in good) for key in ("seconds", "spilled", "reloaded")
            }
            found["peak"] = max(run["peak"] for run in good)
            print(
                f"{name:15s}{engine:6s} peak {found['peak'] / MIB:6.0f} MiB ({found['peak'] / given.limit:4.2f} of the "
                f"limit), written {found['spilled'] / MIB:6.0f} MiB, read {found['reloaded'] / MIB:6.0f} MiB, "
                f"{found['seconds']:6.2f} s ({min(r['seconds'] for r in good):.2f}–"
                f"{max(r['seconds'] for r in good):.2f}); value {np.round(good[0]['value'], 4).tolist()}",
                flush=True,
            )
            if stopped := sum(run.get("stopped", False) for run in good):
                print(f"{name:15s}{engine:6s} without a value when it was stopped: {stopped} of {len(good)}")
        if len(middle) == 2:
            met &= judge(name, middle["jmars"], middle["dask"], given.limit)
    return 1 if given.check and not met else 0


def judge(name: str, ours: dict[str, float], dask: dict[str, float], limit: int) -> bool:
    """Whether the three goals are met; says so."""
    goals = {
        "peak ≤ limit + 10 %": ours["peak"] <= 1.1 * limit,
        "written ≤ half of Dask's": ours["spilled"] <= 0.5 * dask["spilled"],
        "seconds ≤ Dask's + 5 %": ours["seconds"] <= 1.05 * dask["seconds"],
    }
    print(f"{name:15s}goals: " + "; ".join(f"{goal}: {'met' if met else 'MISSED'}" for goal, met in goals.items()))
    return all(goals.values())


if __name__ == "__main__":
    sys.exit(main())
