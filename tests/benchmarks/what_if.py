"""How long a plan and its what-ifs take: at most a second each for 10⁴ operands is promised.

    python -m tests.benchmarks what_if [OPERANDS]

Prints seconds of this process, the best of three; `repr` counts, as it simulates the interval of the peak.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import jmars.tensor as mt
from jmars.client.plans import plan_for

GB = 2**30
CHANGES: list[dict[str, Any]] = [
    {"workers": 16},
    {"memory": "1GiB"},
    {"hosts": 4, "bandwidth": "100MiB"},
    {"chunk_size": "40KiB"},
    {"policy": "lean"},
    {"policy": "bfs"},
    {"hosts": 4, "policy": "lean"},
]


def timed(make: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, the best of three, and what was made."""
    best, made = 1e9, None
    for _ in range(3):
        begun = time.perf_counter()
        made = make()
        repr(made)
        best = min(best, time.perf_counter() - begun)
    return best, made


def main() -> int:
    """Print the table; 1 when something takes longer than a second."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    side = round((wanted / 1.27) ** 0.5)  # chunks along each axis: one operand each, and a tree over the columns
    x = mt.random.default_rng(1).random((100 * side, 100 * side), chunk_size=100)
    y = ((x + 1) * 2).sum(axis=0)
    seconds, plan = timed(lambda: plan_for([y.data], 2, 8 * GB))
    print(f"{plan.operands} operands, {plan.operands_before} before fusion")
    rows = [("plan, with advice", seconds)]
    rows += [(f"what if {change}", timed(lambda change=change: plan.what_if(**change))[0]) for change in CHANGES]
    for what, took in rows:
        print(f"{what:60s} {took:6.3f} s")
    return int(max(took for _, took in rows) > 1.0)


if __name__ == "__main__":
    sys.exit(main())
