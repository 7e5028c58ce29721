"""Views of clusters, jobs and plans in plain cells: `cluster` or `job` as the last line, and bars of cells that wait.

`jmars.client.notebook_views` loads this file in a Jupyter kernel, on first use.
"""

from __future__ import annotations

from typing import Any

from IPython.display import display

from jmars.client.cluster import Cluster
from jmars.client.job import Job
from jmars.client.plans.advice import Improvement
from jmars.notebook.cluster_panel import ClusterPanel
from jmars.notebook.job_view import show_job
from jmars.notebook.plan_panel import explore, show_improvement
from jmars.notebook.progress_bar import wait_with_bar

__all__ = ["explore", "show", "wait_with_bar"]

_panels: dict[str, ClusterPanel] = {}  # by the cluster's id, as long as the cluster is there


def show(what: Any) -> None:
    """Shows a cluster or a job in the running cell.

    Raises
    ------
    NotImplementedError
        For what has no view, so that IPython shows its text.
    """
    if isinstance(what, Cluster) and not what.closed:
        for gone in [name for name, panel in _panels.items() if panel.over and name != what.id]:
            del _panels[gone]
        if what.id in _panels:
            _panels[what.id].follow(what)  # the widgets that are shown already go on, by the newest connection
        else:
            _panels[what.id] = ClusterPanel(what)
        _display(_panels[what.id].widget, repr(what))
    elif isinstance(what, Improvement):
        _display(show_improvement(what), repr(what))
    elif isinstance(what, Job):
        try:
            show_job(what)
        except FileNotFoundError as error:  # the front end was not built
            raise NotImplementedError from error
    else:
        raise NotImplementedError


def _display(widget: Any, text: str) -> None:
    """Displays a widget, with `text` for pages without widgets."""
    display(widget._repr_mimebundle_() | {"text/plain": text}, raw=True)  # type: ignore[no-untyped-call]
