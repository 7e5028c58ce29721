"""Plans before a run: predicts its cost, and finds changes that would cost less.

- plan_request.py     the request of a plan: tensors and settings, and the graph that would run
- rechunk_sources.py  makes the same tensors from larger or smaller chunks
- machines.py         machines for a what-if
- named_policies.py   ways to plan, by name
- plan_json.py        tasks and machines of a plan as JSON
- fitting_chunks.py   chunk sizes that fit in memory, for the error of a refused job
- advice.py           changes that help, found by simulation
- peak_interval.py    peak memory of a run as an interval
- improvement.py      a search for a better plan, at once or beside other work (Improvement)
- planned_run.py      PlannedRun: a planned run that has not begun
- plan_text.py        a plan as text
- graph_layout.py     places the boxes of a graph
- plan_svg.py         pictures of a plan
- plan_drawing.py     the graph of a plan, drawn by Graphviz
- plan_html.py        a plan as HTML

This folder imports the compiler and the planners, which take longer to import than all the rest of the client, so
clients import it only for a plan.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jmars.client.plans.fitting_chunks import suggest_chunk_sizes
    from jmars.client.plans.named_policies import policy_names
    from jmars.client.plans.planned_run import PlannedRun, plan_for

__all__ = ["PlannedRun", "plan_for", "policy_names", "suggest_chunk_sizes"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jmars.client.plans import fitting_chunks, named_policies, planned_run

    return getattr({"policy_names": named_policies, "suggest_chunk_sizes": fitting_chunks}.get(name, planned_run), name)
