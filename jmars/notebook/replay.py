"""Replays: runs that `Job.save` wrote, shown by the live view at any moment of the run.

A replay is no widget: its output holds the replay data, so a saved notebook shows it without a kernel, whether or not
widgets are saved. JupyterLab and Notebook 7 draw it by our extension; other pages, as nbconvert makes them, show the
same in a frame. `replay_page` gives one HTML file without a server or a kernel; `main` is `python -m jmars replay`.

`replay_data` packs the events of a run as moments, moves of operands and keyframes. Operands move at every moment, so
the page folds their moves itself (labextension/src/model/replay.ts). The other parts of the view are kept as `RunState`
has them, at some hundreds of moments: keyframes. A line of JSON and columns of numbers are compressed by zlib; no code.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jmars.errors import JmarsError
from jmars.model.events import EXPECTED, GRAPH_BUILT, MEMORY_CHANGED, OPERANDS_MOVED, OPERANDS_TIMED, Event
from jmars.model.status import OperandState
from jmars.notebook.operand_table import N_STATES, NOTABLE, OperandTable
from jmars.notebook.run_state import PARTS, RunState
from jmars.notebook.view import TRAITS, as_json
from jmars.reports.run_difference import run_difference
from jmars.reports.saved_run import DAMAGES, SavedRun, damaged
from jmars.tensor.atomic_file import write_atomically

REPLAY_TYPE = "application/vnd.jmars.replay.v1+json"
_LARGEST = 4 * 2**20  # characters of replay data in a notebook


class Replay(SavedRun):
    """A run that was saved by `Job.save`; a notebook shows it with a slider over time.

    Attributes
    ----------
    path
        The file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self.path = os.fspath(path)

    @cached_property
    def data(self) -> str:
        """The replay data as base64 text."""
        try:
            return b64encode(replay_data(self.events, self.job, self.name)).decode()
        except DAMAGES as error:
            raise damaged(self.path, error) from error

    def page(self, path: str | os.PathLike[str]) -> Path:
        """Write an HTML page that shows the run at any moment; it needs no server and no network."""
        return write_atomically(path, replay_page({"runs": [self.data]}, f"jmars: {self.name or self.job}"))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        return _bundle({"runs": [self.data]}, f"jmars replay of {self.name or self.job}", self.summary())


class ReplayPair:
    """Two runs side by side on one axis of time, with their differences.

    Attributes
    ----------
    a, b
        The runs.
    """

    def __init__(self, a: Replay, b: Replay) -> None:
        self.a, self.b = a, b

    def __repr__(self) -> str:
        return f"<ReplayPair {self.a!r}, {self.b!r}>"

    @cached_property
    def difference(self) -> dict[str, Any]:
        """The first and the largest differences: see `jmars.reports.run_difference`."""
        return run_difference(self.a.record, self.b.record)

    def summary(self) -> str:
        """Both runs and their differences in some lines of text."""
        found = self.difference
        first = found["first"]
        lines = [self.a.summary(), self.b.summary(), *found["notes"]]
        lines.append(f"first difference, at {first['at']:.3f} s: {first['text']}" if first else "no operand differs")
        for table in found["tables"]:
            lines += ["  ".join(table["heads"])] + ["  ".join(row["cells"]) for row in table["rows"]]
        return "\n".join(lines)

    def page(self, path: str | os.PathLike[str]) -> Path:
        """Write an HTML page that shows both runs; it needs no server and no network."""
        return write_atomically(path, replay_page(self._saved, self._title))

    @property
    def _saved(self) -> dict[str, Any]:
        names = [f"{run.name or run.job} ({os.path.basename(run.path)})" for run in (self.a, self.b)]
        return {"runs": [self.a.data, self.b.data], "names": names, "difference": self.difference}

    @property
    def _title(self) -> str:
        return f"jmars: {self.a.name or self.a.job}, {self.b.name or self.b.job}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        return _bundle(self._saved, self._title, self.summary())


def open_replay(*paths: str | os.PathLike[str]) -> Replay | ReplayPair:
    """One run, or two side by side.

    Raises
    ------
    JmarsError
        If a file holds no run, or a damaged one.
    TypeError
        If there are more than two files, or none.
    """
    if not 1 <= len(paths) <= 2:
        raise TypeError(f"replay takes one file or two, not {len(paths)}")
    runs = [Replay(path) for path in paths]
    return runs[0] if len(runs) == 1 else ReplayPair(*runs)


def _bundle(saved: dict[str, Any], title: str, text: str) -> dict[str, Any]:
    """The MIME bundle of an output; a run that is too large for a notebook is told by text."""
    size = sum(map(len, saved["runs"]))
    if size > _LARGEST:
        words = f"The replay has {size / 2**20:.1f} MiB, which is too large for a notebook: write it by .page(file)."
        return {"text/plain": f"{text}\n{words}", "text/html": f"<pre>{escape(text)}</pre><p>{escape(words)}</p>"}
    return {REPLAY_TYPE: saved, "text/html": replay_frame(replay_page(saved, title), title), "text/plain": text}


