"""Plans of a graph, made before it runs: workers and ranks of operands. Pure functions, no I/O.

plan_graph   the graph that planners read: operands with their cost, bytes, devices and pins; the workers
costs        the costs of operands, as measured and as planners read them, and the keys of equal costs
c_planners   the planners' inner loops in C
order        orders to run a graph in, as ranks of operands
simulation   runs of a plan in virtual time
initial      workers of initial operands, by searches and by near common descendants
assign       workers of operands: contiguous runs, recursive bisection, earliest finish time
partition    partitions by METIS and mt-KaHyPar
prediction   the cost and the memory of a run on this host
improve      plans improved by simulation: annealing, refinement
choice       the frozen plan; the candidates and the best plan, as data; the best order for a single host
best_plan    the best plan for several workers
devices      cores or GPUs for each operand
explanation  a plan as data that a notebook draws
revision     a plan for the rest of a run, from measured speeds

A name is imported on first use, so that clusters of one host import no planner of several hosts. Planners that no run
uses stand in jmars/annex/planners.py.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jmars.annex.planners import (
        Part,
        as_assignment,
        as_labels,
        atomic_labels,
        atomic_parts,
        depth_first,
        duplicate,
        merge,
        steal,
    )
    from jmars.plan.assign import assign_bisect, assign_eft, assign_runs, source_runs
    from jmars.plan.best_plan import choose
    from jmars.plan.choice import Choice, Plan, choose_order, make_plan, seconds_to_plan
    from jmars.plan.costs import Accuracy, Profile, Signature, annotate, one_host, program_seconds, signature
    from jmars.plan.explanation import explain, picture
    from jmars.plan.improve import anneal, rank_justified, refine
    from jmars.plan.initial import assign_bfs_v1, assign_initial, assign_ncd, initial_v1, shares
    from jmars.plan.order import (
        rank_b_level,
        rank_by,
        rank_depth_first,
        rank_level,
        rank_mars,
        rank_min_memory,
        rank_wave,
    )
    from jmars.plan.partition import assign_km1, assign_metis
    from jmars.plan.plan_graph import (
        ANY,
        CPU,
        GPU,
        UNLIMITED,
        GraphStatistics,
        PlanGraph,
        Workers,
        contract,
        neighbours,
        statistics,
        volume,
    )
    from jmars.plan.prediction import Prediction, predict
    from jmars.plan.revision import DriftReport, Observed, Remaining, drift, remaining, replan, with_speed
    from jmars.plan.simulation import FollowInputs, Policy, SimResult, Simulation, lower_bound, simulate, waiting

__all__ = [
    "ANY",
    "CPU",
    "GPU",
    "UNLIMITED",
    "Accuracy",
    "Choice",
    "DriftReport",
    "FollowInputs",
    "GraphStatistics",
    "Observed",
    "Part",
    "Plan",
    "PlanGraph",
    "Policy",
    "Prediction",
    "Profile",
    "Remaining",
    "Signature",
    "SimResult",
    "Simulation",
    "Workers",
    "anneal",
    "annotate",
    "as_assignment",
    "as_labels",
    "assign_bfs_v1",
    "assign_bisect",
    "assign_eft",
    "assign_initial",
    "assign_km1",
    "assign_metis",
    "assign_ncd",
    "assign_runs",
    "atomic_labels",
    "atomic_parts",
    "choose",
    "choose_order",
    "contract",
    "depth_first",
    "drift",
    "duplicate",
    "explain",
    "initial_v1",
    "lower_bound",
    "make_plan",
    "merge",
    "neighbours",
    "one_host",
    "picture",
    "predict",
    "program_seconds",
    "rank_b_level",
    "rank_by",
    "rank_depth_first",
    "rank_justified",
    "rank_level",
    "rank_mars",
    "rank_min_memory",
    "rank_wave",
    "refine",
    "remaining",
    "replan",
    "seconds_to_plan",
    "shares",
    "signature",
    "simulate",
    "source_runs",
    "statistics",
    "steal",
    "volume",
    "waiting",
    "with_speed",
]

_NAMES = {  # by module
    "assign": "assign_bisect assign_eft assign_runs source_runs",
    "best_plan": "choose",
    "choice": "Choice Plan choose_order make_plan seconds_to_plan",
    "costs": "Accuracy Profile Signature annotate one_host program_seconds signature",
    "explanation": "explain picture",
    "improve": "anneal rank_justified refine",
    "initial": "assign_bfs_v1 assign_initial assign_ncd initial_v1 shares",
    "order": "rank_b_level rank_by rank_depth_first rank_level rank_mars rank_min_memory rank_wave",
    "partition": "assign_km1 assign_metis",
    "plan_graph": "ANY CPU GPU GraphStatistics PlanGraph UNLIMITED Workers contract neighbours statistics volume",
    "prediction": "Prediction predict",
    "revision": "DriftReport Observed Remaining drift remaining replan with_speed",
    "simulation": "FollowInputs Policy SimResult Simulation lower_bound simulate waiting",
}
_ANNEX = "Part as_assignment as_labels atomic_labels atomic_parts depth_first duplicate merge steal"
_MODULE_OF = {name: f"jmars.plan.{module}" for module, names in _NAMES.items() for name in names.split()}
_MODULE_OF |= dict.fromkeys(_ANNEX.split(), "jmars.annex.planners")


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
