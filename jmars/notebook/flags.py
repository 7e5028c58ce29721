"""Parses the flags of a `%%jmars` line, and completes them and the subcommands of `%jmars`.

`candidates` decides from the text before the cursor, with the names of running clusters; `add_completion` registers it
with IPython.
"""

from __future__ import annotations

import argparse
import functools
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from jmars.actors import registry
from jmars.config import VIEWS, config
from jmars.units import parse_bytes

USAGE = """Run a cell of plain NumPy as one graph on a cluster.

    %%jmars [-w WORKERS] [--memory LIMIT] [--on PLACE] [--chunk SIZE] [--gpu [HOW]] [-b] [-o NAME] [--lazy] [--plan]
            [--view HOW] [--fresh]
    %jmars [status | why | stop | plan EXPRESSION | trace FILE | connect NAME]

-w, --workers WORKERS
    Number of worker processes; by default the number of cores.
--memory LIMIT
    Memory of all processes of the cluster together, such as 2GiB; chunks beyond it are spilled to disk.
--on PLACE
    Where the cell runs: dask://HOST:PORT (dask:// for the newest Dask client of this kernel), ray://HOST:PORT (ray://
    for the Ray of this kernel, or a new one), or the name of a running cluster.
--chunk SIZE
    Bytes of a chunk of arrays without a chunk size of their own, such as 16MiB.
--gpu [prefer | only | off]
    What runs on GPU workers: without a word, or prefer, all that has a kernel; only: an error names what has none; off:
    nothing. Without the flag the plan weighs the seconds that GPUs save against the copies.
-b, --background
    Return at once; the names are lazy tensors that wait for the job when their values are needed.
-o, --output NAME
    Bind the Job to NAME; with --plan the plan.
--lazy
    Compute only the value that the cell shows; the names stay lazy.
--plan
    Do not run: show what a run would cost, and why. Names and arrays stay as they are, and no cluster is started.
--fresh
    Compute all anew, without values of earlier runs but those under names; -o does the same.
--view HOW
    How large the view is: full, line (a click opens it), or none; by default a line that opens for long jobs.

If --workers or --memory differ from the running cluster, the cell starts a new cluster, which is the default from then
on. Inside the cell, `np` and other NumPy imports mean jmars.tensor; names that the cell assigns are tensors afterwards.
`%jmars` shows the clusters of this kernel, `%jmars why` says what their jobs wait for, `%jmars stop` closes them,
`%jmars plan (x + 1).sum()` plans an expression as `%%jmars --plan` plans a cell, `%jmars trace run.json` writes the
newest job as a trace for https://ui.perfetto.dev, `%jmars connect NAME` uses a cluster that another program started.
"""


@dataclass(frozen=True)
class CellFlags:
    """Flags of a `%%jmars` line; None where a flag is absent.

    Examples
    --------
    >>> CellFlags.parse("-w 2 --memory 1GiB -o job")
    CellFlags(workers=2, memory=1073741824, chunk=None, background=False, output='job', lazy=False, plan=False, on=None,
              view=None, gpu=None, fresh=False)
    """

    workers: int | None = None
    memory: int | None = None  # bytes
    chunk: int | None = None  # bytes
    background: bool = False
    output: str | None = None
    lazy: bool = False
    plan: bool = False
    on: str | None = None
    view: str | None = None
    gpu: str | None = None  # a value of the switch `gpu`
    fresh: bool = False

    @classmethod
    @functools.lru_cache(maxsize=64)  # 0.15 ms a line
    def parse(cls, line: str) -> CellFlags:
        """Parses a line.

        Raises
        ------
        UsageError
            IPython shows it as one line.
        """
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UsageError(f"%%jmars {line}: {error}") from None
        flags = cls(**vars(_parser().parse_args(words)))
        if flags.on is not None and (flags.workers is not None or flags.memory is not None):
            raise UsageError("--on names a cluster with its own workers and memory; leave out --workers and --memory")
        return flags

    def settings(self) -> dict[str, Any]:
        """The settings of `jmars.config` that hold for the cell."""
        asks = self.output is not None and not self.plan  # who binds the job asks for a run
        fresh = "fresh" if self.fresh or asks else None
        found = {"chunk_size_limit": self.chunk, "view": self.view, "reuse": fresh}
        task = {} if self.gpu is None else {"task": config.task | {"gpu": self.gpu}}
        return {name: value for name, value in found.items() if value is not None} | task


