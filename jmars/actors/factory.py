"""ActorFactory: creates and destroys actors of registered classes when an authenticated peer asks for it.

A peer names a class that this process registered, never code. Actors that this process added itself cannot be destroyed
by peers. `Dialogue.create_actor` and `destroy_actor` ask the peer's factory.
Source: docs/explanation/seeds.md, "Architecture" (actors); Mars `actors/core.py`, `create_actor` and `destroy_actor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jmars.actors.mailbox import Mailbox, remote_method
from jmars.errors import ActorNotFoundError, ClusterError

__all__ = ["FACTORY", "ActorFactory"]

FACTORY = "actors"  # the factory's own name in a mailbox


class ActorFactory:
    """An actor named "actors" that creates others.

    Parameters
    ----------
    mailbox
        Where the actors live; the factory adds itself.
    classes
        What peers may create, by name: a class, or a function that returns an actor.

    Examples
    --------
    >>> class Counter:
    ...     def __init__(self, value):
    ...         self.value = value
    ...     @remote_method
    ...     def add(self, number):
    ...         self.value += number
    ...         return self.value
    >>> mailbox = Mailbox()
    >>> factory = ActorFactory(mailbox, {"counter": Counter})
    >>> factory.create("counter", "mine", 5)
    >>> mailbox.find("mine", "add")(3)
    8
    """

    def __init__(self, mailbox: Mailbox, classes: Mapping[str, Callable[..., Any]]) -> None:
        self._mailbox, self._classes = mailbox, dict(classes)
        self._created: dict[str, Any] = {}
        mailbox.add(FACTORY, self)

    @remote_method
    def create(self, kind: str, name: str, *args: Any) -> None:
        """Create the actor `name` by calling a registered class with `args`; what that raises travels to the caller.

        Raises
        ------
        ActorNotFoundError
            If no such class is registered here.
        ClusterError
            If an actor has this name already.
        """
        make = self._classes.get(kind)
        if make is None:
            has = ", ".join(sorted(self._classes)) or "none"
            raise ActorNotFoundError(f"no class {kind!r} is registered here to create actors of; there are {has}")
        if not name or name in self._mailbox.names():
            raise ClusterError(f"an actor cannot be called {name!r}: the name is empty or taken; choose another one")
        self._created[name] = make(*args)
        self._mailbox.add(name, self._created[name])

    @remote_method
    def destroy(self, name: str) -> None:
        """Destroy an actor that a peer created, after a call of the method `close`, if there is a method `close`.

        Raises
        ------
        ActorNotFoundError
            If no peer has created such an actor.
        """
        if name not in self._created:
            has = ", ".join(sorted(self._created)) or "none"
            raise ActorNotFoundError(f"no actor {name!r} was created here by a peer; there are {has}")
        actor = self._created.pop(name)
        self._mailbox.remove(name)
        close = getattr(actor, "close", None)
        if close is not None:
            close()
