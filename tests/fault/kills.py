"""Kills one of two hosts, or their scheduler, under twelve programs: `python -m tests.fault.kills [--kills 100] [--seed
1] [--victim scheduler]`.

A kill is SIGKILL to the control process of a host, or to the process of the scheduler, at a random moment of a job. The
job's values must be NumPy's, other hosts must live on under their pids, and a small job must succeed afterwards. After
the death of a scheduler no function of a user has run twice. Integers only: values are exact.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import JmarsError
from tests.fault import program
from tests.fault.harness import HANG, until

__all__ = ["PROGRAMS", "Outcome", "kill_once", "kill_scheduler_once"]

LIMIT = "256MiB"  # of each host
N, CHUNK = 1600, 400
BLOCKS = 40  # of the array whose function leaves a file for each of its runs


def _grid(xp: Any, cut: Any = CHUNK) -> Any:
    numbers = xp.arange(N) if xp is np else xp.arange(N, chunk_size=cut)
    return (numbers[:, None] * 7919 + numbers[None, :] * 104729) % 65521


def _line(xp: Any, n: int = 2_000_000) -> Any:
    return xp.arange(n) if xp is np else xp.arange(n, chunk_size=n // 16)


def _fused_chain(xp: Any) -> list[Any]:
    x = _grid(xp, 160)
    for number in range(12):
        x = ((x * 3 + number) % 65521 - 7) * 5 % 32749
        if number % 2:
            x = x.T + x
    return [x.sum(axis=0), x]


def _kept_results(xp: Any) -> list[Any]:
    """A chain on two results that earlier jobs keep on the cluster, one of them of an array of the client."""
    x, y = _sent_array(xp)[1], _grid(xp, 160)
    if xp is mt:
        x.execute(), y.execute()
    for number in range(6):
        x = ((x + y.T) * 3 + number) % 32749
    return [x, x.sum(axis=1)]


@cache
def _array() -> Any:
    """An array of the client, 20 MB."""
    return (np.arange(N)[:, None] * 31 + np.arange(N)[None, :] * 17) % 65521


def _sent_array(xp: Any) -> list[Any]:
    x = _array() if xp is np else mt.asarray(_array(), chunk_size=160)
    for number in range(8):
        x = (x * 3 + number) % 65521
        if number % 2:
            x = x.T + x
    return [x.sum(axis=0), x]


def _matrix_product(xp: Any) -> list[Any]:
    x = _grid(xp, 100)[:400, :400] % 100
    return [(x @ x.T % 1000).sum(axis=1), x @ x]


def _sorting(xp: Any) -> list[Any]:
    x = _line(xp) * 7919 % 1000003
    return [xp.sort(x)[::1000], xp.unique(x % 5000)]


def _running_sums(xp: Any) -> list[Any]:
    x = _line(xp) % 97
    return [xp.cumsum(x), _grid(xp).cumsum(axis=0).max(axis=1)]


def _selection(xp: Any) -> list[Any]:
    x = _line(xp) * 31 % 10007
    few = x[x % 7 == 0]
    return [few.sum(), few[few > 5000], xp.where(x > 5000, x, -x).max()]


def _reductions(xp: Any) -> list[Any]:
    x = _grid(xp)
    return [x.sum(axis=0), x.max(axis=1), x.argmin(axis=0), (x > 30000).sum(), x.min()]


def _rechunking(xp: Any) -> list[Any]:
    x = _grid(xp)
    if xp is mt:
        x = x.rechunk((N, CHUNK // 4))
    y = x.cumsum(axis=0)
    if xp is mt:
        y = y.rechunk((CHUNK // 4, N))
    return [y.cumsum(axis=1) % 1009, y.max()]


def _shapes(xp: Any) -> list[Any]:
    x = _grid(xp)
    parts = [x[:300], x[300:900] * 2, x[900:]]
    return [xp.concatenate(parts[::-1]), xp.roll(x, 17, axis=1)[::3], x.ravel()[5:-5:7]]


def _repeated_reads(xp: Any) -> list[Any]:
    x = _grid(xp)
    rows, columns = x.sum(axis=1), x.sum(axis=0)
    return [x - rows[:, None], x - columns, (x * rows[:, None]) % 8191]


PROGRAMS: dict[str, Callable[[Any], list[Any]]] = {
    "fused chain": _fused_chain,
    "sent array": _sent_array,
    "kept results": _kept_results,
    "matrix product": _matrix_product,
    "sort and unique": _sorting,
    "running sums": _running_sums,
    "selection": _selection,
    "reductions": _reductions,
    "rechunks": _rechunking,
    "shapes": _shapes,
    "repeated reads": _repeated_reads,
    "mixed and transposed": program.arrays,
}


@cache
def _expected(name: str) -> list[Any]:
    return [np.asarray(one) for one in PROGRAMS[name](np)]


class Outcome(NamedTuple):
    """End of a kill: `wrong` is empty where all promises were kept."""

    program: str
    moment: float  # seconds from submission to kill
    took: float  # seconds from kill to answer
    wrong: str


def _hosts(cluster: Cluster) -> dict[int, dict[str, Any]]:
    return {host["number"]: host for host in cluster.info()["hosts"]}


def kill_once(name: str, random: Random) -> Outcome:
    """Run a program on two new hosts, and again with a kill of one of them."""
    with Cluster.hosts(["local", "local"], n_workers=1, memory_limit=LIMIT) as cluster:
        before = _hosts(cluster)
        victim = random.choice(sorted(before))
        outcome = _run_and_kill(cluster, name, random, lambda: before[victim]["pid"])
        return outcome._replace(wrong=outcome.wrong or _survives(cluster, before, victim))


def kill_scheduler_once(name: str, random: Random) -> Outcome:
    """Run a program on two new hosts, and again with a kill of the scheduler's process."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster.hosts(["local", "local"], n_workers=1, memory_limit=LIMIT, schedulers=1) as cluster,
    ):
        before, first = _hosts(cluster), _scheduler(cluster)
        outcome = _run_and_kill(cluster, name, random, lambda: first, partial(_noted, folder))
        runs = Counter(file.name.partition("-")[0] for file in Path(folder).iterdir())
        wrong = outcome.wrong or _survives(cluster, before, -1)
        if not wrong and set(runs.values()) != {2}:  # once in each of the two jobs
            wrong = f"blocks of the function ran otherwise than once: {runs}"
        if not wrong and _scheduler(cluster) in (0, first):
            wrong = "no further scheduler is there"
        return outcome._replace(wrong=wrong)


