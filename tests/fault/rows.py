"""The rows of the reliability matrix: how often a full run repeats each.

Source: the reliability matrix of the design, column N; rows 15 and 31 are of several hosts, as test_hosts.py is.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REPEATS", "Full"]

REPEATS = {
    1: 50, 2: 50, 3: 50, 4: 30, 5: 20, 6: 30, 7: 10, 8: 20, 9: 10, 10: 30, 11: 30, 12: 20, 13: 30, 14: 20,
    15: 20, 16: 10, 17: 20, 18: 20, 19: 20, 20: 20, 21: 10, 22: 5, 23: 5, 24: 10, 25: 20, 26: 5, 27: 10, 28: 10, 29: 20,
    30: 10, 31: 20,
}  # fmt: skip


@dataclass(eq=False)
class Full:
    """Registered as a pytest plugin by `python -m tests.fault --full`: repeat, beginning with this seed."""

    seed: int
    times: int  # 0 for what the matrix says
