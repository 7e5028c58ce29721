"""Explains the state of a job in a sentence, from the status of job and host.

`why` is a pure function of plain data (`model/status.py`). The sentence names the awaited operand and the user's line,
the worker, seconds, bytes, and the holder of memory, the likeliest reason first. `died` explains the end of a worker.

WhyActor: gathers the facts about jobs for `why`, and logs jobs that do not move.

The host sends its status (`worker/host_status.py`), since scheduler and host may be two processes; operands get the
words of their jobs here. `deploy/head.py` asks, for clients and for the watchdog.

Watchdog: decides when to report jobs that do not move, before the user asks, and neither at once nor all the time.

`Watchdog` takes the jobs' pulses now and then; `look` returns jobs that have stood still long enough for their user to
hear why, and reported jobs that move again. The caller gives the time.

The executable graph of an operand: Fetch operands for the inputs, and the operand itself.

Source: docs/explanation/seeds.md, "Execution control"; Mars `scheduler/graph.py`, `get_executable_operand_dag`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jmars.actors import remote_method
from jmars.errors import UnknownTaskError
from jmars.kernels import executable
from jmars.model import events
from jmars.model.status import GRAPHS, TERMINAL, DeathStatus, HostStatus, JobStatus, QueueStatus, Verdict, WorkerStatus
from jmars.scheduler.graph_actor import GraphActor
from jmars.scheduler.prepare import Ready
from jmars.scheduler.session_actor import SessionActor
from jmars.units import format_bytes, format_seconds

LONG = 3.0  # times as long as such operands took before, from which on that is said
GRACE = 0.5  # seconds for which a running operand may go on after a cancel
AWAKE = 1.0  # seconds from which on it is told that a worker sleeps
SLOW_DISK = 2.0  # seconds without a sign of the disk, from which on it is called slow
REFUSED_TOLD = 5  # programs that GPUs could not run, which are told one by one
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
    told = "".join(f"; {one}" for one in job["refused"][:REFUSED_TOLD])
    more = len(job["refused"]) - REFUSED_TOLD
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


_MOVING = ("preparing", "running", "cancelling")


class WhyActor:
    """Explains the state of jobs; changes none.

    Parameters
    ----------
    session
        Their session.
    unreported
        Why nobody is told of a job's end yet, or (of "") why clients wait at all; gives "" where nobody does.
    """

    def __init__(self, session: SessionActor, unreported: Callable[[str], str] = lambda job: "") -> None:
        self._session, self._unreported = session, unreported

    @remote_method
    async def job(self, job: str, host: HostStatus) -> Verdict:
        """Why a job stands as it does; UnknownTaskError for a job that is not remembered."""
        graph = self._session.graph(job)
        return why(self._stands(graph), named(host, self._words))

    @remote_method
    async def cluster(self, host: HostStatus) -> str:
        """Explains the states of running jobs, line by line, and the recent ends of workers."""
        found = [self._session.graph(told["id"]) for told in await self._session.jobs()]
        told = of_cluster([self._stands(graph) for graph in found], named(host, self._words))
        waits = self._unreported("")
        return f"{told}\nwhat clients ask waits: {waits}" if waits else told

    @remote_method
    async def operand(self, job: str, operand: int) -> dict[str, Any]:
        """The executable graph of an operand of the job's newest stage, as JSON: its Fetch operands and itself.

        Raises
        ------
        UnknownTaskError
            If the job, its graph or the operand is not here any more.
        """
        ready = self._session.graph(job).newest
        n = 0 if ready is None else len(ready.prepared.table.program)
        if ready is None or not 0 <= operand < n:
            has = f"it has {n}, from 0" if n else "its graph is not here; the last few jobs keep theirs"
            raise UnknownTaskError(f"{job} has no operand {operand}: {has}")
        return document(ready, job, operand)

    @remote_method
    async def pulses(self) -> dict[str, list[Any]]:
        """A value for each running job; two equal values mean that the job has not moved."""
        found = {}
        for told in await self._session.jobs():
            if told["state"] in _MOVING or self._unreported(told["id"]):
                graph = self._session.graph(told["id"])
                found[told["id"]] = [told["state"], *told["counts"].values(), graph.phases.now]
        return found

    @remote_method
    async def expect(self) -> None:
        """Log the remaining seconds of each running job."""
        for told in await self._session.jobs():
            if told["eta"] is not None:
                self._session.log.append(events.EXPECTED, told["id"], {"left": told["eta"]})

    @remote_method
    async def stalled(self, job: str, verdict: Verdict, seconds: float) -> None:
        """Log that a job has not moved for so long, for this reason; an empty text says that it moves again."""
        calm = verdict["kind"] in CALM
        self._session.log.append(events.STALLED, job, {**verdict, "seconds": seconds, "calm": calm})

    def _words(self, job: str, operand: int) -> str:
        """An operand of a job that runs, or ended a moment ago, with its line."""
        try:
            ready = self._session.graph(job).newest
        except LookupError:
            return ""
        if ready is None or not 0 <= operand < len(ready.prepared.table.program):
            return ""
        return ready.prepared.blame(operand, ready.bound)[0]

    def _stands(self, graph: GraphActor) -> JobStatus:
        told = graph.describe()
        age = time.monotonic() - graph.submitted
        error = graph.error
        return {
            "id": told["id"],
            "name": told["name"],
            "state": told["state"],
            "elapsed": told["elapsed"],
            "since": 0.0 if graph.state in TERMINAL else max(0.0, age - graph.elapsed),
            "phase": graph.phases.text(),
            "counts": told["counts"],
            "line": error.where if error else "",
            "error": str(error) if error else "",
            "refused": graph.refused,
            "unreported": self._unreported(graph.job),
        }


STILL_SECONDS = 5.0  # without movement after which the first word is said; each next one after twice as long
CALM = frozenset(
    {"runs", "preparing", "queued", "starting", "moves", "done", "cancelled"}
)  # reasons that need nobody's help


@dataclass
class _Seen:
    pulse: Any
    since: float  # when it was last seen to change
    said: float = 0.0  # seconds of standstill at which something was said last, 0 for nothing


class Watchdog:
    """The jobs that have not ended.

    Examples
    --------
    >>> dog = Watchdog(patience=5)
    >>> dog.look(0, {"job-1": "a"}), dog.look(4, {"job-1": "a"}), dog.look(6, {"job-1": "a"})
    (({}, []), ({}, []), ({'job-1': 6}, []))
    >>> dog.look(7, {"job-1": "a"}), dog.look(13, {"job-1": "a"}), dog.look(14, {"job-1": "b"})
    (({}, []), ({'job-1': 13}, []), ({}, ['job-1']))
    """

    def __init__(self, patience: float = STILL_SECONDS) -> None:
        self.patience = patience
        self._seen: dict[str, _Seen] = {}

    def look(self, now: float, pulses: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
        """Jobs to report.

        Parameters
        ----------
        now
            Seconds of any clock.
        pulses
            By job that has not ended: something that differs as soon as it has moved.

        Returns
        -------
        dict
            Seconds of standstill by job whose user should hear why.
        list
            Jobs of which that was said and that move again.
        """
        still: dict[str, float] = {}
        moving: list[str] = []
        for job, pulse in pulses.items():
            seen = self._seen.get(job)
            if seen is None or seen.pulse != pulse:
                if seen is not None and seen.said:
                    moving.append(job)
                self._seen[job] = _Seen(pulse, now)
                continue
            stands = now - seen.since
            if stands >= max(self.patience, 2 * seen.said):
                still[job] = seen.said = stands
        for job in [job for job in self._seen if job not in pulses]:
            del self._seen[job]
        return still, moving


def document(ready: Ready, job: str, operand: int) -> dict[str, Any]:
    """Document of an operand; of a chunk that was stored before only a Fetch.

    Parameters
    ----------
    ready
        The structure that runs and what fills it in.
    job, operand
        Whose, and which.
    """
    prepared, bound = ready
    table = prepared.table
    row = table.program[operand]
    words, line = prepared.blame(operand, bound)
    about = {"job": job, "operand": operand, "words": words, "bytes": table.nbytes[operand]}
    if line is not None:
        about |= {"file": line.filename, "line": line.lineno, "text": line.text}
    if row < 0:
        return {"format": "", "about": about, "nodes": [{"op": "Fetch"}], "edges": [], "steps": "", "pickle": ""}
    fetch = [{"operand": one, "from": _name(ready, one), "bytes": table.nbytes[one]} for one in table.inputs[operand]]
    args = prepared.open(job, 0, 0, bound).args
    found: dict[str, Any] = executable(table.programs[row], args[operand] if args else (), fetch, about)
    return found


def _name(ready: Ready, operand: int) -> str:
    table = ready.prepared.table
    row = table.program[operand]
    return table.programs[row].name if row >= 0 else "a stored chunk"
