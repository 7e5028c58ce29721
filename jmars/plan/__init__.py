"""Graph to workers, decided before the run; no I/O.

statistics   depth, readers and descendants
bfs_v1       first workers as the first Mars placed them
assign       first workers of initial operands (seeds 000, 001, 003)
plan         the frozen result
graph        what a planner sees: operands with their cost, bytes and wishes
cluster      the workers as numbers: cores, speed, memory, links, disks
signature    what makes operands cost alike
roofline     what an operand should cost when nobody has seen it run
profile_file  where what was learnt is kept
costs        seconds by key and size, read from a file key by key
accuracy     how far predictions were off so far
profile      what operands cost, learnt from runs
cost         a compiled graph with its costs
calls        the inner loops of the next four and of the simulation, in C
order        ranks: depth first, longest way first, by level, Mars's
eft          each operand to the worker where it ends first
runs         a depth-first order cut into runs
bisect       halves of halves that share few bytes
min_memory   the order that holds fewest bytes
partition/   partitions by METIS and mt-KaHyPar, and cascade's distances
parts        subgraphs that one worker runs
atomic       subgraphs that can run as one process each
merge        cascade's partition by merging (seed 004)
depth_first  cascade's partition depth first, then expansion (seed 004)
outcome      what a run costs
store        memory and disk of one simulated worker
ports        the simulated network
simulation   one simulated run, event by event
simulate     what a plan would cost
justify      an order learnt from a run
policies     placing operands while the graph runs, as the seeds do
improve/     plans made better: copies, stealing, annealing, from coarse to fine
candidates   the plans that choose tries, cheap ones first
choose       several plans tried, the best taken
orders       the best order for one host
predict      what a run on this host should take
waiting      bytes times seconds that outputs wait for other workers
explain      a plan as data that a notebook draws
drift        whether a run goes as planned
replan       a plan for what is left of a run
"""

from jmars.plan.accuracy import Accuracy
from jmars.plan.assign import assign_initial, shares
from jmars.plan.atomic import atomic_labels, atomic_parts
from jmars.plan.bfs_v1 import assign_bfs_v1, initial_v1
from jmars.plan.bisect import assign_bisect
from jmars.plan.choose import Choice, choose, lower_bound
from jmars.plan.cluster import UNLIMITED, Workers
from jmars.plan.cost import annotate, one_host, program_seconds
from jmars.plan.depth_first import depth_first
from jmars.plan.drift import DriftReport, Observed, drift, with_speed
from jmars.plan.eft import assign_eft
from jmars.plan.explain import explain, picture
from jmars.plan.graph import ANY, CPU, GPU, PlanGraph, contract, volume
from jmars.plan.improve import anneal, duplicate, refine, steal
from jmars.plan.justify import rank_justified
from jmars.plan.merge import merge
from jmars.plan.min_memory import rank_min_memory
from jmars.plan.order import rank_b_level, rank_by, rank_depth_first, rank_level, rank_mars, rank_wave
from jmars.plan.orders import choose_order, seconds_to_plan
from jmars.plan.outcome import SimResult
from jmars.plan.partition import assign_km1, assign_metis, assign_ncd
from jmars.plan.parts import Part, as_assignment, as_labels
from jmars.plan.plan import Plan, make_plan
from jmars.plan.policies import FollowInputs
from jmars.plan.predict import Prediction, predict
from jmars.plan.profile import Profile
from jmars.plan.replan import Remaining, remaining, replan
from jmars.plan.runs import assign_runs, source_runs
from jmars.plan.signature import Signature, signature
from jmars.plan.simulate import simulate
from jmars.plan.simulation import Policy, Simulation
from jmars.plan.statistics import GraphStatistics, neighbours, statistics
from jmars.plan.waiting import waiting

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