STATIC = Path(__file__).parent / "static"  # written by `npm run build:widget` in labextension/
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
# JupyterLab's colour variables, used by the view
_STYLE = """
html { background: #fff; color-scheme: light; }
html[data-theme='dark'] { --jp-ui-font-color1: #eee; --jp-ui-font-color2: #bbb; --jp-layout-color1: #212121;
  --jp-layout-color2: #424242; --jp-layout-color3: #616161; --jp-border-color1: #616161; --jp-border-color2: #424242;
  background: #111; color-scheme: dark; }
body { color: var(--jp-ui-font-color1, #1a1a1a); margin: 10px; }
.jm { max-width: none; }
"""
_HEIGHT = 860  # pixels of the page within a notebook


def replay_page(saved: Mapping[str, Any], title: str) -> str:
    """The page as text.

    Parameters
    ----------
    saved
        `runs`, base64 text of replay data, and `difference`.
    title
        Of the page.

    Raises
    ------
    FileNotFoundError
        If the front end was not built.
    """
    script = STATIC / "replay.js"
    if not script.exists():
        raise FileNotFoundError(
            f"{script} is missing, so no replay can be shown; install jmars with pip, "
            "or run `jlpm && jlpm build:prod` in labextension/"
        )
    data = json.dumps(saved, allow_nan=False).replace("<", "\\u003c")  # no text ends the element
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{escape(title)}</title>\n'
        f"<style>{_STYLE}{(STATIC / 'widget.css').read_text(encoding='utf-8')}</style></head>\n"
        f'<body><main id="view"></main>\n<script id="replay" type="application/json">{data}</script>\n'
        f"<script>{script.read_text(encoding='utf-8')}</script></body></html>\n"
    )


def replay_frame(page: str, title: str) -> str:
    """The page as an element of another page, which its scripts cannot reach."""
    return (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts" srcdoc="{escape(page)}" '
        f'style="border:0;height:{_HEIGHT}px;width:100%"></iframe>'
    )


KEYS = 240  # keyframes of steady changes: time lines, memory
_FORCED = 400  # keyframes of rare events, kept at once
_AFTER = 0.5  # seconds after the end of the job that are shown
_STEADY = (OPERANDS_MOVED, OPERANDS_TIMED, MEMORY_CHANGED, EXPECTED)


def replay_data(events: Sequence[Event], job: str, name: str = "") -> bytes:
    """The replay data of a job.

    Parameters
    ----------
    events
        Events of the job and of its cluster, in the order of the log.
    job
        Id of the job.
    name
        Title of the run.

    Returns
    -------
    bytes
        About 10 bytes an operand.

    Raises
    ------
    ValueError
        If no event is of the job.

    Examples
    --------
    >>> log = [[1, 10.0, "JobSubmitted", "job-1", {"name": "In [1]"}],
    ...        [2, 10.5, "JobMoved", "job-1", {"state": "succeeded", "error": None, "elapsed": 0.5}]]
    >>> data = zlib.decompress(replay_data(log, "job-1"))
    >>> head = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
    >>> head["seconds"], head["kinds"], [key["moment"] for key in head["keys"]]
    (0.5, ['JobSubmitted', 'JobMoved'], [0, 1])
    """
    mine = [event for event in events if event[3] in ("", job)]
    first = next((at for at, event in enumerate(mine) if event[3]), None)
    if first is None:
        raise ValueError(f"no event of {job}")
    tape = _Tape(job, name, mine[first][1], max(event[1] for event in mine))
    tape.run.fold(mine[:first])
    for event in mine[first:]:
        ended = tape.run.job.ended if tape.run.job else None
        if ended is not None and event[1] > ended + _AFTER:
            break
        tape.take(event)
    return tape.packed()


