"""Graph to workers, decided before the run; no I/O.

assign  first workers of initial operands (seeds 000, 001, 003)
plan    the frozen result
"""

from jmars.plan.assign import assign_initial, shares
from jmars.plan.plan import Plan, make_plan

__all__ = ["Plan", "assign_initial", "make_plan", "shares"]
