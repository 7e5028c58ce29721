"""TaskManagerActor: jobs as tasks of tileables and subtasks, as Mars shows them, as plain data.

A task is a job, a tileable a tensor operand, a subtask a running operand on chunks. Of several stages the
newest is shown. Source: docs/explanation/seeds.md, "APIs"; Mars `services/task/api/core.py`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.actors import remote_method
from jmars.errors import UnknownTaskError
from jmars.model import events
from jmars.model.status import OperandState as S
from jmars.scheduler.graph_actor import GraphActor
from jmars.scheduler.session_actor import SessionActor

PENDING, RUNNING, SUCCEEDED, ERRORED, CANCELLED = range(5)  # a subtask
STATUS = {
    S.UNSCHEDULED: PENDING, S.READY: PENDING, S.RUNNING: RUNNING, S.CANCELLING: RUNNING, S.FINISHED: SUCCEEDED,
    S.FREED: SUCCEEDED, S.SPILLED: SUCCEEDED, S.CANCELLED: CANCELLED, S.FATAL: ERRORED,
}  # fmt: skip


class TaskManagerActor:
    """Answers for the jobs of a session; unknown ids raise UnknownTaskError."""

    def __init__(self, session: SessionActor) -> None:
        self._session = session

    @remote_method
    async def results(self) -> list[dict[str, Any]]:
        """`result` of all remembered jobs, oldest first."""
        return [await self.result(job["id"]) for job in await self._session.jobs()]

    @remote_method
    async def result(self, task: str) -> dict[str, Any]:
        """How a job stands."""
        graph = self._session.graph(task)
        return {
            "id": task,
            "state": str(graph.state),
            "started": time.time() - (time.monotonic() - graph.submitted),
            "elapsed": graph.elapsed,
            "progress": graph.progress,
            "error": graph.error,
        }

    @remote_method
    async def wait(self, task: str, timeout: float | None = None) -> dict[str, Any]:
        """`result`, once the job has ended or `timeout` seconds have passed."""
        await self._session.wait(task, timeout)
        return await self.result(task)

    @remote_method
    async def last_idle_time(self) -> float | None:
        """Seconds since the epoch of the end of the last job, or the cluster's begin; None while a job runs."""
        return self._session.idle_since

    @remote_method
    async def tileable_graph(self, task: str) -> dict[str, Any]:
        """Tensor operands and their edges."""
        picture, _ = self._shown(task)
        return {
            "tileables": [{"tileableId": str(k), "tileableName": s[0]} for k, s in enumerate(picture["stages"])],
            "dependencies": [
                {"fromTileableId": str(a), "toTileableId": str(b), "linkType": 0} for a, b in picture["stage_edges"]
            ],
        }

    @remote_method
    async def tileable_details(self, task: str) -> dict[str, Any]:
        """Number of operands on chunks, number of done operands, and line, by tensor operand."""
        picture, states = self._shown(task)
        rows = _rows(picture)
        found: dict[str, Any] = {}
        for number, (_, filename, lineno, text, _) in enumerate(picture["stages"]):
            statuses = [STATUS[S(state)] for state in states[rows[number]].tolist()]
            found[str(number)] = {
                "progress": statuses.count(SUCCEEDED) / len(statuses) if statuses else 1.0,
                "subtaskCount": len(statuses),
                "status": _together(statuses),
                "properties": {"file": filename, "line": lineno, "text": text},
            }
        return found

    @remote_method
    async def tileable_subtasks(self, task: str, tileable: str, with_input_output: bool) -> dict[str, Any]:
        """The operands on chunks of one tensor operand, and edges among them.

        With `with_input_output` also their direct inputs and readers. Edges are known of graphs up to 1,500 operands.
        """
        picture, states = self._shown(task)
        rows = _rows(picture)
        if not tileable.isdecimal() or int(tileable) >= len(rows):
            raise UnknownTaskError(f"{task} has no tileable {tileable!r}; it has {len(rows)}, numbered from 0")
        own = set(rows[int(tileable)].tolist())
        edges = list(zip(_u4(picture["after_src"]).tolist(), _u4(picture["after_dst"]).tolist()))
        kinds = dict.fromkeys(own, "Calculation")
        if with_input_output:
            kinds |= {a: "Input" for a, b in edges if b in own and a not in own}
            kinds |= {b: "Output" for a, b in edges if a in own and b not in own}
        labels, groups = picture["group_labels"], _u4(picture["after_group"]).tolist()
        return {
            "subtasks": [
                {
                    "subtaskId": str(row),
                    "subtaskName": labels[groups[row]],
                    "status": STATUS[S(int(states[row]))],
                    "progress": float(STATUS[S(int(states[row]))] == SUCCEEDED),
                    "nodeType": kinds[row],
                }
                for row in sorted(kinds)
            ],
            "dependencies": [
                {"fromSubtaskId": str(a), "toSubtaskId": str(b), "linkType": 0}
                for a, b in edges
                if a in kinds and b in kinds and (a in own or b in own)
            ],
        }

    def _shown(self, task: str) -> tuple[dict[str, Any], NDArray[np.uint8]]:
        """The picture of a job's newest stage and its operands' states."""
        graph: GraphActor = self._session.graph(task)
        picture: dict[str, Any] | None = None
        states = np.zeros(0, np.uint8)
        for kind, _, data in graph.standing():
            if kind == events.GRAPH_BUILT:
                picture, states = data, np.zeros(data["n_after"], np.uint8)
            elif kind == events.OPERANDS_MOVED:
                states[np.frombuffer(data["ids"], "<u4")] = data["state"]
        if picture is None:
            raise UnknownTaskError(
                f"the graph of {task} is not there: it is being prepared, or the job ended long ago and is forgotten"
            )
        return picture, states


def _rows(picture: dict[str, Any]) -> list[NDArray[np.int64]]:
    """Rows of operands by tensor operand; a fused row belongs to the tensor operands of all members."""
    stage, row = _u4(picture["before_stage"]), _u4(picture["before_group"])
    kept = row != 0xFFFFFFFF  # others were pruned
    stage, row = stage[kept], row[kept]
    return [np.unique(row[stage == number]).astype(np.int64) for number in range(len(picture["stages"]))]


def _together(statuses: list[int]) -> int:
    """Status of a tensor operand from the states of its operands."""
    for one in (ERRORED, CANCELLED, RUNNING):
        if one in statuses:
            return one
    done = statuses.count(SUCCEEDED)
    return SUCCEEDED if done == len(statuses) else RUNNING if done else PENDING


def _u4(values: bytes) -> NDArray[Any]:
    return np.frombuffer(values, "<u4")