def _scheduler(cluster: Cluster) -> int:
    pid: int = cluster.info()["scheduler"]["pid"]
    return pid


def _noted(folder: str) -> Any:
    """An array whose blocks leave a file for each run of their function, the sum of its values."""

    def note(block: Any) -> Any:
        Path(folder, f"{int(block[0])}-{uuid.uuid4().hex}").touch()
        time.sleep(0.005)
        return block

    return mt.map_blocks(note, mt.arange(10 * BLOCKS, chunk_size=10), dtype="i8").sum()


def _run_and_kill(
    cluster: Cluster, name: str, random: Random, victim: Callable[[], int], further: Callable[[], Any] | None = None
) -> Outcome:
    """Run a program, and again with a kill of a process at a random moment; `further` makes one more array."""

    def submit() -> Any:
        return cluster.submit(*PROGRAMS[name](mt), *([] if further is None else [further()]))

    def differs(got: Any) -> str:
        if further is not None:
            *got, last = got
            if int(last) != sum(range(10 * BLOCKS)):
                return f"the sum of what the function gave is {last}"
        return program.differs([np.asarray(one) for one in got], _expected(name))

    begun = time.monotonic()
    first = differs(submit().result(HANG))
    usual = time.monotonic() - begun
    moment = random.uniform(0.0, 0.9 * usual)
    job = submit()
    begun = time.monotonic()
    until(lambda: job.wait(0) or time.monotonic() - begun >= moment, HANG, "the clock stands still")
    os.kill(victim(), signal.SIGKILL)
    killed = time.monotonic()
    try:
        wrong = first or differs(job.result(2 * HANG))
    except (JmarsError, TimeoutError) as error:
        wrong = f"{type(error).__name__}: {error}"
    return Outcome(name, moment, time.monotonic() - killed, wrong)


def _survives(cluster: Cluster, before: dict[int, dict[str, Any]], victim: int) -> str:
    """Why other hosts than the victim are not well after the kill; empty if they are."""
    try:
        if int(cluster.submit(program.probe()).result(HANG)) != 499500:
            return "the probe is wrong"
        if victim in before:
            until(lambda: _hosts(cluster)[victim]["state"] == "lost", 20.0, "the killed host is not given up", 0.05)
    except (JmarsError, TimeoutError, AssertionError) as error:
        return f"after the job: {type(error).__name__}: {error}"
    for number, host in _hosts(cluster).items():
        if number != victim and (host["state"], host["pid"]) != ("here", before[number]["pid"]):
            return f"host {number} was healthy, and is {host['state']}"
    return ""


VICTIMS = {"host": kill_once, "scheduler": kill_scheduler_once}


def main() -> int:
    """Kill hosts, or schedulers, and count; returns the exit status."""
    parser = argparse.ArgumentParser("python -m tests.fault.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default="", help="run this program only")
    parser.add_argument("--victim", default="host", choices=VICTIMS, help="what is killed")
    asked = parser.parse_args()
    names = [asked.program] if asked.program else list(PROGRAMS)
    wrong = 0
    longest = 0.0
    for number in range(asked.kills):
        name = names[number % len(names)]
        outcome = VICTIMS[asked.victim](name, Random(f"{asked.seed} {number}"))
        wrong += bool(outcome.wrong)
        longest = max(longest, outcome.took)
        print(
            f"{number:3} {name:22} killed at {outcome.moment:5.2f} s, answer after {outcome.took:5.2f} s "
            f"{outcome.wrong or 'right'}",
            flush=True,
        )
    print(f"{asked.kills} kills, {wrong} wrong; longest answer {longest:.2f} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
