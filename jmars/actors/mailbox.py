"""Mailbox: the actors of this process by name, and the methods that messages may call.

Messages reach only methods that the actor's class marks with `remote_method`; other public methods are for the actor's
own process. Source: docs/explanation/seeds.md, "Architecture" (actors).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jmars.errors import ActorNotFoundError

__all__ = ["Mailbox", "remote_method", "remote_methods"]

Method = TypeVar("Method", bound=Callable[..., Any])


def remote_method(method: Method) -> Method:
    """Marks a method of an actor as callable by messages: a decorator.

    Examples
    --------
    >>> class Counter:
    ...     value = 0
    ...     @remote_method
    ...     def add(self, number):
    ...         self.value += number
    ...         return self.value
    ...     def reset(self):
    ...         self.value = 0
    >>> mailbox = Mailbox()
    >>> mailbox.add("counter", Counter())
    >>> mailbox.find("counter", "add")(3)
    3
    >>> mailbox.find("counter", "reset")
    Traceback (most recent call last):
    jmars.errors.ActorNotFoundError: actor 'counter' has no remote method 'reset'; it has add
    """
    method.is_remote = True  # type: ignore[attr-defined]
    return method


def remote_methods(actor: Any) -> list[str]:
    """Names of the methods of an actor that messages may call, sorted."""
    kind = type(actor)
    return sorted(name for name in dir(kind) if getattr(getattr(kind, name), "is_remote", False))


class Mailbox:
    """The actors of this process by name."""

    def __init__(self) -> None:
        self._actors: dict[str, Any] = {}

    def add(self, name: str, actor: Any) -> None:
        """Make `actor` addressable as `name`."""
        self._actors[name] = actor

    def remove(self, name: str) -> None:
        """Destroy the actor's address: messages to it fail from now on; calls that have begun end as they would."""
        del self._actors[name]

    def names(self) -> list[str]:
        """Names of the actors, sorted."""
        return sorted(self._actors)

    def find(self, actor: str, method: str) -> Callable[..., Any]:
        """The method that a message names; raises ActorNotFoundError when there is none."""
        target = self._actors.get(actor)
        if target is None:
            raise ActorNotFoundError(f"there is no actor {actor!r} here; there are {', '.join(self.names())}")
        call: Any = getattr(target, method, None)
        if not getattr(call, "is_remote", False):
            has = ", ".join(remote_methods(target)) or "none"
            raise ActorNotFoundError(f"actor {actor!r} has no remote method {method!r}; it has {has}")
        return call  # type: ignore[no-any-return]
