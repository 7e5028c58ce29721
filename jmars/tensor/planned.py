"""`plan` and `visualize` of a tensor: the predicted cost and the graph of a run, without the run."""

from __future__ import annotations

from typing import Any

from jmars.tensor.engine import get_engine

__all__ = ["Planned"]


class Planned:
    """Base class of `Tensor`."""

    __slots__ = ()

    def plan(self: Any, policy: str | None = None) -> Any:
        """Predict the cost of computing the tensor, as a `jmars.client.plans.PlannedRun`; starts nothing.

        Parameters
        ----------
        policy
            Name of a planning policy, as for `PlannedRun.what_if`; None: the one in the settings.
        """
        return get_engine().plan([self.data], policy=policy)

    def visualize(self, path: str | None = None, *, fusion: str = "both", colour: str = "kind") -> Any:
        """Draw the graph of the tensor before and after fusion; starts nothing, and notebooks show the result.

        Parameters
        ----------
        path
            File to write: .svg, .png, .pdf, or .dot for Graphviz's text; None for none.
        fusion
            "before", "after" or "both".
        colour
            Of the operands after fusion: by "kind" or by predicted "seconds". Graphs of more than 300 operands are
            drawn by layers.

        Raises
        ------
        JmarsError
            If Graphviz is not installed (`pip install "jmars[reports]"`, and the program `dot`).
        """
        return self.plan().visualize(path, fusion=fusion, colour=colour)