class _Tape:
    """Columns while the events are folded."""

    def __init__(self, job: str, name: str, first: float, last: float) -> None:
        self.run = RunState(view="full")
        self.run.follow(job, name)
        self.name, self.job = name, job
        self.first = first  # seconds since the epoch
        self.step = max(last - first, 1e-6) / KEYS  # seconds between two keyframes
        self.times: list[float] = []
        self.kinds: dict[str, int] = {}
        self.kind: list[int] = []
        self.moves: list[tuple[int, int, int, int]] = []  # moment, state, worker, operands
        self.ids: list[NDArray[np.int64]] = []
        self.keys: list[dict[str, Any]] = []
        self.tables: list[tuple[int, list[int], OperandTable]] = []
        self._told: dict[str, int] = {}  # revision of each trait in the keyframes
        self._forced = 0
        self._kept = -1.0  # time of the newest keyframe

    def take(self, event: Event) -> None:
        """Folds an event."""
        moment, (_, time, kind, _, data) = len(self.times), event
        at = max(time - self.first, self.times[-1] if self.times else 0.0)
        if (
            self.times and at > self.times[-1] >= self._kept + self.step
        ):  # the newest moment is the last moment at its time
            self._key(moment - 1, self.times[-1])
        self.times.append(at)
        self.kind.append(self.kinds.setdefault(kind, len(self.kinds)))
        self.run.fold([event])
        table = self.run.job.table if self.run.job else None
        if kind == GRAPH_BUILT and table is not None:
            self.tables.append((moment, list(self.run.job.earlier) if self.run.job else [], table))
        elif kind == OPERANDS_MOVED and table is not None:
            self._moved(moment, data, table)
        if kind not in _STEADY and self._forced < _FORCED:
            self._forced += 1
            self._key(moment, at)

    def _moved(self, moment: int, data: dict[str, Any], table: OperandTable) -> None:
        state, ids = int(data["state"]), np.unique(np.frombuffer(data["ids"], "<u4")).astype(np.int64)
        ids = ids[ids < table.n_after]
        if 0 <= state < N_STATES and len(ids):
            self.moves.append((moment, state, int(data.get("worker", -1)), len(ids)))
            self.ids.append(ids)

    def _key(self, moment: int, at: float) -> None:
        """Keeps what has changed since the newest keyframe."""
        self._kept = at
        kept = [name for name in TRAITS if not PARTS[name].page_folds]
        changed = [name for name in kept if self.run.revision[name] != self._told.get(name)]
        self._told = dict(self.run.revision)
        found = {name: self.run.trait(name, self.first + at) for name in dict.fromkeys(["snap", *changed])}
        self.keys.append({"moment": moment, **as_json(found)})

    def packed(self) -> bytes:
        """All as bytes."""
        if self.keys[-1]["moment"] != len(self.times) - 1:
            self._key(len(self.times) - 1, self.times[-1])
        parts = _Sections()
        moves = np.array(self.moves, np.int64).reshape(-1, 4)
        gaps = [np.diff(ids, prepend=0) for ids in self.ids]
        columns = {"times": (self.times, "<f8"), "kind": (self.kind, "u1"), "ids": (_joined(gaps), "<u4")}
        columns |= {"moment": (moves[:, 0], "<u4"), "state": (moves[:, 1], "u1")}
        columns |= {"worker": (moves[:, 2], "<i2"), "size": (moves[:, 3], "<u4")}
        head = {
            "version": 1,
            "job": self.job,
            "name": self.name,
            "seconds": self.times[-1],
            "kinds": list(self.kinds),
            "notable": [int(state) for state in NOTABLE],
            "running": int(OperandState.RUNNING),
            "keys": self.keys,
            "tables": [_table(parts, *one) for one in self.tables],
            "columns": {name: parts.add(*column) for name, column in columns.items()},
        }
        text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
        return zlib.compress(len(text).to_bytes(4, "little") + text + b"".join(parts.packed), 6)


class _Sections:
    """Columns of numbers, one after the other."""

    def __init__(self) -> None:
        self.packed: list[bytes] = []
        self._end = 0

    def add(self, values: Any, dtype: str) -> list[Any]:
        """[Offset in bytes, length, type] of a new column."""
        column = np.asarray(values).astype(dtype)
        self.packed.append(column.tobytes())
        at, self._end = self._end, self._end + column.nbytes
        return [at, len(column), dtype.lstrip("<")]


def _table(parts: _Sections, moment: int, earlier: list[int], table: OperandTable) -> dict[str, Any]:
    """What the page needs to fold the operands of a stage."""
    kept = table.group >= 0
    return {
        "moment": moment,
        "earlier": earlier,  # operands of earlier stages, by state
        "n": table.n_after,
        "aggregated": table.aggregated,
        "rows": [len(table.stage_counts), len(table.label_counts)],
        "marks": [counts for one in table.marks for counts in one.counts],
        "label": parts.add(table.label, "<u2"),
        "assigned": parts.add(table.assigned, "<i2"),
        "group": parts.add(np.diff(table.group[kept], prepend=0), "<i4"),
        "stage": parts.add(table.stage[kept], "<u2"),
    }


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def main(arguments: list[str]) -> int:
    """Print the summary of one run or two, or write a page or report; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m jmars replay", description="Tells of runs that `Job.save` wrote.")
    parser.add_argument("file", help="written by job.save(file)")
    parser.add_argument("other", nargs="?", help="a second run, to show beside the first")
    parser.add_argument(
        "--page", metavar="PAGE.html", help="write a page with a slider over time, which needs nothing else"
    )
    parser.add_argument("--report", metavar="PAGE.html", help="write a report of one run, which needs Bokeh")
    options = parser.parse_args(arguments)
    try:
        found = open_replay(*(path for path in (options.file, options.other) if path is not None))
        if options.report and not isinstance(found, Replay):
            raise JmarsError("a report is of one run; leave out the second file, or write a page by --page")
        if options.page:
            found.page(options.page)
        if options.report and isinstance(found, Replay):
            found.report(options.report)
    except (JmarsError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{found.summary()}\n")
    return 0
