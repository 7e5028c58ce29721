"""Improves plans by simulation, for plans that are reused.

justify      ranks from the slack of a simulated run
duplication  copies of cheap operands in place of transfers
stealing     moves connected operands from busy to idle workers
anneal       simulated annealing
multilevel   moves large groups first, then smaller groups
"""

from jmars.plan.improve.anneal import MOVES, Annealed, anneal
from jmars.plan.improve.duplication import Copied, cheap_copies, duplicate, with_copies
from jmars.plan.improve.multilevel import Refined, groups_of, refine, solve_exactly
from jmars.plan.improve.stealing import steal

__all__ = [
    "MOVES",
    "Annealed",
    "Copied",
    "Refined",
    "anneal",
    "cheap_copies",
    "duplicate",
    "groups_of",
    "refine",
    "solve_exactly",
    "steal",
    "with_copies",
]
