"""Replays: runs that `Job.save` wrote, shown by the live view at any moment of the run.

A replay is no widget: its output holds the replay data, so a saved notebook shows it without a kernel, whether or not
widgets are saved. JupyterLab and Notebook 7 draw it by our extension; other pages, as nbconvert makes them, show the
same in a frame.
"""

from __future__ import annotations

import os
from base64 import b64encode
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from jmars.notebook.replay_data import replay_data
from jmars.notebook.replay_page import replay_frame, replay_page
from jmars.reports.run_difference import run_difference
from jmars.reports.saved_run import DAMAGES, SavedRun, damaged
from jmars.tensor.atomic_file import atomic_file

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
        return _write(path, replay_page({"runs": [self.data]}, f"jmars: {self.name or self.job}"))

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
        return run_difference(self.a.events, self.a.job, self.b.events, self.b.job)

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
        return _write(path, replay_page(self._saved, self._title))

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


def _write(path: str | os.PathLike[str], page: str) -> Path:
    target = Path(path)
    with atomic_file(os.path.abspath(target)) as part:
        Path(part).write_text(page, encoding="utf-8")
    return target
