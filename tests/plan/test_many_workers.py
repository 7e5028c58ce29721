"""Plans for a thousand hosts: the C kernels serve, and give what Python gives."""

from __future__ import annotations

import numpy as np

from jmars.native import forced
from jmars.plan import Workers, assign_eft, simulate
from jmars.plan.c_planners import serves
from jmars.plan.order import rank_b_level
from tests.benchmarks.large_graphs import costed, map_and_tree


def test_a_thousand_hosts_are_planned_in_c_as_in_python() -> None:
    graph, hosts = costed(map_and_tree(1500)), Workers.build(1000, cores=2)
    rank = rank_b_level(graph, hosts.seconds_per_byte)
    found = []
    for backend in ("c", "python"):
        with forced(backend):
            assert serves(graph, hosts) == (backend == "c")
            assign = assign_eft(graph, hosts, rank)
            result = simulate(graph, hosts, assign, rank)
            found.append((assign.tolist(), result.makespan, result.peak_total, result.moved))
    assert found[0] == found[1]
    assert len(np.unique(found[0][0])) > 300, "the sources are spread"
