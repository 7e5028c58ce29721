"""Plans made better, each against the timeline of the whole run; for plans that are used again.

justify      an order learnt from a run
duplication  work duplicated instead of sent
stealing     idle workers take what hangs together from busy ones
anneal       small changes by chance, the best plan kept
multilevel   large groups change workers first, then smaller ones
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
