"""Explains the state of a job in a sentence, from the status of job and host.

`why` is a pure function of plain data (`model/status.py`). The sentence names the awaited operand and the user's line,
the worker, seconds, bytes, and the holder of memory, the likeliest reason first. `died` explains the end of a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jmars.model.states import TERMINAL
from jmars.model.status import GRAPHS, DeathStatus, HostStatus, JobStatus, QueueStatus, Verdict, WorkerStatus
from jmars.units import format_bytes, format_seconds

__all__ = ["died", "named", "of_cluster", "why"]

LONG = 3.0  # times as long as such operands took before, from which on that is said
GRACE = 0.5  # seconds for which a running operand may go on after a cancel
AWAKE = 1.0  # seconds from which on it is told that a worker sleeps
SLOW_DISK = 2.0  # seconds without a sign of the disk, from which on it is called slow
MOST_REFUSED = 5  # programs that GPUs could not run, which are told one by one
RECENT = 300.0  # seconds for which the end of a worker is told
_DOWN = {  # what the system says of a process that does not run
    "stopped": "is stopped (by SIGSTOP)",
    "held by a debugger": "is held by a debugger",
    "frozen": "is frozen (by a cgroup's freezer)",
    "is gone": "is gone",
}
_UNWELL = ("suspect", "stopped", "frozen", "fenced", "replaced")  # states of WorkerMoved that stop an operand


def named(host: HostStatus, words: Callable[[str, int], str]) -> HostStatus:
    """`host` with operands in the words of their jobs; `words(job, operand)` gives "" for unknown operands."""
    groups: tuple[Sequence[WorkerStatus | QueueStatus | DeathStatus], ...]
    groups = (host["workers"], host["line"], host["reading"], host["deaths"])
    for rows in groups:
        for row in rows:
            if row["job"] and row["operand"] >= 0:
                row["what"] = words(row["job"], row["operand"]) or row["what"]
    return host


def why(job: JobStatus, host: HostStatus) -> Verdict:
    """Why the job stands as it does, and what its GPUs could not run.

    Parameters
    ----------
    job, host
        How they stand at one moment; operands of `host` are `named`.

    Returns
    -------
    Verdict
        `kind` is done, failed, cancelled, journal, cancelling, preparing, stopped, runs, result, memory, disk, queued,
        starting, workers or unknown; `text` is one sentence.
    """
    found = _stands(job, host)
    told = "".join(f"; {one}" for one in job["refused"][:MOST_REFUSED])
    more = len(job["refused"]) - MOST_REFUSED
    return found if not told else {**found, "text": found["text"] + told + (f"; and {more} more" if more > 0 else "")}


def _stands(job: JobStatus, host: HostStatus) -> Verdict:
    if job["unreported"]:
        text = f"{_label(job)} is over, which is told as soon as it is written down: {job['unreported']}"
        return Verdict(kind="journal", text=text)
    if job["state"] in TERMINAL:
        return _ended(job, host)
    if job["state"] == "cancelling":
        return _cancelling(job, host)
    for reason in (_stopped, _preparing, _runs, _result, _disk, _memory, _queued, _starting, _unstarted):
        found = reason(job, host)
        if found is not None:
            return found
    counts = ", ".join(f"{n} {state}" for state, n in job["counts"].items() if n)
    text = f"{_label(job)} waits and nothing is known that it waits for ({counts or 'no operands'}); please report that"
    return Verdict(kind="unknown", text=text)


def of_cluster(jobs: Sequence[JobStatus], host: HostStatus) -> str:
    """Explains the states of running jobs, line by line, and the recent ends of workers."""
    lines = [why(job, host)["text"] for job in jobs if job["state"] not in TERMINAL or job["unreported"]]
    if not lines:
        last = f"; the last one: {why(jobs[-1], host)['text']}" if jobs else ""
        lines = [f"no job runs{last}"]
    lines += [died(death) for death in host["deaths"] if death["seconds"] < RECENT]
    return "\n".join(lines)


def died(death: DeathStatus) -> str:
    """Why a worker ended, in one sentence."""
    ran = f" while it ran {death['what']}" if death["what"] else ""
    memory = ""
    if death["peak"]:
        cap = f", and might take {format_bytes(death['cap'])} for itself" if death["cap"] else ""
        memory = f"; at most it had {format_bytes(death['peak'])} in memory, shared chunks counted{cap}"
    ago = format_seconds(death["seconds"])
    process = f" (pid {death['pid']})" if death["pid"] else ""
    return f"{death['worker']}{process} was {_how(death['how'])} {ago} ago{ran}{memory}"


def _how(how: str) -> str:
    return how if how.startswith(("killed", "stopped", "replaced", "ended by")) else f"lost: it {how}"


def _label(job: JobStatus) -> str:
    return job["name"] if job["name"] == job["id"] else f"{job['name']} ({job['id']})"


def _age(seconds: float) -> str:
    return f"for {format_seconds(seconds)}"


# -- jobs that have ended, or are about to


def _ended(job: JobStatus, host: HostStatus) -> Verdict:
    took = format_seconds(job["elapsed"])
    if job["state"] == "succeeded":
        return Verdict(kind="done", text=f"{_label(job)} is done: it took {took}")
    if job["state"] == "cancelled":
        return Verdict(kind="cancelled", text=f"{_label(job)} was cancelled after {took}; run it again for its result")
    where = f" in {job['line']}" if job["line"] and job["line"] not in job["error"] else ""
    mine = [death for death in host["deaths"] if death["job"] == job["id"]]
    unreported = mine and f"(pid {mine[-1]['pid']})" not in job["error"]
    tail = f"; {died(mine[-1])}" if unreported else ""
    return Verdict(kind="failed", text=f"{_label(job)} failed after {took}{where}: {job['error']}{tail}")


def _cancelling(job: JobStatus, host: HostStatus) -> Verdict:
    text = f"{_label(job)} was told to stop {format_seconds(job['since'])} ago"
    mine = [worker for worker in host["workers"] if worker["job"] == job["id"]]
    if not mine:
        return Verdict(kind="cancelling", text=f"{text} and waits for its last reports")
    row = max(mine, key=lambda one: one["seconds"])
    inside = f"{row['name']} is still inside {row['what']}"
    if row["process"] in _DOWN:
        how = f"its process {_DOWN[row['process']]}, so it is ended and another one takes its place"
    elif job["since"] < GRACE:
        how = "which stops at its next block, or is ended with its process"
    else:
        how = (
            "which does not look whether it should stop (compiled code, or a loop of its own), so its process is ended"
        )
    return Verdict(kind="cancelling", text=f"{text}; {inside}, {how}")


# -- reasons of a job that goes on, in the order in which they are looked at


def _stopped(job: JobStatus, host: HostStatus) -> Verdict | None:
    for row in host["workers"]:
        unwell = row["process"] in _DOWN or row["state"] in _UNWELL
        if not unwell or row["job"] != job["id"]:
            continue
        is_how = _DOWN.get(row["process"], f"is {row['state']}")
        go_on = f" (kill -CONT {row['pid']})" if row["process"] == "stopped" else ""
        text = (
            f"{_label(job)} waits for {row['name']} (pid {row['pid']}), which {is_how} in the middle of {row['what']}, "
            f"begun {format_seconds(row['seconds'])} ago; unless it goes on{go_on} it is replaced in some seconds and "
            "the operand runs again elsewhere"
        )
        return Verdict(kind="stopped", text=text)
    return None


def _preparing(job: JobStatus, host: HostStatus) -> Verdict | None:
    if not job["phase"] and job["state"] != "preparing":
        return None
    what = "is prepared" if job["state"] == "preparing" else "prepares its next stage"
    return Verdict(kind="preparing", text=f"{_label(job)} {what}: {job['phase'] or 'it is begun'}")


def _runs(job: JobStatus, host: HostStatus) -> Verdict | None:
    mine = [row for row in host["workers"] if row["job"] == job["id"] and row["state"] != "asks"]
    if not mine:
        return None
    row = max(mine, key=lambda one: one["seconds"])
    text = f"{_label(job)} runs: {row['what']} on {row['name']} {_age(row['seconds'])}"
    if row["usual"] and row["seconds"] > LONG * row["usual"]:
        text += f" (such operands took {format_seconds(row['usual'])} so far)"
    if row["process"] == "sleeps" and row["seconds"] > AWAKE:
        text += ", whose process sleeps: it waits for something (`sleep`, a lock, the network)"
    elif row["process"] == "waits for a disk":
        text += ", which waits for a disk or device just now"
    rest = len(mine) - 1 + sum(one["behind"] for one in mine)
    also = [f"{rest} more on their way"] if rest else []
    if host["queued"].get(job["id"]):
        also.append(f"{host['queued'][job['id']]} ready")
    if host["waiting"].get(job["id"]):
        first = next((one for one in host["line"] if one["job"] == job["id"]), None)
        lacks = f", the first of which lacks {format_bytes(first['lacks'])}" if first is not None else ""
        also.append(f"{host['waiting'][job['id']]} waiting for memory{lacks}")
    return Verdict(kind="runs", text=text + (f"; {', '.join(also)}" if also else ""))


def _result(job: JobStatus, host: HostStatus) -> Verdict | None:
    for row in host["workers"]:
        if row["job"] == job["id"] and row["state"] == "asks":
            text = (
                f"{_label(job)} waits for room for the result of {row['what']} on {row['name']}, {_holders(job, host)}"
            )
            return Verdict(kind="result", text=text)
    return None


def _disk(job: JobStatus, host: HostStatus) -> Verdict | None:
    disk = host["disk"]
    waits = host["waiting"].get(job["id"], 0)
    reading = next((one for one in host["reading"] if one["job"] == job["id"]), None)
    if not (disk["writes"] or disk["reads"]) or not (waits or reading):
        return None
    ways = ((disk["writes"], "written"), (disk["reads"], "read"))
    moves = [f"{n} chunk{'s are' if n > 1 else ' is'} being {how}" for n, how in ways if n]
    who = reading or next((one for one in host["line"] if one["job"] == job["id"]), None)
    first = f"{who['what']}, which needs {format_bytes(who['needs'])}, and " if who is not None else ""
    slow = "; the disk is slow or hangs" if disk["seconds"] > SLOW_DISK else ""
    text = (
        f"{_label(job)} waits for the disk: {first}{' and '.join(moves)} ({format_bytes(disk['nbytes'])}), "
        f"the last sign of it {format_seconds(disk['seconds'])} ago{slow}"
    )
    return Verdict(kind="disk", text=text)


def _memory(job: JobStatus, host: HostStatus) -> Verdict | None:
    if not host["waiting"].get(job["id"]) or not host["line"]:
        return None
    head = host["line"][0]
    mine = head["job"] == job["id"]
    known = mine or head["what"] == GRAPHS
    whose = "" if known else f" of {head['job']}" if head["job"] else " from this notebook"
    stands = "is first in line" if mine else "is before it in line"
    full = f"; the disk takes nothing more ({host['disk']['full']})" if host["disk"]["full"] else ""
    text = (
        f"{_label(job)} waits for memory: {head['what']}{whose} {stands}, needs {format_bytes(head['needs'])} "
        f"and lacks {format_bytes(head['lacks'])}, {_holders(job, host)}{full}"
    )
    return Verdict(kind="memory", text=text)


def _holders(job: JobStatus, host: HostStatus) -> str:
    """Holders of memory, the largest share first."""
    memory = host["memory"]
    others = sum(size for name, size in memory["jobs"].items() if name != job["id"])
    held = sum(memory["jobs"].values()) + memory["kept"] + memory["promised"] + memory["graphs"]
    shares = [
        (memory["jobs"].get(job["id"], 0), "chunks of this job"),
        (others, "chunks of other jobs"),
        (memory["kept"], "kept tensors (`del` names that are not needed)"),
        (memory["promised"], "scratch of running operands"),
        (memory["graphs"], GRAPHS),
        (memory["used"] - held, "on its way (stored, fetched or read back just now)"),
        (memory["capacity"] - memory["used"], "free"),
    ]
    parts = [f"{format_bytes(size)} {what}" for size, what in sorted(shares, reverse=True) if size > 0]
    pinned = (
        f"; {format_bytes(memory['viewed'])} of it cannot move while views or copies hold it"
        if memory["viewed"]
        else ""
    )
    return f"of {format_bytes(memory['capacity'])} there are {', '.join(parts)}{pinned}"


def _queued(job: JobStatus, host: HostStatus) -> Verdict | None:
    n = host["queued"].get(job["id"], 0)
    others = sorted({row["job"] for row in host["workers"] if row["job"] and row["job"] != job["id"]})
    if not others:
        return None
    row = max((one for one in host["workers"] if one["job"] in others), key=lambda one: one["seconds"])
    ready = f" ({n} operands are ready)" if n else ""
    text = (
        f"{_label(job)} waits for {', '.join(others)}, whose operands go first{ready}: {row['name']} runs "
        f"{row['what']} {_age(row['seconds'])}"
    )
    return Verdict(kind="queued", text=text)


def _starting(job: JobStatus, host: HostStatus) -> Verdict | None:
    starting = [row["name"] for row in host["workers"] if row["state"] == "starting"]
    if not starting:
        return None
    return Verdict(kind="starting", text=f"{_label(job)} waits for {', '.join(starting)}, which is being started")


def _unstarted(job: JobStatus, host: HostStatus) -> Verdict | None:
    """Workers of an engine: there are none, or they run tasks of other programs."""
    if not host["workers"]:
        last = f"; {died(host['deaths'][-1])}" if host["deaths"] else ""
        text = f"{_label(job)} waits for a worker: the cluster has none now, and goes on when one joins{last}"
        return Verdict(kind="workers", text=text)
    n = host["queued"].get(job["id"], 0)
    if not n:
        return None
    text = f"{_label(job)} waits for a worker: {n} operands are queued, and no worker has started one of them"
    return Verdict(kind="queued", text=text)
