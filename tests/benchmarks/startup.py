"""From `Cluster()` to a first result: python -m tests.benchmarks startup [--check].

Each round is a new Python, so nothing is warm but the file cache and the bytecode, that of NumPy too: a round that
does not count writes it, wherever packages were installed without. Goals, best of the rounds: importing
jmars after NumPy at most 0.3 s, from `Cluster()` to a first result at most 0.5 s.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

from tests.benchmarks.machine import describe, this_machine

GOALS = {"import jmars": 0.3, "Cluster() to first result": 0.5}  # seconds

PROGRAM = """
import json, time
import numpy
before = time.perf_counter()
import jmars, jmars.tensor as mt
start = time.perf_counter()
cluster = jmars.Cluster(n_workers=2)
ready = time.perf_counter()
value = mt.ones(10).sum().fetch()
first = time.perf_counter()
mt.ones(10).sum().fetch()
second = time.perf_counter()
cluster.close()
end = time.perf_counter()
assert value == 10
print(json.dumps({
    "import jmars": start - before, "Cluster()": ready - start, "first result": first - ready,
    "Cluster() to first result": first - start, "a second result": second - first, "close()": end - second,
}))
"""


def one_round(environment: dict[str, str]) -> dict[str, float]:
    """Seconds of each step."""
    command = [sys.executable, "-c", PROGRAM]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=environment)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="exit 1 when the goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        rounds = [one_round(environment) for _ in range(1 + given.rounds)][1:]
    for name in rounds[0]:
        print(f"{name:26s}{describe([1e3 * one[name] for one in rounds], 'ms')}")
    missed = False
    for name, goal in GOALS.items():
        best = min(one[name] for one in rounds)
        missed |= best > goal
        print(f"goal of {name} (at most {goal:g} s, best of {given.rounds}): {'MISSED' if best > goal else 'met'}")
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
