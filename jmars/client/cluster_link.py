"""ClusterLink: a cluster as the client's own parts use it, without the user's `Cluster`.

FloatWarnings: tells floating point errors of a cluster's workers as NumPy does, by Python's warnings.

A warning is told once for each tensor: a value that is computed again (it was not kept, or its worker died) is not a
second error of the user's. Source: NumPy reference, "Floating point error handling".

The open clusters of this process, the default cluster last.

`Cluster` enters and leaves the registry.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jmars.client.arrays import Arrays
from jmars.model.collector import free_in_child
from jmars.tensor.operand import SourceLine, TensorData, raise_at, warn_user

if TYPE_CHECKING:
    from jmars.plan import Workers


class SubmittedJob(Protocol):
    """A submitted job, as recovery uses it."""

    @property
    def error(self) -> BaseException | None:
        """Exception of a failed job; None while the job runs and after success."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the job has ended; returns whether it has."""

    def cancel(self) -> None:
        """Ask the cluster to stop the job."""


class ClusterLink(Protocol):
    """Calls to the cluster's actors, and this client's retained tensors.

    Attributes
    ----------
    n_workers, capacity
        Workers, and bytes that chunks and scratch may take.
    shared
        The cluster's arrays, in shared memory or over the connection.
    """

    shared: Arrays

    @property
    def float_warnings(self) -> FloatWarnings:
        """The floating point warnings that this client has given."""

    def check_process(self) -> None:
        """Raise ClusterClosedError in a forked child."""

    @property
    def n_workers(self) -> int:
        """Worker processes."""

    @property
    def threads(self) -> int:
        """Threads that BLAS may use inside a worker."""

    @property
    def machines(self) -> Workers | None:
        """Machines that share no memory; None for a cluster on one host."""

    @property
    def capacity(self) -> int:
        """Bytes that chunks and scratch may take."""

    def ask(self, actor: str, method: str, *args: Any, timeout: float | None = None) -> Any:
        """Call an actor and wait for the answer, at most `timeout` seconds."""

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call an actor without waiting."""

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """The value of a tensor that lies on the cluster."""

    def fetch_each(self, data: Sequence[TensorData]) -> list[Any]:
        """The values of several tensors that lie on the cluster."""

    def retained(self) -> frozenset[str]:
        """Keys of the tensors that this client retains."""

    def retains(self, data: TensorData) -> bool:
        """Whether this client retains a tensor."""

    def retain(self, data: Sequence[TensorData]) -> None:
        """Retain tensors, each until no Python object refers to the node any more."""

    def release(self, key: str) -> None:
        """Release a tensor; no effect where the key is not retained."""

    def forget(self, key: str) -> None:
        """Release a tensor with lost chunks, retained or not."""

    def why(self, job: str = "") -> str:
        """Why a job stands as it does."""

    def submit_data(
        self,
        data: Sequence[TensorData],
        name: str = "",
        single: bool = False,
        packed: Sequence[Any] = (),
        again: Any = None,
    ) -> SubmittedJob:
        """Submit tensors; `again` is the job that is submitted once more."""


Found = tuple[str, SourceLine | None, str]  # key of the tensor, the user's line, NumPy's text
MOST = 10_000  # (tensor, text) that are remembered; the oldest is forgotten first


class FloatWarnings:
    """Warnings that a client was told of a cluster's tensors.

    Examples
    --------
    >>> told = FloatWarnings()
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     for _ in range(2):
    ...         told.tell([("t-1", SourceLine("cell.py", 3, "1 / x"), "divide by zero encountered in divide")])
    >>> [(str(one.message), one.filename, one.lineno) for one in seen]
    [('divide by zero encountered in divide', 'cell.py', 3)]
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], None] = {}  # tensor, text; oldest first
        self._owed: list[Found] = []
        self._lock = threading.Lock()

    def owe(self, found: Iterable[Found]) -> None:
        """Note errors of a job that nobody waited for, as `tell` takes them; the next use of a value tells them."""
        with self._lock:
            self._owed += found

    def tell_owed(self) -> None:
        """Warn of errors that were noted; as `tell`."""
        __tracebackhide__ = True
        if not self._owed:
            return
        with self._lock:
            found, self._owed = self._owed, []
        self.tell(found)

    def tell(self, found: Iterable[Found]) -> None:
        """Warn of errors, by line, in the thread of the user.

        Raises
        ------
        RuntimeWarning
            If a filter of the user's makes an error of it, at that line; the others are told before.
        """
        __tracebackhide__ = True
        raised: tuple[RuntimeWarning, SourceLine | None] | None = None
        here: set[tuple[str, int, str]] = set()  # a line is told once, however many operations it has
        for key, line, text in sorted(found, key=_place):
            if self._is_new(key, text) and (place := (*_place((key, line, text)), text)) not in here:
                here.add(place)
                try:
                    warn_at_line(line, text)
                except RuntimeWarning as error:
                    raised = raised or (error, line)
        if raised is None:
            return
        first, where = raised
        if where is None:
            raise first
        raise_at(first.with_traceback(None), where.filename, where.lineno)

    def _is_new(self, key: str, text: str) -> bool:
        with self._lock:
            if (key, text) in self._told:
                return False
            self._told[key, text] = None
            if len(self._told) > MOST:
                del self._told[next(iter(self._told))]
            return True


def _place(found: Found) -> tuple[str, int]:
    line = found[1]
    return ("", 0) if line is None else (line.filename, line.lineno)


def warn_at_line(line: SourceLine | None, text: str) -> None:
    """Give a RuntimeWarning as if the user's line had called `warnings.warn`."""
    if line is None:
        warn_user(text, RuntimeWarning)
        return
    names = _names_of(line.filename)
    registry: dict[Any, Any] = names.setdefault("__warningregistry__", {})
    module = str(names.get("__name__") or "<unknown>")
    warnings.warn_explicit(text, RuntimeWarning, line.filename, line.lineno, module, registry)


def _names_of(filename: str) -> dict[str, Any]:
    """Global names of the module of a file; of `__main__`, where cells run, for other files."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == filename:
            return vars(module)
    return vars(sys.modules["__main__"])


lock = free_in_child(threading.RLock())  # held for moments only: the thread that talks to clusters takes it too

_open: list[ClusterLink] = []
_lost: list[str] = []


def _forked() -> None:
    """A child has no connection to the clusters of the process that it was forked from."""
    _open.clear()
    _lost.clear()


os.register_at_fork(after_in_child=_forked)


def add(cluster: ClusterLink) -> None:
    """Enter an open cluster as the default cluster."""
    with lock:
        _open.append(cluster)


def remove(cluster: ClusterLink) -> None:
    """Take out a closed cluster."""
    with lock:
        if cluster in _open:
            _open.remove(cluster)


def lose(cluster: ClusterLink, name: str) -> None:
    """Take out a cluster that went away, and note its name for `take_lost`."""
    with lock:
        remove(cluster)
        if name not in _lost:  # a process may have several connections to a cluster
            _lost.append(name)


def take_lost() -> list[str]:
    """Names of clusters that went away since the last call: whoever starts another cluster says so."""
    with lock:
        found = list(_lost)
        _lost.clear()
        return found


def everywhere() -> list[ClusterLink]:
    """All open clusters."""
    with lock:
        return list(_open)


def make_default(cluster: ClusterLink) -> None:
    """Make an open cluster the default cluster."""
    with lock:
        if cluster in _open:
            remove(cluster)
            add(cluster)
