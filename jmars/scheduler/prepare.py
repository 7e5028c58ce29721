"""A submitted graph made ready to run: compiled, planned, and laid out as the lists that workers read.

`prepare` runs in a thread and touches nothing but its arguments; GraphActor opens what it gives. A job of several
stages prepares each of them. Source: seed 003, "准备执行图" and "初始 Worker 分配".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np

from jmars.flow import FlowGraph
from jmars.model.messages import JobTable
from jmars.optimize import Compiled, compile_graph
from jmars.plan import Plan, make_plan
from jmars.scheduler.picture import graph_built
from jmars.tensor.graph import TensorGraph
from jmars.tensor.source_line import SourceLine

__all__ = ["Prepared", "prepare", "prepare_graph"]

_NEVER = 1 << 62  # rank of a use that lies beyond the job


@dataclass(frozen=True)
class Prepared:
    """A graph that can be opened on the workers."""

    compiled: Compiled
    plan: Plan
    flow: FlowGraph
    picture: dict[str, Any]  # the data of its GraphBuilt event
    last_use: list[int]  # rank of the last operand that reads each chunk
    kept: int  # bytes of results that are computed

    def table(self, job: str, number: int, base: int) -> JobTable:
        """What workers must know of it; the chunks of stored operands are still to be named in `chunk`."""
        after = self.compiled.after
        return JobTable(
            job=job,
            number=number,
            programs=after.programs,
            program=after.program.tolist(),
            inputs=self.flow.preds,
            args=after.args,
            base=base,
            chunk=list(range(base, base + after.n)),
            nbytes=after.nbytes.tolist(),
            work=after.work.tolist(),
            rank=self.plan.rank.tolist(),
            kept=self.kept,
            last_use=self.last_use,
        )

    def blame(self, operand: int) -> tuple[str, SourceLine | None]:
        """An operand in words, for errors, and the line that asked for it.

        Of fused operands the one that calls a function is to blame, the others hardly raise; else the last.
        """
        before, after = self.compiled.before, self.compiled.after
        name = after.programs[after.program[operand]].name if after.program[operand] >= 0 else "a stored chunk"
        members = np.flatnonzero(self.compiled.group == operand).tolist()
        calls = [m for m in members if before.program[m] >= 0 and before.programs[before.program[m]].calls]
        stage = before.stage[(calls[:1] or members[-1:])[0]] if members else after.stage[operand]
        line = (before if members else after).stages[stage].line
        return f"operand {name}" + (f" of line {line.lineno} ({line.text.strip()})" if line is not None else ""), line


def prepare(blob: bytes, settings: Mapping[str, Any], workers: Sequence[str], check: Callable[[], None]) -> Prepared:
    """Compile and plan.

    Parameters
    ----------
    blob
        A pickled TensorGraph; unpickling runs code of users, which may raise anything.
    settings
        Seed 000's task configuration.
    workers
        Names of the workers, by index.
    check
        Called between steps; may raise to stop (a cancelled job).
    """
    return prepare_graph(cloudpickle.loads(blob), settings, workers, check)


def prepare_graph(
    graph: TensorGraph, settings: Mapping[str, Any], workers: Sequence[str], check: Callable[[], None]
) -> Prepared:
    """`prepare` for a graph that is unpickled, as a stage's is."""
    compiled = compile_graph(graph, settings, check)
    after = compiled.after
    check()
    stored = after.program < 0
    plan = make_plan(compiled.dag, compiled.rank, [1] * len(workers), stored, settings.get("assigner", "bfs"))
    check()
    kept = np.unique(np.concatenate([np.zeros(0, np.int64), *(ids.ravel() for ids in after.results.values())]))
    flow = FlowGraph(plan.dag, given=np.flatnonzero(stored), kept=kept)
    _ = flow.succs, flow.preds  # built here, in the thread, not when first used
    picture = graph_built(compiled, plan, workers)
    known = ~stored & ~after.unsized  # a bound may be far off, and is not refused for
    size = int(after.nbytes[kept[known[kept]]].sum())
    return Prepared(compiled, plan, flow, picture, _last_use(compiled, plan, kept), size)


def _last_use(compiled: Compiled, plan: Plan, kept: Any) -> list[int]:
    """Rank of the last operand that reads each chunk; results are used beyond the job."""
    after = compiled.after
    users = np.repeat(np.arange(after.n), np.diff(after.input_ptr))
    last = np.full(after.n, -1, np.int64)
    np.maximum.at(last, after.input_idx, plan.rank[users])
    last[kept] = _NEVER
    ranks: list[int] = last.tolist()
    return ranks
