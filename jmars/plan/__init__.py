"""Graph to workers, decided before the run; no I/O.

assign      first workers of initial operands (seeds 000, 001, 003)
plan        the frozen result
graph       what a planner sees: operands with their cost, bytes and wishes
cluster     the workers as numbers: cores, speed, memory, links, disks
order       ranks: depth first, longest way first, by level, Mars's
eft         each operand to the worker where it ends first
outcome     what a run costs
store       memory and disk of one simulated worker
ports       the simulated network
simulation  one simulated run, event by event
simulate    what a plan would cost
"""

from jmars.plan.assign import assign_initial, shares
from jmars.plan.cluster import UNLIMITED, Workers
from jmars.plan.eft import assign_eft
from jmars.plan.graph import ANY, CPU, GPU, PlanGraph, contract, volume
from jmars.plan.order import rank_b_level, rank_by, rank_depth_first, rank_level, rank_mars
from jmars.plan.outcome import SimResult
from jmars.plan.plan import Plan, make_plan
from jmars.plan.simulate import simulate
from jmars.plan.simulation import Policy, Simulation

__all__ = [
    "ANY",
    "CPU",
    "GPU",
    "UNLIMITED",
    "Plan",
    "PlanGraph",
    "Policy",
    "SimResult",
    "Simulation",
    "Workers",
    "assign_eft",
    "assign_initial",
    "contract",
    "make_plan",
    "rank_b_level",
    "rank_by",
    "rank_depth_first",
    "rank_level",
    "rank_mars",
    "shares",
    "simulate",
    "volume",
]