def flag_names() -> list[str]:
    """All flags, short ones too, in the order of the help."""
    return [name for action in _parser()._actions for name in action.option_strings]


def _parser() -> argparse.ArgumentParser:
    """The parser of the line."""
    parser = _Parser(prog="%%jmars", add_help=False)
    parser.add_argument("-w", "--workers", type=_count)
    parser.add_argument("--memory", type=_size)
    parser.add_argument("--chunk", type=_chunk)
    parser.add_argument("--gpu", nargs="?", const="prefer", choices=("prefer", "only", "off"))
    parser.add_argument("-b", "--background", action="store_true")
    parser.add_argument("-o", "--output", type=_name)
    parser.add_argument("--lazy", action="store_true")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--on")
    parser.add_argument("--view", choices=VIEWS)
    parser.add_argument("--fresh", action="store_true")
    return parser


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `%%jmars?` lists the flags")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers; give 1 or more")
    return int(text)


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _chunk(text: str) -> int:
    if text.isdecimal():  # ambiguous: `chunk_size=1000` counts elements, --chunk counts bytes
        raise argparse.ArgumentTypeError(f"{text!r} needs a unit, as in --chunk 16MiB")
    return _size(text)


def _name(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a Python name")
    return text


SUBCOMMANDS = ("status", "why", "stop", "plan", "trace", "connect")
PLACES = ("dask://", "ray://", "ssh://")
_MAGICS = ("%%jmars", "%jmars")
_ASSIGNED = re.compile(r"^\w+\s*=\s*(?=%j)")  # as in "cluster = %jmars connect night"


def candidates(text: str, clusters: Callable[[], list[str]]) -> list[str]:
    """Words that may stand at the end of a `%%jmars` or `%jmars` line.

    Parameters
    ----------
    text
        The line up to the cursor.
    clusters
        Gives the names of running clusters; called only where a name may stand.

    Examples
    --------
    >>> candidates("%%jmars --me", list)
    ['--memory']
    >>> candidates("%jmars st", list)
    ['status', 'stop']
    >>> candidates("%%jmars --on ni", lambda: ["night"])
    ['night']
    """
    magic, *words = _ASSIGNED.sub("", text).split(" ")
    if magic not in _MAGICS or not words:
        return []
    *before, word = (one for one in words if one or one is words[-1])
    if magic == "%jmars":
        found = list(SUBCOMMANDS) if not before else clusters() if before == ["connect"] else []
    else:
        last = before[-1] if before else ""
        if last == "--on":
            found = [*clusters(), *PLACES]
        elif last == "--view":
            found = list(VIEWS)
        elif last in _WITH_VALUE:
            found = []
        else:
            found = [flag for flag in flag_names() if flag not in before]
    return [one for one in found if one.startswith(word)]


_WITH_VALUE = ("-w", "--workers", "--memory", "--chunk", "-o", "--output")


@context_matcher(identifier="jmars")  # type: ignore[untyped-decorator]
def _match(context: CompletionContext) -> SimpleMatcherResult:
    """The matcher for IPython's completer; where it finds words, Python's names are not offered."""
    found = candidates(context.text_until_cursor.lstrip(), _clusters)
    return {"completions": [SimpleCompletion(one, type="param") for one in found], "suppress": True, "ordered": True}


def add_completion(shell: InteractiveShell) -> None:
    """Completes lines of our magics in `shell`."""
    remove_completion(shell)  # of `%reload_ext jmars`
    shell.Completer.custom_matchers = [*shell.Completer.custom_matchers, _match]


def remove_completion(shell: InteractiveShell) -> None:
    """Removes what `add_completion` added."""
    kept = [one for one in shell.Completer.custom_matchers if one is not _match]
    shell.Completer.custom_matchers = kept


def _clusters() -> list[str]:
    return sorted({entry.name for entry in registry.entries()})
