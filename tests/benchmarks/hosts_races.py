"""Ten array works on two hosts beside dask.distributed on the same: python -m tests.benchmarks hosts_races [--check].

Two network namespaces of this machine with a cable of 1 Gbit/s each way between them (`--gbit`), for which root is
needed: a host of ours and one by ssh, each with one worker; or a scheduler and a worker of one thread on one side, a
worker of one thread on the other. The works are those of the races (arrays/works.py), over arrays that are there; each
run is a process of its own, in interleaved rounds, and values are compared. Goal: faster than dask.distributed in each
work. `--check` fails where one is slower or wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.arrays.engines import ENGINES, Dask, Distributed, Jmars, run
from tests.benchmarks.arrays.works import WORKS, Work
from tests.benchmarks.machine import this_machine
from tests.multihost.cables import Cable
from tests.multihost.machines import Machine
from tests.multihost.ssh_server import SshServer

ROOT = Path(__file__).parents[2]
MEMORY = 4 * 2**30  # bytes of each host, and of each worker of Dask
GBIT = 1e9 / 8  # bytes a second
PLACES = "JMARS_RACE_PLACES"  # in the environment of a run: JSON of where its hosts are


class JmarsHosts(Jmars):
    """Ours on two hosts."""

    name = "jmars-hosts"

    def __init__(self) -> None:
        import jmars
        import jmars.tensor

        places = ["local", json.loads(os.environ[PLACES])["ssh"]]
        self.np = jmars.tensor
        self.cluster = jmars.Cluster.hosts(places, n_workers=1, memory_limit=MEMORY, python=sys.executable)

    def compute(self, value: Any) -> Any:
        job = self.cluster.submit(value)
        found = job.result(600)
        moved = [event[4]["bytes"] for event in job.events() if event[2] == "ChunksMoved"]
        print(f"moved {sum(moved) / 1e6:.0f} MB", file=sys.stderr)
        return found


class DistributedHosts(Distributed):
    """dask.array on a scheduler and two workers."""

    name = "distributed-hosts"

    def __init__(self) -> None:
        import dask
        import distributed

        Dask.__init__(self)
        dask.config.set({"scheduler": None, "distributed.admin.tick.limit": "60s"})
        places = json.loads(os.environ[PLACES])
        address = f"tcp://{places['near']}:8786"
        self.processes = [
            self._start([], "dask_scheduler", "--host", places["near"], "--port", "8786", "--no-dashboard")
        ]
        for enter, host in (([], places["near"]), (places["enter"], places["far"])):
            options = ["--host", host, "--nthreads", "1", "--memory-limit", str(MEMORY), "--no-dashboard"]
            self.processes.append(self._start(enter, "dask_worker", address, *options, "--death-timeout", "30"))
        self.client = distributed.Client(address, timeout=30)
        self.client.wait_for_workers(2, timeout=30)

    def _start(self, enter: list[str], module: str, *options: str) -> subprocess.Popen[bytes]:
        command = [*enter, sys.executable, "-m", f"distributed.cli.{module}", *options]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tempfile.gettempdir()
        )

    def close(self) -> None:
        self.client.shutdown()
        for process in self.processes:
            process.wait(30)


class Track:
    """Two namespaces, the cable between them, and sshd on the second."""

    def __init__(self, stack: ExitStack, bandwidth: float) -> None:
        self.head, self.far = Machine("head"), Machine("far")
        stack.callback(self.head.close)
        stack.callback(self.far.close)
        cable = Cable(self.head, self.far)
        stack.enter_context(cable.slow(int(bandwidth)))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = SshServer(self.far, cable.addresses["far"], folder, {"PYTHONPATH": str(ROOT)})
        stack.callback(server.close)
        places = {
            "ssh": server.call("node"),
            "near": cable.addresses["head"],
            "far": cable.addresses["far"],
            "enter": self.far.command([]),
        }
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        home = {"HOME": str(server.home), "PYTHONPATH": str(ROOT), PLACES: json.dumps(places)}
        self._environment = {**os.environ, **threads, **home}
        self._environment.pop("SSH_AUTH_SOCK", None)

    def run(self, engine: str, work: Work, scale: float) -> dict[str, Any]:
        """What a run in a new process gave, or what went wrong."""
        order = [
            sys.executable,
            "-m",
            "tests.benchmarks.hosts_races",
            "--run",
            engine,
            work.name,
            "--scale",
            str(scale),
        ]
        with self.head.network():
            answer = subprocess.run(order, capture_output=True, text=True, timeout=900, env=self._environment, cwd=ROOT)
        lines = [line for line in answer.stdout.splitlines() if line.startswith("{")]
        if not lines:
            return {"error": (answer.stderr.strip().splitlines() or [f"exit {answer.returncode}"])[-1]}
        found: dict[str, Any] = json.loads(lines[-1])
        moved = [line for line in answer.stderr.splitlines() if line.startswith("moved ")]
        return found | {"moved": moved[-1] if moved else ""}


def race(track: Track, work: Work, given: argparse.Namespace) -> float:
    """Speed of ours relative to dask.distributed; 0 where a run fails or values differ."""
    runs: dict[str, list[dict[str, Any]]] = {"jmars-hosts": [], "distributed-hosts": []}
    for number in range(given.rounds):
        for engine in [*runs][:: 1 if number % 2 else -1]:
            runs[engine].append(track.run(engine, work, given.scale))
    for engine, some in runs.items():
        wrong = next((one["error"] for one in some if "error" in one), None)
        if wrong is not None:
            print(f"{work.name:10} does not run on {engine}: {wrong}", flush=True)
            return 0.0
    ours, theirs = (statistics.median(one["seconds"] for one in some) for some in runs.values())
    mine, other = (some[0]["value"] for some in runs.values())
    if not np.allclose(mine, other, rtol=work.tolerance):
        print(f"{work.name:10} values differ: {mine} and {other}", flush=True)
        return 0.0
    moved = runs["jmars-hosts"][0]["moved"]
    print(f"{work.name:10} ours {ours:6.2f} s ({moved}), dask {theirs:6.2f} s: {theirs / ours:.2f} times", flush=True)
    return theirs / ours


def main() -> int:
    """Race, print, and with --check judge."""
    names = [work.name for work in WORKS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=0.25, help="size of the works, 1 is half a gigabyte")
    parser.add_argument("--gbit", type=float, default=1.0, help="Gbit a second each way between the hosts")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        ENGINES.update({one.name: one for one in (JmarsHosts, DistributedHosts)})
        engine, name = given.run
        print(json.dumps(run(engine, WORKS[names.index(name)], given.scale, held=True)), flush=True)
        return 0
    print(f"machine: {this_machine()}; {given.gbit:g} Gbit/s between the hosts, scale {given.scale:g}")
    with ExitStack() as stack:
        track = Track(stack, given.gbit * GBIT)
        ratios = {work.name: race(track, work, given) for work in WORKS if work.name in given.only}
    lost = [name for name, ratio in ratios.items() if ratio <= 1]
    median = statistics.median(ratios.values())
    print(f"median {median:.2f} times the speed of dask.distributed; not faster: {', '.join(lost) or 'none'}")
    return int(bool(lost) and given.check)


if __name__ == "__main__":
    sys.exit(main())
