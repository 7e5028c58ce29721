"""Checks that a request carries the gateway's token, its host name, and no foreign origin. Pure.

The token comes in a header that no page of other sites can set, so there are no cookies and no forged requests. Host is
checked against DNS rebinding, Origin against pages of other sites. Repeated wrong tokens are slowed down.
Source: RFC 6750 (bearer tokens); Jupyter Server's `check_host`.
"""

from __future__ import annotations

import hmac
import time
from collections import deque
from collections.abc import Callable
from urllib.parse import urlsplit

__all__ = ["FAILURES", "Guard", "Refusal"]

FAILURES = 10  # wrong tokens in a second; further wrong tokens get status 429, the right token always passes
_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Refusal(Exception):
    """The reason why a request is refused.

    Attributes
    ----------
    status
        401 for a missing or wrong token, 403 for a foreign name or site, 429 for too many wrong tokens.
    hint
        What to do.
    """

    def __init__(self, status: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.status, self.hint = status, hint


class Guard:
    """Checks the headers of requests; one guard for each gateway.

    Parameters
    ----------
    token
        Text that must follow "Bearer " in Authorization.
    now
        Seconds on a clock that never goes back.

    Examples
    --------
    >>> guard = Guard("secret", now=lambda: 0.0)
    >>> guard.check(8080, "127.0.0.1:8080", None, "Bearer secret")
    >>> guard.check(8080, "evil.example:8080", None, "Bearer secret")
    Traceback (most recent call last):
    jmars.web.guard.Refusal: this gateway is not called 'evil.example:8080'
    """

    def __init__(self, token: str, now: Callable[[], float] = time.monotonic) -> None:
        self.token = token
        self._now = now
        self._failures: deque[float] = deque(maxlen=FAILURES)  # when the last wrong tokens came

    def check(self, port: int, host: str | None, origin: str | None, authorization: str | None) -> None:
        """Checks the headers of a request; returns if the request may be answered.

        Parameters
        ----------
        port
            Where the gateway listens.
        host, origin, authorization
            Headers of the request; None where they are missing.

        Raises
        ------
        Refusal
            If the request may not be answered.
        """
        ours = {f"{name}:{port}" for name in _NAMES}
        if (host or "").lower() not in ours:
            raise Refusal(403, f"this gateway is not called {(host or '')[:100]!r}", f"use http://127.0.0.1:{port}")
        if origin is not None and not _is_ours(origin, ours):
            raise Refusal(403, f"a page of {origin[:100]!r} may not ask here", "ask from a program, without Origin")
        kind, _, token = (authorization or "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.token.encode()):
            return
        if authorization is not None:  # a missing header is no guess
            now = self._now()
            if len(self._failures) == FAILURES and now - self._failures[0] < 1.0:
                raise Refusal(429, "too many wrong tokens", "wait a second")
            self._failures.append(now)
        raise Refusal(
            401, "no token, or not that of this gateway", "send the header that the gateway's header file holds"
        )


def _is_ours(origin: str, ours: set[str]) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.netloc.lower() in ours
