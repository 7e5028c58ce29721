"""Events as a cluster writes them, for the tests of what folds and draws them."""

from __future__ import annotations

from typing import Any

import numpy as np


def u32(values: Any) -> bytes:
    return np.asarray(values, "<u4").tobytes()


def graph_built(n_chunks: int = 4, n_workers: int = 2, **changes: Any) -> dict[str, Any]:
    """rand -> add -> sum over `n_chunks` chunks; rand and add fuse, a tree-less sum takes all of them."""
    n_before, n_after = 2 * n_chunks + 1, n_chunks + 1
    rand, add, total = np.arange(n_chunks), np.arange(n_chunks) + n_chunks, 2 * n_chunks
    drawn = n_before <= 1500
    edges = np.array([*zip(rand, add), *((a, total) for a in add)])
    fused = np.array([(i, n_chunks) for i in range(n_chunks)])
    group = np.concatenate([rand, rand, [n_chunks]])
    data = {
        "stages": [
            ["rand", "<cell>", 1, "a = np.random.rand(8)", n_chunks],
            ["add", "<cell>", 2, "b = a + 1", n_chunks],
            ["sum", "<cell>", 3, "b.sum()", 1],
        ],
        "n_before": n_before,
        "n_after": n_after,
        "workers": [f"worker-{i}" for i in range(n_workers)],
        "before_src": u32(edges[:, 0]) if drawn else b"",
        "before_dst": u32(edges[:, 1]) if drawn else b"",
        "before_stage": u32([0] * n_chunks + [1] * n_chunks + [2]),
        "group": u32(group) if drawn else b"",
        "before_group": u32(group),
        "after_src": u32(fused[:, 0]) if drawn else b"",
        "after_dst": u32(fused[:, 1]) if drawn else b"",
        "after_labels": ["rand+add"] * n_chunks + ["sum"] if drawn else [],
        "stage_edges": [[0, 1], [1, 2]],
        "group_labels": ["rand+add", "sum"],
        "group_edges": [[0, 1]],
        "after_group": u32([0] * n_chunks + [1]),
        "after_nbefore": u32([2] * n_chunks + [1]),
        "assigned": np.array([i % n_workers for i in range(n_chunks)] + [-1], "<i2").tobytes(),
    }
    return data | changes


class Log:
    """Numbers events as the event log does."""

    def __init__(self, job: str = "job-1", start: float = 1000.0) -> None:
        self.job, self.time, self.events = job, start, []

    def add(self, kind: str, after: float = 0.0, job: str | None = None, /, **data: Any) -> Log:
        self.time += after
        self.events.append([len(self.events) + 1, self.time, kind, self.job if job is None else job, data])
        return self

    def moved(self, state: int, ids: Any, worker: int = -1, after: float = 0.1) -> Log:
        return self.add("OperandsMoved", after, state=state, ids=u32(ids), worker=worker)

    def memory(self, used: int, resident: int, spilled: int = 0, after: float = 0.1) -> Log:
        workers = [
            {"name": f"worker-{i}", "pid": 100 + i, "pss": 2**20, "running": 0, "done": 0, "bytes": 0} for i in (0, 1)
        ]
        data = {"spilled_total": spilled, "reloaded_total": 0, "limit": 2**30, "peak": resident, "workers": workers}
        return self.add("MemoryChanged", after, "", used=used, resident=resident, spilled=spilled, **data)


def started(n_chunks: int = 4) -> Log:
    """A submitted job whose graph is built."""
    log = Log().add("JobSubmitted", name="cell 1").add("JobMoved", 0.1, state="running", error=None, elapsed=0.1)
    return log.add("GraphBuilt", 0.1, **graph_built(n_chunks))
