"""Describes an exception of a kernel as a `Failure`: class, text, frames of the user's code, fused operand.

Executors and tasks on an engine use the same description, so the client shows the same error wherever an operand ran.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import os
import pickle
import traceback
from pathlib import Path

import cloudpickle
import numpy as np

from jmars.errors import JmarsError, text_of
from jmars.kernels.float_errors import FILE
from jmars.kernels.member_notes import take_member
from jmars.model.messages import Failure

__all__ = ["describe"]

PACKAGE = str(Path(__file__).parents[1]) + os.sep
NUMPY = str(Path(np.__file__).parent) + os.sep


def describe(error: BaseException, seconds: float = 0.0) -> Failure:
    """The failure of an exception that came after so many seconds; never raises."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [
        frame for frame in frames if not frame.filename.startswith((PACKAGE, FILE))
    ]  # what leads there is of no use
    shown = users or ([] if isinstance(error, JmarsError) else frames)  # our own says all in its text
    trace = "".join(traceback.format_list(shown[-8:]))
    member = take_member(error)
    try:
        blob = cloudpickle.dumps(error)
        pickle.loads(blob)
    except Exception:  # it cannot travel: name and text do
        blob = b""
    final = isinstance(error, JmarsError)
    own = not final and any(not frame.filename.startswith(NUMPY) for frame in users)
    transient = isinstance(error, OSError) and not final
    text = text_of(error)[:10_000]
    return Failure(type(error).__name__, text, trace[:20_000], blob, "", member, transient, final, own, seconds)
