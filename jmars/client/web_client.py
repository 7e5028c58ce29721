"""WebClient: requests to a gateway of jmars (`python -m jmars web`), JSON and .npy over HTTP; nothing is unpickled.

Source: docs/reference/rest.md.
"""

from __future__ import annotations

import builtins
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
from numpy.lib import format as npy_format

from jmars import errors
from jmars.errors import AuthenticationError, ClusterLostError, OperandError, ProtocolError

if TYPE_CHECKING:
    import http.client

__all__ = ["Request", "Rewriter", "WebClient", "exception_of", "quoted"]

PATIENCE = 120.0  # seconds that an answer may take to begin
_LONGEST = 16 * 2**20  # bytes of a JSON answer
_PART = 2**20
_NPY = "application/x-npy"
Request = dict[str, Any]  # method, path, headers
Rewriter = Callable[[Request], Request]


class WebClient:
    """A gateway; each request has a connection of its own, so any thread may ask.

    Parameters
    ----------
    address
        "http://127.0.0.1:PORT".
    token
        The gateway's token, or the path of its header file.
    request_rewriter
        Called with each request, {"method", "path", "headers"}; what it returns is sent.
    """

    def __init__(self, address: str, token: str | Path, request_rewriter: Rewriter | None = None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{address!r} is no address; give http://127.0.0.1:PORT, as `python -m jmars web` prints")
        self.address = f"{parts.scheme}://{parts.netloc}"
        self._secure, self._netloc = parts.scheme == "https", parts.netloc
        text = Path(token).read_text() if isinstance(token, Path) or "/" in token else token
        self._token = text.strip().removeprefix("Authorization: Bearer ")
        self._rewriter = request_rewriter

    def __repr__(self) -> str:
        return f"<WebClient {self.address}>"

    def ask(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """The JSON answer; None for an empty answer.

        Raises
        ------
        JmarsError or a builtin exception
            What the gateway says is wrong, by its name.
        """
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        with self._answer(method, path, query, data, "application/json") as answer:
            text = answer.read(_LONGEST + 1)
            if len(text) > _LONGEST:
                raise ProtocolError(f"an answer of more than {_LONGEST} bytes; {self.address} may be no jmars")
            return _json(text) if text else None

    def fetch(self, path: str, query: Mapping[str, Any] | None = None) -> np.ndarray[Any, Any]:
        """An array that the gateway sends as .npy."""
        with self._answer("GET", path, query) as answer:
            try:
                return npy_format.read_array(_Whole(answer), allow_pickle=False)
            except (ValueError, EOFError) as error:
                raise ProtocolError(f"what came is no whole .npy array ({error}); ask again") from error

    def send(self, path: str, array: np.ndarray[Any, Any]) -> Any:
        """Send an array as .npy, part by part; returns the JSON answer."""
        head = io.BytesIO()
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        npy_format.write_array_header_1_0(
            head, {"descr": npy_format.dtype_to_descr(array.dtype), "fortran_order": order == "F", "shape": array.shape}
        )
        size = len(head.getvalue()) + array.nbytes
        with self._answer("PUT", path, None, _pieces(head.getvalue(), array, order), _NPY, size) as answer:
            return _json(answer.read(_LONGEST))

    def _answer(
        self, method: str, path: str, query: Mapping[str, Any] | None, data: Any = None, kind: str = "", size: int = -1
    ) -> Any:
        """A successful answer; raises the error of a refusal."""
        headers = {"Authorization": f"Bearer {self._token}"}
        if data is not None:
            headers["Content-Type"] = kind
        if size >= 0:
            headers["Content-Length"] = str(size)
        request: Request = {
            "method": method,
            "path": path + (f"?{urlencode(query)}" if query else ""),
            "headers": headers,
        }
        if self._rewriter is not None:
            request = self._rewriter(request)
        import http.client  # 20 ms, which who has no gateway need not wait

        make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = make(self._netloc, timeout=PATIENCE)
        try:
            try:
                connection.request(request["method"], request["path"], data, request["headers"])
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all was sent: the answer says why
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ClusterLostError(
                f"the gateway at {self.address} does not answer ({error}); is it open? `python -m jmars web` opens one"
            ) from error
        if answer.status >= 300:
            try:
                raise _told(answer.status, answer.read(_LONGEST))
            finally:
                connection.close()
        return _Answer(connection, answer)


class _Answer:
    """An answer that is read to its end, and then the connection closed."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection, self._answer = connection, answer

    def __enter__(self) -> http.client.HTTPResponse:
        return self._answer

    def __exit__(self, *_: object) -> None:
        self._connection.close()


class _Whole:
    """Reads as a file does: all that is asked for, or less at the end."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes."""
        return self._answer.read(size if size >= 0 else None)


def _pieces(head: bytes, array: np.ndarray[Any, Any], order: str) -> Iterator[bytes]:
    yield head
    if array.nbytes:
        rows = array.T if order == "F" else array
        rows = rows.reshape(1) if not rows.shape else rows
        step = max(1, _PART * len(rows) // rows.nbytes)
        for start in range(0, len(rows), step):
            yield np.ascontiguousarray(rows[start : start + step]).tobytes()


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"what came is no JSON ({error}); what answers may be no jmars") from error


def _told(status: int, body: bytes) -> Exception:
    """The exception of a refusal, of a class of jmars or Python."""
    try:
        told = json.loads(body)
        name, message, hint = (str(told[key]) for key in ("error", "message", "hint"))
        line = told["line"]
    except (ValueError, KeyError, TypeError):
        return ProtocolError(f"status {status} and no reason; what answers may be no jmars")
    return exception_of(name, f"{message}; {hint}" if hint else message, line, status)


def exception_of(name: str, text: str, line: Any, status: int = 0) -> Exception:
    """An exception of jmars or Python by name; OperandError for other names."""
    if status in (401, 403):
        return AuthenticationError(text)
    home = errors if name in errors.__all__ else np.linalg if name == "LinAlgError" else builtins
    found: Any = getattr(home, name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        found, text = OperandError, f"{name}: {text}"
    try:
        error: Exception = found(text)
    except TypeError:  # a builtin that wants more than a text, as UnicodeDecodeError
        error = OperandError(f"{name}: {text}")
    if isinstance(line, Mapping):
        error.add_note(f"in {line.get('file')}, line {line.get('line')}: {line.get('text')}")
    return error


def quoted(*parts: str) -> str:
    """A path of these parts."""
    return "".join("/" + quote(part, safe="") for part in parts)
