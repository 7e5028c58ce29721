"""Names and types of the view's data, defined only here.

`Picture` is all of the data, with a widget trait per field, so that a reloaded page shows it again.
labextension/src/model/view.ts is generated from this file (`python -m jmars.notebook.view`); a test compares the two.
"""

from __future__ import annotations

import sys
import types
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

from jmars.model.status import STATE_NAMES, JobState
from jmars.model.timing import STATES as WORKER_STATES

MIME_TYPE = "application/vnd.jmars.job.v1+json"
MAX_DRAWN = 1500  # operands before fusion that are drawn singly; a larger graph has a box per stage
MAX_BOXES = 300  # boxes of an aggregated graph, and rows of the table of operands
MAX_MARKS = 3000  # marks that all boxes of an aggregated graph open to, before fusion or after


class JobPart(TypedDict):
    """A job of a cell; a cell that needs a value at once runs several jobs."""

    number: int  # among the jobs of the cell, from 1
    job: str
    name: str
    line: int  # line of the cell that made the job's last operand, 0 where unknown
    text: str  # text of the line, or the operand's name
    state: str
    n: int  # operands after fusion
    elapsed: float  # seconds
    spilled: int  # bytes; 0 while the job runs


class Totals(TypedDict):
    """Costs of all jobs of a cell together."""

    jobs: int
    spilled: int  # bytes, of ended jobs
    read: int  # bytes of files and other sources that ended operands have read
    to_read: int  # bytes that all operands so far read of these; 0 without a source


class Snap(TypedDict):
    """The header's data."""

    state: str  # of the job, or of the cell while it continues
    name: str
    job: str  # newest job, which Cancel cancels
    n: int  # operands after fusion of all jobs of the cell so far
    counts: list[int]  # operands by state; they sum to n
    totals: Totals
    elapsed: float  # seconds since the cell began, or since the first job was submitted
    started: float  # seconds of `elapsed` spent to start the cluster; 0 if the cluster was there
    n_started: int  # workers of a cluster that the cell started
    reused: str  # "2 values reused, 4.2 s saved"; "" for none, and while the cell runs
    peak: int  # peak bytes of all processes since the start; 0 if not measured
    eta: float | None  # seconds that the newest job may still need; None before a fifth of it is done
    error: str | None
    why: str  # reason why no operand has moved for some seconds; "" while operands move
    calm: bool  # the reason is no fault: no help is needed
    live: bool  # a job runs, or a further job may follow
    attached: bool  # a cell waits for the job
    view: str  # "full", "line", or "": open while jobs run longer than two seconds, else a line
    line: int  # of the cell, that runs now; 0 before and after its Python
    lines: int  # of the cell
    parts: list[JobPart]  # newest jobs of the cell, oldest first
    seq: int  # number of the newest event folded in


class StageRow(TypedDict):
    """A tensor operand of the cell, or a run of neighbours if there are more than MAX_BOXES."""

    name: str
    file: str
    line: int  # 0 where unknown
    text: str  # the source line
    n: int  # operands before fusion that are run


class CodeLine(TypedDict):
    """A line of the cell, or a line elsewhere that made operands of it."""

    file: str
    where: str  # name of the other cell or file; "" for the cell itself
    line: int  # from 1; 0 where unknown
    text: str


class BoxGraph(TypedDict):
    """A drawn graph: boxes and arrows."""

    n: int
    src: list[int]
    dst: list[int]
    label: list[int]  # row in `labels` per box
    labels: list[str]
    size: list[int]  # operands before fusion in each box


class Kind(TypedDict):
    """Chunks that operands of a kind make."""

    dtype: str  # "" where the operands' differ
    shape: list[int]  # -1 for a length that only the run can tell
    text: str  # the expression that its program computes


class DrawnGraph(TypedDict):
    """The graph of the newest stage of a job, before and after fusion; sent once per stage."""

    job: str
    stage_number: int  # from 1
    aggregated: bool  # boxes are stages and fused signatures, not operands
    n_before: int
    n_after: int
    n_pruned: int  # operands before fusion that no result needs
    stages: list[StageRow]
    before: BoxGraph
    after: BoxGraph
    group: list[int]  # box in `after` of each box in `before`, -1 pruned; empty when aggregated
    stage: list[int]  # row in `stages` of each box in `before`
    assigned: list[int]  # worker first assigned to each box in `after`, -1 none; empty when aggregated
    nbytes: list[int]  # bytes of each box's output in `after`; empty when unknown
    seconds: list[float]  # predicted, of each box in `after`; empty when unknown
    kind: list[int]  # row in `kinds` of each box in `after`; empty when a box has several kinds
    kinds: list[Kind]
    chunk: list[int]  # number of the chunk that each box in `before` computes, in C order, -1 none; or empty
    grid: list[int]  # row in `grids` of each box in `before`, or empty
    grids: list[list[int]]  # chunks along each axis of a tensor
    after_stages: list[list[int]]  # rows in `stages` of each box in `after`; empty unless aggregated
    marks: list[int]  # marks that each box in `before`, then in `after`, opens to; empty unless aggregated


