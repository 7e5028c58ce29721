"""A head of hosts that has this folder on its path plans as Mars does: later operands follow their inputs.

tests/benchmarks/hosts.py compares whole plans with that rule; only first operands keep the worker of the plan.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

if sys.orig_argv[-1] == "head":
    from jmars.scheduler import ranking

    _planned = ranking._on_machines

    def _following(compiled: Any, *args: Any) -> ranking.Ranked:
        ranked = _planned(compiled, *args)
        if ranked.assign is None:
            return ranked
        first = np.diff(compiled.dag.pred_ptr) == 0
        return replace(ranked, assign=np.where(first, ranked.assign, -1))

    ranking._on_machines = _following
