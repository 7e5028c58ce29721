"""Plans before a run: predicts its cost, and finds changes that would cost less.

- plan_request.py     the request of a plan: tensors and settings, and the graph that would run
- named_policies.py   ways to plan, by name
- advice.py           changes that help, found by simulation
- planned_run.py      PlannedRun: a planned run that has not begun, with its peak memory
- plan_text.py        a plan as text
- plan_html.py        a plan as HTML

This folder imports the compiler and the planners, which take longer to import than all the rest of the client, so
clients import it only for a plan.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jmars.client.plans.named_policies import policy_names
    from jmars.client.plans.plan_request import suggest_chunk_sizes
    from jmars.client.plans.planned_run import PlannedRun, plan_for

__all__ = ["PlannedRun", "plan_for", "policy_names", "suggest_chunk_sizes"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jmars.client.plans import named_policies, plan_request, planned_run

    return getattr({"policy_names": named_policies, "suggest_chunk_sizes": plan_request}.get(name, planned_run), name)