class WorkerRow(TypedDict):
    """A row of the Workers tab: a worker and its executor process."""

    name: str  # on several hosts with the host's name: "host-0/worker-1"
    host: int  # row in `hosts`, -1 none
    pid: int
    state: str
    assigned: int  # operands of the initial assignment
    running: int
    done: int
    memory: int  # bytes, proportional set size of its process
    stored: int  # bytes of stored chunks that the worker made; after the end, as last measured
    replaced: int  # times that the worker's process was replaced since the first job was submitted


class LinkRow(TypedDict):
    """The link from another host, as it was measured last."""

    source: str  # name of the host that is read
    bandwidth: float  # bytes a second
    latency: float  # seconds of a round trip, 0 where unknown
    transport: str  # "tls", or "head" where the head passes bytes on


class HostHeading(TypedDict):
    """A host of a cluster of several hosts, as the heading above its workers."""

    name: str
    state: str  # "joined", "suspect" or "lost"
    why: str  # reason of the state, "" for none
    since: float  # when the state began, in seconds since the first job was submitted
    memory: int  # bytes of all its processes and of its shared memory; 0 where unknown
    limit: int  # bytes, 0 where unknown
    spilled: int  # bytes on its disk
    received: int  # bytes that came from other hosts since the first job was submitted
    begin: list[float]  # of arrivals of chunks, in seconds since the first job was submitted
    end: list[float]
    nbytes: list[int]
    links: list[LinkRow]  # from other hosts


class Series(TypedDict):
    """Memory over time, at most 240 points; merged points keep the peaks."""

    t: list[float]  # seconds since the first job was submitted
    used: list[int]  # bytes of chunks and of the scratch of running operands
    resident: list[int]  # bytes of all processes and the arena
    spilled: list[int]  # bytes on disk
    limit: int  # bytes, 0 where unknown
    engine: str  # "Dask" or "Ray", "" for a cluster of jmars's own workers
    peak: int
    spilled_total: int
    reloaded_total: int
    kernel: int | None  # bytes that jmars keeps in the notebook's own process, of arrays of 64 KiB or more; else None
    device: int  # bytes of chunks in the memory of GPUs now; each has a copy on a lower level
    device_memory: int  # bytes that chunks may take there, 0 without a GPU


class OpenPiece(TypedDict):
    """Operands that a worker has not ended yet: a piece that grows until now."""

    begin: float  # seconds since the first job was submitted: taken by the worker, and the operand before has ended
    n: int  # operands; the worker computes them in turn
    label: int  # row in `labels`; 0 for different operands


class Lane(TypedDict):
    """The time line of a worker: pieces of one or several operands, in order."""

    worker: int
    begin: list[float]  # start of the calculation, in seconds since the first job was submitted
    end: list[float]
    took: list[list[float]]  # seconds in each of the four states of a worker; the first two pass before `begin`
    n: list[int]  # operands
    label: list[int]  # row in `labels`; 0 for a piece of different operands
    lines: list[int]  # row in `Lanes.lines` per piece
    open: OpenPiece | None


class Lanes(TypedDict):
    """The time lines of all workers for the newest job."""

    labels: list[str]
    lines: list[list[int]]  # rows in `Picture.code` of the lines that made the operands of pieces
    lanes: list[Lane]


class RunCosts(TypedDict):
    """Costs of a run, predicted or measured."""

    makespan: float  # seconds of running
    peak: list[int]  # bytes of chunks and scratch at most: between two numbers
    spilled: int  # bytes
    moved: int  # bytes between machines


class TriedPlan(TypedDict):
    """A plan that was simulated."""

    name: str
    makespan: float
    peak: int
    spilled: int
    moved: int


class SourceRow(TypedDict):
    """A file, or another source, that a job reads."""

    name: str
    line: int  # 0 where unknown
    text: str  # the source line
    read: int  # bytes to read
    nbytes: int  # bytes of the source
    parts: int  # parts that are read apart
    why: str  # why bytes are read more than once, "" where they are not


class PlanPart(TypedDict):
    """Predicted costs of the newest job beside measured costs."""

    predicted: RunCosts | None  # all stages so far together
    measured: RunCosts | None  # None while the job runs
    lower_bound: float  # seconds that no plan can beat
    chosen: str  # the plan of the newest stage
    tried: list[TriedPlan]  # for the newest stage, the best first
    to_read: int  # bytes of files and other sources, of all stages so far
    read: int | None  # bytes of these that ended operands have read; None while the job runs
    sources: list[SourceRow]  # of the newest stage, most bytes first
    stage: int  # number of the newest stage, from 1
    replans: int  # times that the rest was planned again during the run
    why: str  # reason of the last such time
    refused: list[str]  # programs that GPUs could not run and cores ran, with the reason
    advice: list[str]


