"""Errors as the gateway answers them: an HTTP status and `{"error", "message", "hint", "line"}`.

No traceback and no pickle leaves the gateway.
"""

from __future__ import annotations

from typing import Any

from jmars import errors
from jmars.errors import text_of
from jmars.model.messages import Failure
from jmars.tensor.operand import SourceLine
from jmars.web.call_document import DocumentError

_STATUS: dict[type[Exception], int] = {  # the first class that matches counts
    errors.UnknownTaskError: 404,
    errors.ChunkLostError: 410,
    errors.ClusterLostError: 503,
    errors.ClusterError: 409,
    errors.StorageError: 507,
    errors.MemoryLimitError: 422,
    errors.SettingError: 422,
    errors.GraphError: 422,
}
_HINTS = {
    404: "GET /api/session and …/graph list what there is",
    410: "the stored chunks are lost; send the graph again",
    503: "try again; if the cluster has ended, this gateway has ended too",
    507: "free memory or disk: delete results and sessions that you no longer need",
}

_WHY = {  # of jobs that failed
    "ChunkLostError": "send the lost array, or the graph that computed it, again",
    "WorkerLostError": "GET …/detail/why says how workers ended; use smaller chunks if they ran out of memory",
}


class Problem(Exception):
    """A request that cannot be answered as asked."""

    def __init__(
        self, status: int, error: str, message: str, hint: str = "", line: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.error, self.message, self.hint, self.line = status, error, message, hint, line

    def as_json(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": self.error, "message": self.message, "hint": self.hint, "line": self.line}


def as_line(line: SourceLine | None) -> dict[str, Any] | None:
    """Converts a line of the user's text to JSON."""
    return None if line is None else {"file": line.filename, "line": line.lineno, "text": line.text}


def problem_from_exception(error: BaseException) -> Problem:
    """Converts an exception of ours to a Problem; other exceptions are faults of the gateway and only named."""
    if isinstance(error, Problem):
        return error
    name = type(error).__name__
    if isinstance(error, DocumentError):
        return Problem(422, name, error.message, error.hint, as_line(error.line))
    if isinstance(error, errors.JmarsError):
        status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
        return Problem(status, name, text_of(error), _HINTS.get(status, ""))
    return Problem(500, name, "the gateway failed; its log says where", "please report it")


def problem_from_report(error: Failure | None, line: Any) -> dict[str, Any] | None:
    """Converts the error of a failed job, from the cluster's report, to JSON."""
    if error is None:
        return None
    message = f"{error.text} (in {error.where})" if error.where else error.text
    told = None if line is None else as_line(SourceLine(*line))
    hint = _WHY.get(error.name) or ("correct the node that the line names" if told else "")
    return Problem(0, error.name, message, hint, told).as_json()
