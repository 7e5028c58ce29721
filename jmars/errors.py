"""All errors of jmars, as one tree::

    JmarsError
    ├── ChunkSizeError (ValueError)            a chunk_size that does not fit the array
    ├── GraphError (ValueError)                a graph that cannot run
    ├── UnsupportedError (NotImplementedError, TypeError)   a NumPy function that jmars lacks
    │   ├── MissingNameError (AttributeError)  a method or attribute of NumPy's arrays that jmars lacks
    │   └── ObjectArrayError                   an array whose elements are no plain bytes, as Python objects
    ├── ArrayChangedError (ValueError)         a NumPy array changed before the cluster had read it
    ├── SettingError (ValueError)              an unknown setting, or a wrong value
    ├── NotReadyError (RuntimeError)           a value is needed where none can be computed
    ├── MemoryLimitError (MemoryError, ValueError)   an operand can never fit in the memory limit
    ├── NoInputError (EOFError)                a function on the cluster calls input()
    ├── ClusterError (RuntimeError)
    │   ├── ClusterClosedError                 a call after close()
    │   ├── ClusterStartError                  the processes did not start
    │   ├── ClusterLostError (ConnectionError) the control process ended or does not answer
    │   │   └── ClusterStoppedError            the cluster was stopped on request
    │   ├── AuthenticationError (PermissionError)   the other end of a connection is not authenticated
    │   │   └── HostRefusedError               the head refuses a host: it is unknown there, or was given up
    │   ├── UnknownTaskError (LookupError)     the cluster has no job with that id
    │   └── ProtocolError (ValueError)         bytes that are not a message
    │       └── ActorNotFoundError (LookupError)   a message to an actor that does not exist
    ├── ExecutionError (RuntimeError)
    │   ├── OperandError                       an operand failed; the cause is the exception it raised
    │   ├── WorkerLostError                    an operand ended every worker that ran it
    │   ├── JobCancelledError                  the job was cancelled
    │   ├── InternalError                      jmars itself failed while it worked for the job
    │   └── ExecutionInterrupted               a running operand was stopped
    └── StorageError (OSError)
        ├── ChecksumError                      bytes on disk differ from the bytes written
        └── ChunkLostError (ClusterError)      a stored chunk is lost; its tensor must be computed again

An error also inherits the builtin that a NumPy user would catch. Its text says what happened, why, and what to do.
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
    "ClusterStoppedError",
    "ExecutionError",
    "ExecutionInterrupted",
    "GraphError",
    "HostRefusedError",
    "InternalError",
    "JmarsError",
    "JobCancelledError",
    "MemoryLimitError",
    "MissingNameError",
    "NoInputError",
    "NotReadyError",
    "ObjectArrayError",
    "OperandError",
    "ProtocolError",
    "SettingError",
    "StorageError",
    "UnknownTaskError",
    "UnsupportedError",
    "WorkerLostError",
    "fault_of",
    "text_of",
]


def text_of(error: BaseException) -> str:
    """The text of an exception, safe to send; never raises, though the exception's own `__str__` may."""
    try:
        text = str(error)
    except Exception as problem:
        text = f"(its text cannot be shown: {type(problem).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()


def note_module(error: ModuleNotFoundError) -> None:
    """Add to an error of a worker's unpickler how the worker gets the module."""
    error.add_note(
        f"the worker has no module {error.name!r}: install the module on every host of the cluster, or define the "
        "function in the notebook; a module that came after the cluster's start is found by a new cluster"
    )


def fault_of(error: BaseException) -> str:
    """Describes an unexpected exception for an error report: `KeyError: 'x' in batch.py, line 20`."""
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" in {os.path.basename(where[0].filename)}, line {where[0].lineno}" if where else ""
    return f"{type(error).__name__}: {text_of(error)}{place}"


class JmarsError(Exception):
    """The root: `except jmars.errors.JmarsError` catches all errors of jmars."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles like other exceptions; defined here since tblib guesses wrong for two base classes."""
        return type(self), self.args, dict(self.__dict__)


class ChunkSizeError(JmarsError, ValueError):
    """A chunk size does not fit the array: negative, of wrong length, or splits that do not sum to the shape."""


class SettingError(JmarsError, ValueError):
    """A setting does not exist, or cannot have the value."""


class GraphError(JmarsError, ValueError):
    """A graph cannot run: a cycle, an unknown input, or an instance used twice at once."""


class UnsupportedError(JmarsError, NotImplementedError, TypeError):
    """A NumPy function or argument that jmars does not distribute."""


class MissingNameError(UnsupportedError, AttributeError):
    """A method or attribute of NumPy's arrays that jmars lacks: `hasattr` is False, and the text says what to use."""


class ObjectArrayError(UnsupportedError):
    """Refuses to distribute an array of Python objects, or of other elements without a fixed number of bytes."""


class ArrayChangedError(JmarsError, ValueError):
    """A NumPy array was changed after it was passed and before it was read, so the old values are lost."""

    line: Any = None  # SourceLine of the code that used the array, where known


class NotReadyError(JmarsError, RuntimeError):
    """A value is needed, but there is no engine or cluster to compute it."""


class MemoryLimitError(JmarsError, MemoryError, ValueError):
    """An operand can never fit in the memory limit."""

    operand: int | None = None  # row of the operand in the graph, to find its line
    need = room = 0  # bytes that the operand needs, and bytes available
    proposed = more = ""  # parts of the text: what to do, and within it how to get more memory


class NoInputError(JmarsError, EOFError):
    """A function that runs on the cluster asks for a line of input."""


class ClusterError(JmarsError, RuntimeError):
    """A cluster cannot do the request."""


class ClusterClosedError(ClusterError):
    """The cluster was closed before this call."""


class ClusterStartError(ClusterError):
    """The processes of the cluster did not start."""


class ClusterLostError(ClusterError, ConnectionError):
    """The control process of the cluster ended or does not answer."""


class ClusterStoppedError(ClusterLostError):
    """The cluster was stopped on request, from this process or another."""


class AuthenticationError(ClusterError, PermissionError):
    """The other end of a connection did not prove its identity."""


class HostRefusedError(AuthenticationError):
    """The head refuses a host for good: the host is unknown there, or was given up, or its ticket is not valid."""


class UnknownTaskError(ClusterError, LookupError):
    """The cluster has no job with that id, or has forgotten it."""


class ProtocolError(ClusterError, ValueError):
    """Received bytes are not a message of jmars."""


class ActorNotFoundError(ProtocolError, LookupError):
    """A message to an actor or method that does not exist."""


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
    """A running operand was stopped.

    Source: docs/explanation/seeds.md, "Cancelling a job".
    """


class StorageError(JmarsError, OSError):
    """A chunk could not be stored or read back."""


class ChecksumError(StorageError):
    """A spilled chunk was read back with other bytes than were written."""


class ChunkLostError(StorageError, ClusterError):
    """A stored chunk is lost.

    Parameters
    ----------
    text
        What happened, why, and what to do.
    keys
        Tensors of the chunk, if known: a client that has their graph can compute them again.
    """

    def __init__(self, text: str, keys: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.keys = list(keys)