class EarlierJob(TypedDict):
    """The picture of an earlier job of a cell; bytes are base64 text."""

    job: str
    graph: DrawnGraph
    operand_states: str
    operand_workers: str
    operand_marks: str
    operand_seconds: str
    backends: list[str]
    stages: list[list[int]]
    lanes: Lanes | None
    plan: PlanPart | None


class Picture(TypedDict):
    """All data of the view; each field is a trait of the widget."""

    job_id: str
    graph: DrawnGraph | None
    snap: Snap
    operand_states: bytes  # uint8 per box in `after`; aggregated: uint32 little-endian (boxes before, then after) x 9
    operand_workers: bytes  # uint8 per box in `after`: worker + 1, 0 none; empty when aggregated
    operand_marks: bytes  # of `graph.marks`: uint8 state each, then uint8 worker + 1 each; empty unless aggregated
    operand_seconds: bytes  # float32 little-endian per box in `after`: measured, of ended operands; a sum if aggregated
    backends: list[str]  # back end of the operands of each of `graph.kinds`; "" before the first has ended
    stages: list[list[int]]  # operands before fusion by state, per row of `graph.stages`
    code: list[CodeLine]
    line_costs: (
        bytes  # float32 x 15 per row of `code`: seconds in each state of a worker, fused seconds, bytes, operands
    )
    kernel: list[float]  # seconds of Python in the kernel by line of the cell, without waiting for jobs; or empty
    workers: list[WorkerRow]
    hosts: list[HostHeading]  # by number; empty for a cluster on a single host
    series: Series
    lanes: Lanes | None
    plan: PlanPart | None
    earlier: list[EarlierJob]  # earlier jobs of the cell whose graphs are kept, newest first


TRAITS: tuple[str, ...] = tuple(get_type_hints(Picture))


def as_json(picture: Mapping[str, Any]) -> dict[str, Any]:
    """Encodes fields of a picture with their bytes as base64 text, for the side bar and the saved notebook."""
    return {name: as_text(value) if isinstance(value, bytes) else value for name, value in picture.items()}


def as_text(value: bytes) -> str:
    """Bytes as base64 text."""
    return b64encode(value).decode()


def plain_text(text: object, limit: int = 160, keep: str = "") -> str:
    """Text that is safe for the page: printable characters and those in `keep`, at most `limit` characters."""
    head = str(text if text is not None else "")[: limit + 1]
    if len(head) <= limit and head.isprintable():
        return head
    plain = "".join(c if c.isprintable() or c in keep else "\N{REPLACEMENT CHARACTER}" for c in head)
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def typescript() -> str:
    """The text of labextension/src/model/view.ts."""
    lines = [
        "// Written by `python -m jmars.notebook.view` from jmars/notebook/view.py, which defines these names.",
        "",
    ]
    lines += [f"export const MIME_TYPE = '{MIME_TYPE}';", f"export const MAX_DRAWN = {MAX_DRAWN};", ""]
    lines += [f"export const TRAITS = [{', '.join(map(repr, TRAITS))}] as const;"]
    of_bytes = [name for name, kind in get_type_hints(Picture).items() if kind is bytes]
    lines += [f"export const BYTES = [{', '.join(map(repr, of_bytes))}] as const;"]
    lines += [f"export const WORKER_STATES = [{', '.join(map(repr, WORKER_STATES))}] as const;"]
    lines += [f"export const STATE_NAMES = [{', '.join(repr(name) for name in STATE_NAMES)}] as const;"]
    lines += [f"export type JobState = {' | '.join(repr(str(state)) for state in JobState)};"]
    for record in filter(is_typeddict, list(globals().values())):
        lines += ["", f"/** {(record.__doc__ or '').splitlines()[0]} */", f"export interface {record.__name__} {{"]
        lines += [f"  {name}: {_type(kind)};" for name, kind in get_type_hints(record).items()]
        lines += ["}"]
    return "\n".join(lines) + "\n"


def _type(kind: Any) -> str:
    """The TypeScript name of a Python type."""
    plain = {
        str: "string",
        int: "number",
        float: "number",
        bool: "boolean",
        type(None): "null",
        bytes: "DataView | null",
    }
    if kind in plain:
        return plain[kind]
    if get_origin(kind) is list:
        return f"{_type(get_args(kind)[0])}[]"
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(_type(part) for part in get_args(kind))
    return str(kind.__name__)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "labextension/src/model/view.ts")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(typescript())
