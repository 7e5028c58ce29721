"""Before a run: what it will cost, what would cost less, and why.

- question.py  what is asked: tensors and settings, and the graph that would run
- recut.py     the same tensors from larger or smaller chunks
- machines.py  machines that are not there
- policies.py  the ways to plan, by name
- exchange.py  both graphs as JSON
- fitting_chunks.py  chunks that fit, or why none do, for the error of a job that was refused
- advice.py    changes that gain, found by simulating them
- interval.py  the most bytes that a run may hold
- planned.py   PlannedRun: a run that is planned and not begun
- words.py     a plan in words
- layered.py   where the boxes of a graph stand
- drawings.py  a plan as pictures
- page.py      a plan as HTML

It needs the compiler and the planners, which take longer to import than all the rest of the client: nothing of it is
imported before a plan is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jmars.client.plans.fitting_chunks import what_fits
    from jmars.client.plans.planned import PlannedRun, plan_for
    from jmars.client.plans.policies import policy_names

__all__ = ["PlannedRun", "plan_for", "policy_names", "what_fits"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jmars.client.plans import fitting_chunks, planned, policies

    return getattr({"policy_names": policies, "what_fits": fitting_chunks}.get(name, planned), name)
