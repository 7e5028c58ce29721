"""A simulated run as events: what a cluster would write, in virtual time, for looking at the view and testing it.

`python -m tests.browser.simulated` is no test; `look.py` beside it takes screenshots from these.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jmars.model.status import OperandState as S
from tests.notebook.events_for_tests import u32

LINES = {
    "rand a": (1, "a = np.random.rand(8000, 8000)"),
    "rand b": (2, "b = np.random.rand(8000, 8000)"),
    "add": (3, "c = a + b"),
    "multiply": (3, "c = (a + b) * 2"),
    "sqrt": (4, "d = np.sqrt(c) - 1"),
    "subtract": (4, "d = np.sqrt(c) - 1"),
    "rechunk": (5, "e = d.rechunk((8000, 500))"),
    "exp": (6, "f = np.exp(e)"),
    "sum": (7, "f.sum()"),
}
CELL = (*dict(LINES.values()).values(), "", "# the mean is for the next cell")  # its text


@dataclass
class Run:
    """Numbers events of one job in virtual time (seconds since the epoch)."""

    job: str = "job-1"
    start: float = 1_800_000_000.0
    events: list[list[Any]] = field(default_factory=list)
    t: float = 0.0

    def add(self, kind: str, job: str | None = None, /, **data: Any) -> None:
        self.events.append([len(self.events) + 1, self.start + self.t, kind, self.job if job is None else job, data])


def simulate(
    width: int = 32,
    n_workers: int = 4,
    seconds: float = 8.0,
    cancel_at: float | None = None,
    fail_at: float | None = None,
    job: str = "job-1",
    name: str = "e = (a + b) * 2 …",
    start: float = 1_800_000_000.0,
    seed: int = 0,
) -> list[list[Any]]:
    """Events of elementwise chains over `width` chunks, a four-way shuffle and a tree sum, with spill."""
    rng = random.Random(seed)
    run = Run(job, start)
    graph, edges, size = _graph(width, n_workers)
    n = graph["n_after"]
    run.add("JobSubmitted", name=name)
    run.add("JobMoved", state="preparing", error=None, elapsed=0.0)
    for i in range(n_workers):
        run.add("WorkerMoved", "", worker=i, name=f"worker-{i}", pid=41000 + i, state="idle")
    run.t = 0.05
    run.add("GraphBuilt", **graph, stage_number=1, predicted=_predicted(seconds, sum(size)))
    run.add("JobMoved", state="running", error=None, elapsed=0.05)
    users: list[list[int]] = [[] for _ in range(n)]
    inputs: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        users[a].append(b)
        inputs[b].append(a)
    missing = [len(deps) for deps in inputs]
    left = [len(deps) for deps in users]
    assigned = np.frombuffer(graph["assigned"], "<i2")
    state = [S.UNSCHEDULED] * n
    owner = [int(w) if w >= 0 else rng.randrange(n_workers) for w in assigned]
    used = spilled = spilled_total = reloaded = peak = 0
    limit = sum(size) // 6
    done = [0] * n_workers
    running: list[tuple[float, int]] = []
    ended = [0.0] * n_workers  # when each worker's last operand did
    busy = [0] * n_workers
    program, ran = np.frombuffer(graph["after_group"], "<u4").tolist(), set()

    def move(ids: list[int], to: S, worker: int = -1) -> None:
        for i in ids:
            state[i] = to
        run.add("OperandsMoved", state=int(to), ids=u32(ids), worker=worker)

    def memory() -> None:
        nonlocal peak
        resident = used + n_workers * 90 * 2**20
        peak = max(peak, resident)
        workers = [
            {
                "name": f"worker-{i}",
                "pid": 41000 + i,
                "pss": 90 * 2**20 + used // n_workers,
                "running": busy[i],
                "done": done[i],
            }
            | {"bytes": used // n_workers}
            for i in range(n_workers)
        ]
        facts = {"used": used, "resident": resident, "spilled": spilled, "spilled_total": spilled_total}
        run.add(
            "MemoryChanged",
            "",
            **facts,
            reloaded_total=reloaded,
            limit=limit + n_workers * 90 * 2**20,
            peak=peak,
            workers=workers,
        )

    ready = [i for i in range(n) if missing[i] == 0]
    move(ready, S.READY)
    per = seconds * n_workers * 2 / n
    while ready or running:
        if run.t >= min(at for at in (cancel_at, fail_at, math.inf) if at is not None):
            break
        while ready and any(b < 2 for b in busy):
            i = ready.pop(0)
            w = owner[i] if busy[owner[i]] < 2 else busy.index(min(busy))
            owner[i] = w
            busy[w] += 1
            back = [a for a in inputs[i] if state[a] == S.SPILLED]
            for a in back:
                spilled, used, reloaded = spilled - size[a], used + size[a], reloaded + size[a]
                move([a], S.FINISHED, owner[a])
            move([i], S.RUNNING, w)
            heapq.heappush(running, (run.t + per * (0.5 + rng.random()), i))
        run.t, i = heapq.heappop(running)
        busy[owner[i]] -= 1
        done[owner[i]] += 1
        took = run.t - max(ended[owner[i]], run.t - per * 1.5)
        ended[owner[i]] = run.t
        shares = [took * one for one in (0.3 * (used > limit / 2), 0.15 * bool(spilled), 0.85, 0.06)]
        timed = [u32([int(1e6 * one)]) for one in shares]
        backends = [[program[i], "numexpr"]] if program[i] not in ran else []
        ran.add(program[i])
        run.add("OperandsTimed", ids=u32([i]), worker=owner[i], microseconds=timed, backends=backends)
        used += size[i]
        move([i], S.FINISHED, owner[i])
        for a in inputs[i]:
            left[a] -= 1
            if left[a] == 0:
                if state[a] == S.SPILLED:
                    spilled -= size[a]
                else:
                    used -= size[a]
                move([a], S.FREED)
        for j in range(n):
            if used <= limit:
                break
            if state[j] == S.FINISHED and j != i:
                used, spilled, spilled_total = used - size[j], spilled + size[j], spilled_total + size[j]
                move([j], S.SPILLED, owner[j])
        fresh = []
        for b in users[i]:
            missing[b] -= 1
            if missing[b] == 0:
                owner[b] = owner[i]
                fresh.append(b)
        if fresh:
            move(fresh, S.READY)
            ready = sorted(fresh) + ready
        memory()
    if cancel_at is not None:
        run.add("JobMoved", state="cancelling", error=None, elapsed=run.t)
        move([i for i in range(n) if state[i] == S.RUNNING], S.CANCELLING)
        move([i for i in range(n) if state[i] in (S.UNSCHEDULED, S.READY)], S.CANCELLED)
        run.t += 0.3
        move([i for i in range(n) if state[i] == S.CANCELLING], S.CANCELLED)
        run.add("JobMoved", state="cancelled", error=None, elapsed=run.t)
    elif fail_at is not None:
        first = running[0][1]
        move([first], S.FATAL, owner[first])
        move([i for i in range(n) if state[i] in (S.UNSCHEDULED, S.READY)], S.CANCELLED)
        text = "FloatingPointError in exp, line 6 of the cell:\n    f = np.exp(e)\noverflow; use a larger dtype"
        run.add("JobMoved", state="failed", error=text, elapsed=run.t)
    else:
        measured = {"makespan": run.t - 0.05, "peak": peak, "spilled": spilled_total, "moved": 0}
        run.add("JobMoved", state="succeeded", error=None, elapsed=run.t, measured=measured)
    memory()
    return run.events


def _predicted(seconds: float, total: int) -> dict[str, Any]:
    """What a plan would have said of the run."""
    names = ("eft 3, dfs", "halves, blevel", "eft 5 by wave, blevel, justified", "runs of sources, eft 3, dfs", "runs")
    tried = [[name, seconds * (1 + k / 7), total // (6 - k % 3), total // (9 - k), 0] for k, name in enumerate(names)]
    peak = [total // 7, total // 5]
    told = {"makespan": seconds, "peak": peak, "spilled": total // 9, "moved": 0, "lower_bound": 0.9 * seconds}
    return told | {"chosen": names[0], "tried": tried}


def _graph(width: int, n_workers: int) -> tuple[dict[str, Any], list[tuple[int, int]], list[int]]:
    """The `GraphBuilt` data of the run, its edges after fusion and the bytes of each operand's output."""
    names = list(LINES)
    stage: list[int] = []
    src: list[int] = []
    dst: list[int] = []

    def layer(name: str, inputs: list[list[int]]) -> list[int]:
        ids = []
        for deps in inputs:
            ids.append(len(stage))
            stage.append(names.index(name))
            for a in deps:
                src.append(a)
                dst.append(ids[-1])
        return ids

    a = layer("rand a", [[]] * width)
    b = layer("rand b", [[]] * width)
    rows = layer("add", [[x, y] for x, y in zip(a, b)])
    for name in ("multiply", "sqrt", "subtract"):
        rows = layer(name, [[x] for x in rows])
    rows = layer("rechunk", [rows[i - i % 4 : i - i % 4 + 4] for i in range(width)])
    rows = layer("exp", [[x] for x in rows])
    while len(rows) > 1:
        rows = layer("sum", [rows[i : i + 4] for i in range(0, len(rows), 4)])
    n = len(stage)
    out, inn = [0] * n, [0] * n
    for x, y in zip(src, dst):
        out[x] += 1
        inn[y] += 1
    head = list(range(n))
    for x, y in zip(src, dst):
        if out[x] == 1 and inn[y] == 1:
            head[y] = head[x]  # edges come in order of creation, so the head of x is final
    ids = {h: k for k, h in enumerate(dict.fromkeys(head))}
    group = [ids[h] for h in head]
    labels: list[str] = [""] * len(ids)
    for i, k in enumerate(group):
        labels[k] = f"{labels[k]}+{names[stage[i]]}".lstrip("+")
    edges = sorted({(group[x], group[y]) for x, y in zip(src, dst) if group[x] != group[y]})
    kinds = list(dict.fromkeys(labels))
    kind = [kinds.index(label) for label in labels]
    drawn = n <= 1500
    sizes = [16 * 2**20 if "sum" not in label else 8 for label in labels]
    first = (
        [k for k in range(len(ids)) if not any(b == k for _, b in edges)] if len(ids) < 3000 else list(range(2 * width))
    )
    assigned = np.full(len(ids), -1)
    assigned[first] = np.arange(len(first)) * n_workers // len(first)
    data = {
        "stages": [[name, "<cell>", *LINES[name], stage.count(i)] for i, name in enumerate(names)],
        "n_before": n,
        "n_after": len(ids),
        "workers": [f"worker-{i}" for i in range(n_workers)],
        "before_src": u32(src) if drawn else b"",
        "before_dst": u32(dst) if drawn else b"",
        "before_stage": u32(stage),
        "group": u32(group) if drawn else b"",
        "before_group": u32(group),
        "after_src": u32([x for x, _ in edges]) if drawn else b"",
        "after_dst": u32([y for _, y in edges]) if drawn else b"",
        "after_labels": labels if drawn else [],
        "after_nbytes": np.array(sizes, "<i8").tobytes(),
        "stage_edges": [list(e) for e in sorted({(stage[x], stage[y]) for x, y in zip(src, dst)})],
        "group_labels": kinds,
        "group_edges": [list(e) for e in sorted({(kind[x], kind[y]) for x, y in edges})],
        "after_group": u32(kind),
        "after_nbefore": u32(np.bincount(group)),
        "after_seconds": np.array([size / 2**26 for size in sizes], "<f4").tobytes() if drawn else b"",
        "group_program": u32(range(len(kinds))),
        "group_types": [["float64", [] if "sum" in label else [2048, 1024]] for label in kinds],
        "before_chunk": u32([k - stage.index(at) for k, at in enumerate(stage)]) if drawn else b"",
        "stage_grids": [[] if name == "sum" else [width // 4 or 1, 4] for name in names] if drawn else [],
        "assigned": assigned.astype("<i2").tobytes(),
    }
    return data, edges, sizes
