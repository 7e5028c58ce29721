"""Phases: the running phase of a job's preparation, with the age, to explain why no operand runs.

A graph is prepared in a thread that may hang in the user's code (unpickling, the functions of a lazy graph). So the
thread need not report: `Phases` notes the thread, and reads the thread's stack only when a client asks.
Source: docs/explanation/seeds.md, "Preparing the graph".
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from jmars.units import format_seconds

__all__ = ["Phases", "phase_of"]

_PACKAGE = str(Path(__file__).parents[1])
_PHASES = {  # files of ours by what runs there; the innermost frame that is listed tells
    "optimize/common_subexpressions.py": "equal tensors are merged",
    "optimize/tensor_fusion.py": "tensors are fused",
    "optimize/tile.py": "tensors are cut into chunks",
    "optimize/prune.py": "what nobody needs is dropped",
    "optimize/regions.py": "operands are fused",
    "optimize/chains.py": "operands are fused",
    "optimize/colors.py": "operands are fused",
    "optimize/unfolding.py": "the next part of the graph is unfolded",
    "optimize/passes.py": "the graph is compiled",
    "plan/choice/one_host.py": "orders are tried in virtual time",
    "plan/simulation/simulate.py": "orders are tried in virtual time",
    "plan/cost/annotate.py": "costs are looked up",
    "scheduler/ranking.py": "orders are tried in virtual time",
    "scheduler/picture.py": "its picture is drawn",
    "scheduler/prepare.py": "it is laid out for the workers",
    "scheduler/compile_submission.py": "the graph is read",
    "scheduler/stages.py": "the next stage is made",
}


class Phases:
    """One call at a time that runs in a thread.

    Examples
    --------
    >>> phases = Phases()
    >>> phases.run(lambda: phases.text() != "", )
    True
    >>> phases.text()
    ''
    """

    def __init__(self) -> None:
        self._thread: int | None = None
        self._since = 0.0

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run `call(*args)` in the calling thread; returns an exception that it raised.

        The user's code runs within, and may raise SystemExit too.
        """
        self._thread, self._since = threading.get_ident(), monotonic()
        try:
            return call(*args)
        except BaseException as error:
            return error
        finally:
            self._thread = None

    @property
    def now(self) -> str:
        """Name of the running phase; "" while none runs."""
        thread = self._thread
        frame = sys._current_frames().get(thread) if thread is not None else None
        return phase_of(frame) if frame is not None else ""

    def text(self) -> str:
        """The same, and for how long."""
        now = self.now
        return f"{now}, for {format_seconds(monotonic() - self._since)}" if now else ""


def phase_of(frame: FrameType | None) -> str:
    """Phase that a stack is in, in words; the user's code within is named by its line."""
    phase, users = "it is begun", ""
    for link in reversed(traceback.extract_stack(frame)):  # the innermost first
        if link.filename.startswith(_PACKAGE):
            found = _PHASES.get(link.filename.removeprefix(_PACKAGE).lstrip("/"))
            if found is not None:
                phase = found
                break
        elif not users and not _is_library(link.filename):
            users = f" (in {link.name}, line {link.lineno} of {Path(link.filename).name})"
    return phase + users


def _is_library(filename: str) -> bool:
    """Whether a file belongs to Python or a package that is installed."""
    return filename.startswith("<frozen") or "site-packages" in filename or filename.startswith(_PYTHONS)


_PYTHONS = str(Path(traceback.__file__).parent)  # the standard library's folder
