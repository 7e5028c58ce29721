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
"""

from jmars.plan.assign.bfs_v1 import assign_bfs_v1, initial_v1
from jmars.plan.assign.bisection import assign_bisect
from jmars.plan.assign.contiguous import assign_runs, source_runs
from jmars.plan.assign.earliest_finish import assign_eft
from jmars.plan.assign.initial import assign_initial, shares
from jmars.plan.choice.choose import Choice, choose
from jmars.plan.choice.drift import DriftReport, Observed, drift, with_speed
from jmars.plan.choice.explain import explain, picture
from jmars.plan.choice.one_host import choose_order, seconds_to_plan
from jmars.plan.choice.replan import Remaining, remaining, replan
from jmars.plan.cost.accuracy import Accuracy
from jmars.plan.cost.annotate import annotate, one_host, program_seconds
from jmars.plan.cost.profile import Profile
from jmars.plan.cost.signature import Signature, signature
from jmars.plan.graph_statistics import GraphStatistics, neighbours, statistics
from jmars.plan.improve import anneal, duplicate, refine, steal
from jmars.plan.improve.justify import rank_justified
from jmars.plan.order.min_memory import rank_min_memory
from jmars.plan.order.ranks import rank_b_level, rank_by, rank_depth_first, rank_level, rank_mars, rank_wave
from jmars.plan.partition import assign_km1, assign_metis, assign_ncd
from jmars.plan.partition.atomic import atomic_labels, atomic_parts
from jmars.plan.partition.depth_first import depth_first
from jmars.plan.partition.merging import merge
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
