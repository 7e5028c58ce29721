"""Plans of a graph, made before it runs: workers and ranks of operands. Pure functions, no I/O.

plan_graph        the graph that planners read: operands with their cost, bytes, devices and pins
workers           the workers that planners read: cores, speed, memory, links, disks
graph_statistics  depth, readers and descendants of operands
plan              the frozen plan
c_planners        the planners' inner loops in C
cost/             seconds and bytes of operands, measured and predicted
order/            orders to run a graph in
simulation/       runs of a plan in virtual time
assign/           workers for operands
partition/        partitions: METIS, mt-KaHyPar, cascade's
improve/          plans improved by simulation: copies, stealing, annealing, refinement
choice/           the best of several plans; explanation, drift and replanning

A name is imported on first use, so that clusters of one host import no planner of several hosts.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jmars.plan.assign.bfs_v1 import assign_bfs_v1, initial_v1
    from jmars.plan.assign.bisection import assign_bisect
    from jmars.plan.assign.contiguous import assign_runs, source_runs
    from jmars.plan.assign.earliest_finish import assign_eft
    from jmars.plan.assign.initial import assign_initial, shares
    from jmars.plan.choice.choose import choose
    from jmars.plan.choice.chosen import Choice
    from jmars.plan.choice.drift import DriftReport, Observed, drift, with_speed
    from jmars.plan.choice.explain import explain, picture
    from jmars.plan.choice.one_host import choose_order, seconds_to_plan
    from jmars.plan.choice.replan import Remaining, remaining, replan
    from jmars.plan.cost.accuracy import Accuracy
    from jmars.plan.cost.annotate import annotate, one_host, program_seconds
    from jmars.plan.cost.profile import Profile
    from jmars.plan.cost.signature import Signature, signature
    from jmars.plan.graph_statistics import GraphStatistics, neighbours, statistics
    from jmars.plan.improve.anneal import anneal
    from jmars.plan.improve.duplication import duplicate
    from jmars.plan.improve.justify import rank_justified
    from jmars.plan.improve.multilevel import refine
    from jmars.plan.improve.stealing import steal
    from jmars.plan.order.min_memory import rank_min_memory
    from jmars.plan.order.ranks import rank_b_level, rank_by, rank_depth_first, rank_level, rank_mars, rank_wave
    from jmars.plan.partition.atomic import atomic_labels, atomic_parts
    from jmars.plan.partition.depth_first import depth_first
    from jmars.plan.partition.km1 import assign_km1
    from jmars.plan.partition.merging import merge
    from jmars.plan.partition.metis import assign_metis
    from jmars.plan.partition.ncd import assign_ncd
    from jmars.plan.partition.parts import Part, as_assignment, as_labels
    from jmars.plan.plan import Plan, make_plan
    from jmars.plan.plan_graph import ANY, CPU, GPU, PlanGraph, contract, volume
    from jmars.plan.simulation.event_loop import Policy, Simulation
    from jmars.plan.simulation.follow_inputs import FollowInputs
    from jmars.plan.simulation.lower_bound import lower_bound
    from jmars.plan.simulation.predict import Prediction, predict
    from jmars.plan.simulation.sim_result import SimResult
    from jmars.plan.simulation.simulate import simulate
    from jmars.plan.simulation.waiting import waiting
    from jmars.plan.workers import UNLIMITED, Workers

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
    "assign.bfs_v1": "assign_bfs_v1 initial_v1",
    "assign.bisection": "assign_bisect",
    "assign.contiguous": "assign_runs source_runs",
    "assign.earliest_finish": "assign_eft",
    "assign.initial": "assign_initial shares",
    "choice.choose": "choose",
    "choice.chosen": "Choice",
    "choice.drift": "DriftReport Observed drift with_speed",
    "choice.explain": "explain picture",
    "choice.one_host": "choose_order seconds_to_plan",
    "choice.replan": "Remaining remaining replan",
    "cost.accuracy": "Accuracy",
    "cost.annotate": "annotate one_host program_seconds",
    "cost.profile": "Profile",
    "cost.signature": "Signature signature",
    "graph_statistics": "GraphStatistics neighbours statistics",
    "improve.anneal": "anneal",
    "improve.duplication": "duplicate",
    "improve.justify": "rank_justified",
    "improve.multilevel": "refine",
    "improve.stealing": "steal",
    "order.min_memory": "rank_min_memory",
    "order.ranks": "rank_b_level rank_by rank_depth_first rank_level rank_mars rank_wave",
    "partition.atomic": "atomic_labels atomic_parts",
    "partition.depth_first": "depth_first",
    "partition.km1": "assign_km1",
    "partition.merging": "merge",
    "partition.metis": "assign_metis",
    "partition.ncd": "assign_ncd",
    "partition.parts": "Part as_assignment as_labels",
    "plan": "Plan make_plan",
    "plan_graph": "ANY CPU GPU PlanGraph contract volume",
    "simulation.event_loop": "Policy Simulation",
    "simulation.follow_inputs": "FollowInputs",
    "simulation.lower_bound": "lower_bound",
    "simulation.predict": "Prediction predict",
    "simulation.sim_result": "SimResult",
    "simulation.simulate": "simulate",
    "simulation.waiting": "waiting",
    "workers": "UNLIMITED Workers",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return found
