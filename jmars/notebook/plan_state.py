"""Folds a job's events to predicted and measured costs for the view's Plan tab.

A job of several stages is predicted stage by stage, when each stage begins; the tab shows the sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jmars.notebook.view import PlanPart, RunCosts, TriedPlan, plain_text

__all__ = ["PlanState"]

_TRIED = 12  # plans that are listed
_ADVICE = 6
_REFUSED = 6  # programs that GPUs could not run, which are listed


@dataclass
class PlanState:
    """The predictions of a job.

    Examples
    --------
    >>> plan = PlanState()
    >>> for stage in (1, 2):
    ...     cost = {"makespan": 1.5, "peak": [10, 20 * stage], "spilled": 0, "moved": 0, "chosen": "dfs", "tried": []}
    ...     plan.built({"stage_number": stage, "predicted": cost | {"lower_bound": 1.0}})
    >>> plan.part()["predicted"]
    {'makespan': 3.0, 'peak': [10, 40], 'spilled': 0, 'moved': 0}
    """

    stages: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # number: predicted
    stage: int = 1  # number of the newest stage
    replans: int = 0  # times that the rest was planned anew during the run
    why: str = ""  # reason of the last such time
    refused: list[str] = field(default_factory=list)  # what GPUs could not run, and why
    measured: Mapping[str, Any] | None = None
    advice: list[tuple[str, float]] = field(default_factory=list)  # text, and share of the time that it saves

    def built(self, data: Mapping[str, Any]) -> None:
        """Notes that a stage begins."""
        self.stage = int(data.get("stage_number") or 1)
        predicted = data.get("predicted")
        if isinstance(predicted, Mapping):
            self.stages[self.stage] = predicted

    def replanned(self, data: Mapping[str, Any]) -> None:
        """Notes that the rest of the job was planned anew."""
        self.replans += 1
        self.why = plain_text(data.get("why"), 200)

    def gpu_refused(self, data: Mapping[str, Any]) -> None:
        """Notes the operands that cores run in place of a GPU."""
        if len(self.refused) < _REFUSED:
            self.refused.append(plain_text(data.get("why"), 400))

    def moved(self, data: Mapping[str, Any]) -> None:
        """Notes a new state of the job; the final state brings the measured costs."""
        measured = data.get("measured")
        if isinstance(measured, Mapping):
            self.measured = measured

    @property
    def predicted(self) -> RunCosts | None:
        """Predicted costs of all stages so far."""
        return _together([_costs(stage) for stage in self.stages.values()]) if self.stages else None

    @property
    def took(self) -> RunCosts | None:
        """Measured costs, once the job has ended."""
        return _costs(self.measured) if self.measured is not None else None

    def part(self) -> PlanPart | None:
        """The Plan tab's data; None while nothing is known."""
        if not (self.stages or self.measured is not None or self.advice or self.replans or self.refused):
            return None
        parts = list(self.stages.values())
        newest = self.stages.get(self.stage, {})
        predicted, measured = self.predicted, self.took
        told = [plain_text(text, 400) for text, share in self.advice if share > _error(predicted, measured)]
        return PlanPart(
            predicted=predicted,
            measured=measured,
            lower_bound=sum(_number(part.get("lower_bound")) for part in parts),
            chosen=plain_text(newest.get("chosen")),
            tried=[_tried(row) for row in list(newest.get("tried") or ())[:_TRIED] if len(row) >= 5],
            stage=self.stage,
            replans=self.replans,
            why=self.why,
            refused=list(self.refused),
            advice=told[:_ADVICE],
        )


def _error(predicted: RunCosts | None, measured: RunCosts | None) -> float:
    """Error of the predicted time as a share, below 1; 0 while it is not known."""
    if predicted is None or measured is None or not measured["makespan"]:
        return 0.0
    return min(0.99, abs(predicted["makespan"] - measured["makespan"]) / measured["makespan"])


def _costs(data: Mapping[str, Any]) -> RunCosts:
    """Costs of a prediction or measurement; a measured peak is an interval of one value."""
    peak = data.get("peak")
    ends = [int(_number(end)) for end in peak] if isinstance(peak, Sequence) and peak else [int(_number(peak))]
    return RunCosts(
        makespan=round(_number(data.get("makespan")), 6),
        peak=[min(ends), max(ends)],
        spilled=int(_number(data.get("spilled"))),
        moved=int(_number(data.get("moved"))),
    )


def _together(stages: Sequence[RunCosts]) -> RunCosts:
    """Sums the costs of successive stages."""
    return RunCosts(
        makespan=round(sum(one["makespan"] for one in stages), 6),
        peak=[max(one["peak"][0] for one in stages), max(one["peak"][1] for one in stages)],
        spilled=sum(one["spilled"] for one in stages),
        moved=sum(one["moved"] for one in stages),
    )


def _tried(row: Sequence[Any]) -> TriedPlan:
    name, makespan, peak, spilled, moved = row[:5]
    return TriedPlan(
        name=plain_text(name, 80),
        makespan=round(_number(makespan), 6),
        peak=int(_number(peak)),
        spilled=int(_number(spilled)),
        moved=int(_number(moved)),
    )


def _number(value: Any) -> float:
    """A number of an event, at least 0."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if 0 <= number < 1e18 else 0.0
