"""Everything that can go wrong, as one tree.

    JmarsError
    ├── ChunkSizeError (ValueError)            a chunk_size that cuts no array
    ├── GraphError (ValueError)                a graph that cannot run
    ├── UnsupportedError (NotImplementedError, TypeError)   a NumPy function that jmars lacks
    │   └── MissingNameError (AttributeError)  a method or attribute of NumPy's arrays that jmars lacks
    ├── ViewWriteError (ValueError)            writing through a view, which jmars does not share
    ├── ArrayChangedError (ValueError)         a NumPy array was changed before the cluster had read it
    ├── SettingError (ValueError)              a setting that there is not, or that cannot be so
    ├── NotReadyError (RuntimeError)           a value asked for where none can be computed
    ├── MemoryLimitError (MemoryError, ValueError)   it can never fit in the memory limit
    ├── ClusterError (RuntimeError)
    │   ├── ClusterClosedError                 used after close()
    │   ├── ClusterStartError                  the processes did not come up
    │   ├── ClusterLostError (ConnectionError) the control process went away
    │   ├── AuthenticationError (PermissionError)   who asked could not prove who it is
    │   ├── UnknownTaskError (LookupError)     there is no job of that id
    │   └── ProtocolError (ValueError)         bytes that are no message of ours
    │       └── ActorNotFoundError (LookupError)   a message to an actor that there is not, or not any more
    ├── ExecutionError (RuntimeError)
    │   ├── OperandError                       an operand failed; the user's own exception is its cause
    │   ├── WorkerLostError                    an operand ended every worker that ran it
    │   ├── JobCancelledError                  somebody cancelled the job
    │   ├── InternalError                      jmars itself failed while it worked for the job
    │   └── ExecutionInterrupted               a running operand was told to stop
    └── StorageError (OSError)
        ├── ChecksumError                      bytes on disk are not those that were written
        └── ChunkLostError (ClusterError)      a stored chunk is gone; what it belongs to must be computed again

Used by every floor. An error also inherits the builtin that a NumPy user would catch. Its text says what happened, why,
and what to do.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from typing import Any

__all__ = [
    "ActorNotFoundError",
    "ArrayChangedError",
    "AuthenticationError",
    "ChecksumError",
    "ChunkLostError",
    "ChunkSizeError",
    "ClusterClosedError",
    "ClusterError",
    "ClusterLostError",
    "ClusterStartError",
    "ExecutionError",
    "ExecutionInterrupted",
    "GraphError",
    "InternalError",
    "JmarsError",
    "JobCancelledError",
    "MemoryLimitError",
    "MissingNameError",
    "NotReadyError",
    "OperandError",
    "ProtocolError",
    "SettingError",
    "StorageError",
    "UnknownTaskError",
    "UnsupportedError",
    "ViewWriteError",
    "WorkerLostError",
    "fault_of",
    "text_of",
]


def text_of(error: BaseException) -> str:
    """What an exception says, fit to be sent; never raises, though the exception's own `__str__` may."""
    try:
        text = str(error)
    except Exception as problem:
        text = f"(its text cannot be shown: {type(problem).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()


def fault_of(error: BaseException) -> str:
    """An exception that nobody foresaw, for who reads its report: `KeyError: 'x' in crew.py, line 20`."""
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" in {os.path.basename(where[0].filename)}, line {where[0].lineno}" if where else ""
    return f"{type(error).__name__}: {text_of(error)}{place}"


class JmarsError(Exception):
    """The root: `except jmars.errors.JmarsError` catches all of ours."""

    def __reduce__(self) -> tuple[Any, ...]:
        """As exceptions pickle, but said here: tblib, which distributed installs, guesses wrong for two bases."""
        return type(self), self.args, dict(self.__dict__)


class ChunkSizeError(JmarsError, ValueError):
    """A chunk size cuts no array: negative, of the wrong length, or splits that do not sum to the shape."""


class SettingError(JmarsError, ValueError):
    """A setting that does not exist, or a value that it cannot have."""


class GraphError(JmarsError, ValueError):
    """A graph cannot run: a cycle, an unknown input, an instance used twice at once."""


class UnsupportedError(JmarsError, NotImplementedError, TypeError):
    """A NumPy function or argument that jmars does not distribute."""


class MissingNameError(UnsupportedError, AttributeError):
    """A name that NumPy's arrays have and ours have not: `hasattr` says so, and who uses it reads what to do."""


class ViewWriteError(JmarsError, ValueError):
    """A write whose effect NumPy shares between a view and its base, which lazy arrays do not."""


class ArrayChangedError(JmarsError, ValueError):
    """A NumPy array was changed between being taken and being read, so its old value is gone."""


class NotReadyError(JmarsError, RuntimeError):
    """A value is needed and there is no engine or cluster to compute it."""


class MemoryLimitError(JmarsError, MemoryError, ValueError):
    """What was asked for can never fit in the memory limit."""

    operand: int | None = None  # of the graph that was to run: its line is told
    need = room = 0  # bytes that this operand needs, and that there are
    proposed = ""  # part of the text: what to do


class ClusterError(JmarsError, RuntimeError):
    """A cluster cannot do what was asked."""


class ClusterClosedError(ClusterError):
    """The cluster was closed before this call."""


class ClusterStartError(ClusterError):
    """The processes of the cluster did not come up."""


class ClusterLostError(ClusterError, ConnectionError):
    """The control process of the cluster went away."""


class AuthenticationError(ClusterError, PermissionError):
    """The other end of a connection did not prove who it is."""


class UnknownTaskError(ClusterError, LookupError):
    """There is no job of that id on the cluster, or not any more."""


class ProtocolError(ClusterError, ValueError):
    """Bytes arrived that are no message of ours."""


class ActorNotFoundError(ProtocolError, LookupError):
    """A message to an actor that there is not, or not any more, or to a method that it has not."""


class ExecutionError(JmarsError, RuntimeError):
    """A job ended without its result."""


class OperandError(ExecutionError):
    """An operand failed; the exception it raised is the cause."""


class WorkerLostError(ExecutionError):
    """An operand ended every worker process that tried it."""


class JobCancelledError(ExecutionError):
    """The job was cancelled before it ended."""


class InternalError(ExecutionError):
    """jmars itself failed while it worked for the job; other jobs go on."""


class ExecutionInterrupted(ExecutionError):
    """A running operand was told to stop. Source: seed 003, "取消作业"."""


class StorageError(JmarsError, OSError):
    """A chunk could not be stored or read back."""


class ChecksumError(StorageError):
    """A spilled chunk came back with other bytes than were written."""


class ChunkLostError(StorageError, ClusterError):
    """A chunk that was stored is gone.

    Parameters
    ----------
    text
        What happened, why, and what to do.
    keys
        Tensors that it belongs to, where that is known: whoever holds their graph can compute them again.
    """

    def __init__(self, text: str, keys: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.keys = list(keys)
