"""Dialogue: asks and tells actors of the peer, and serves own actors, over any connection.

A message is `(number, actor, method, args)`; number 0 wants no answer. An answer is `(-number, ok, value)`. An actor is
any object whose class lists remote methods. Subclasses send messages and pass received messages on: `ActorChannel` for
one connection, `LastingChannel` for connections that break and are dialled again.

`ActorFactory` creates and destroys actors of registered classes when an authenticated peer asks for it. A peer names a
class that this process registered, never code. Actors that this process added itself cannot be destroyed by peers.
`Dialogue.create_actor` and `destroy_actor` ask the peer's factory.

`Mailbox` has the actors of this process by name, and the methods that messages may call. Messages reach only methods
that the actor's class, or a base of it, marks with `remote_method`; other public methods are for the actor's own
process. `actor_proxy` makes from such a class an object that sends the messages.
Source: docs/explanation/seeds.md, "Architecture" (actors); Mars `actors/core.py`, `create_actor` and `destroy_actor`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import pickle
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Generic, TypeVar

from jmars import errors
from jmars.errors import ActorNotFoundError, ClusterError, ClusterLostError, ProtocolError, text_of

log = logging.getLogger("jmars.actors")


class Dialogue(ABC):
    """An end of a conversation between actors.

    Attributes
    ----------
    mailbox
        The actors that the peer reaches here.
    closed
        Whether no message is sent and no call answered any more.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self.closed = False
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._starting = False  # whether a task has not taken its first step
        self._arrived: deque[tuple[int, str, str, Sequence[Any]]] = deque()  # messages to act on after that step

    @property
    def waiting(self) -> int:
        """Answers that are waited for."""
        return len(self._answers)

    async def ask(self, actor: str, method: str, *args: Any) -> Any:
        """The value that `actor.method(*args)` returns at the peer; raises its exception."""
        if self.closed:
            raise ClusterLostError(self._why_closed())
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        self._send((self._number, actor, method, args))
        return await answer

    def tell(self, actor: str, method: str, *args: Any) -> None:
        """Call `actor.method(*args)` at the other end without waiting; lost when the connection is."""
        if not self.closed:
            self._send((0, actor, method, args))

    def tell_later(self, seconds: float, actor: str, method: str, *args: Any) -> asyncio.TimerHandle:
        """`tell` after a delay; cancel the returned handle to tell nothing. Source: Mars `actors/core.py`, `_delay`."""
        return asyncio.get_running_loop().call_later(seconds, self.tell, actor, method, *args)

    async def create_actor(self, kind: str, name: str, *args: Any) -> None:
        """Have the peer create the actor `name` of a class that it registered as `kind` (ActorFactory).

        Raises ActorNotFoundError if the peer has no such class, ClusterError if the name is taken there, and what the
        class raises.
        """
        await self.ask(FACTORY, "create", kind, name, *args)

    async def destroy_actor(self, name: str) -> None:
        """Have the peer destroy an actor that was created so; raises ActorNotFoundError if there is none."""
        await self.ask(FACTORY, "destroy", name)

    @abstractmethod
    def close(self) -> None:
        """End the conversation."""

    # -- for subclasses
    @abstractmethod
    def _send(self, message: Any) -> None:
        """Send a message; raises ProtocolError, TypeError, ValueError or OverflowError if it cannot be packed."""

    def _why_closed(self) -> str:
        return "the connection to the cluster is closed; start a new cluster"

    def _fail_answers(self, error: Exception) -> None:
        """Fail all calls that wait for an answer."""
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # retrieved: the caller may have stopped waiting
        self._answers.clear()

    def _receive(self, message: Any) -> None:
        """Act on a message of the peer; raises ProtocolError for a message of unknown form."""
        try:
            if len(message) == 3:
                number, ok, value = message
                answer = self._answers.pop(-number, None)
                if answer is not None and not answer.done():
                    answer.set_result(value) if ok else answer.set_exception(revive(value))
                return
            number, actor, method, args = message
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"a message has another form than ours: {error}") from error
        self._arrived.append((number, actor, method, args))
        if not self._starting:
            self._act_on_arrived()

    # -- own
    def _act_on_arrived(self) -> None:
        """Call methods in the order of their messages: a coroutine takes its first step before later calls."""
        self._starting = False
        while self._arrived and not self._starting:
            self._act(*self._arrived.popleft())

    def _act(self, number: int, actor: str, method: str, args: Sequence[Any]) -> None:
        """Call the method that a message names; a coroutine runs as a task."""
        try:
            value = self.mailbox.find(actor, method)(*args)
        except Exception as error:  # every failure of an actor travels to the caller
            self._fail(number, actor, method, error)
            return
        if inspect.isawaitable(value):
            task = asyncio.ensure_future(self._finish(number, actor, method, value))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            self._starting = True
            asyncio.get_running_loop().call_soon(self._act_on_arrived)  # after the task's first step
        elif number:
            self._answer(number, actor, method, value)

    async def _finish(self, number: int, actor: str, method: str, value: Any) -> None:
        try:
            result = await value
        except Exception as error:  # every failure of an actor travels to the caller
            self._fail(number, actor, method, error)
            return
        if number and not self.closed:
            self._answer(number, actor, method, result)

    def _answer(self, number: int, actor: str, method: str, value: Any) -> None:
        try:
            self._send((-number, True, value))
        except (ProtocolError, TypeError, ValueError, OverflowError) as error:  # not packable
            self._fail(number, actor, method, error)

    def _fail(self, number: int, actor: str, method: str, error: Exception) -> None:
        """Send an error to the caller; without a caller, an error that is not of jmars goes to the loop's exception
        handler.
        """
        if number:
            if not self.closed:
                self._send((-number, False, describe(error)))
        elif isinstance(error, errors.JmarsError):
            log.warning("%s.%s failed: %s", actor, method, error)
        else:
            what = {"message": f"{actor}.{method} failed", "exception": error, "channel": self}
            asyncio.get_running_loop().call_exception_handler(what)


def describe(error: Exception) -> tuple[str, str, bytes]:
    """An exception as (class name, text, pickle); the pickle is read only behind authentication."""
    try:
        blob = pickle.dumps(error)
        pickle.loads(blob)  # an exception that cannot come back travels as its name and text
    except Exception:  # whatever a foreign exception's pickling raises
        blob = b""
    return type(error).__name__, text_of(error), blob


def revive(value: tuple[str, str, bytes]) -> Exception:
    """The exception that `describe` described; a ClusterError with its name and text where its class is unknown."""
    name, text, blob = value
    if blob:
        try:
            error = pickle.loads(blob)
            if isinstance(error, Exception):
                return error
        except Exception:  # its class is unknown here: fall through to the name
            log.debug("exception %s cannot be unpickled here", name)
    known = getattr(errors, name, errors.ClusterError)
    return known(text) if known is not errors.ClusterError else errors.ClusterError(f"{name}: {text}")


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
    """Names of the methods of an actor that messages may call, sorted; an override of a remote method is remote."""
    return _remote_names(type(actor))


def _remote_names(kind: type) -> list[str]:
    bases = [vars(base).items() for base in kind.__mro__]
    return sorted({name for members in bases for name, one in members if getattr(one, "is_remote", False)})


Actor = TypeVar("Actor")
Item = TypeVar("Item")


class TurnBatch(Generic[Item]):
    """Sends the items of a turn of the event loop together, to save time at both ends."""

    def __init__(self, send: Callable[[list[Item]], None]) -> None:
        self._send = send
        self._items: list[Item] = []

    def add(self, items: Iterable[Item]) -> None:
        """Send items at the end of the turn."""
        if not self._items:
            asyncio.get_running_loop().call_soon(self._flush)
        self._items += items

    def _flush(self) -> None:
        items, self._items = self._items, []
        self._send(items)


def actor_proxy(kind: type[Actor], name: str, ask: Callable[..., Awaitable[Any]], tell: Callable[..., None]) -> Actor:
    """An actor of another process as an object with the remote methods of its class.

    Coroutines send the call by `ask(name, method, *args)` and return the answer; other methods, which return nothing,
    send it by `tell`. Sequences come back as tuples.

    Examples
    --------
    >>> class Counter:
    ...     @remote_method
    ...     def add(self, number: int) -> None:
    ...         pass
    >>> actor_proxy(Counter, "mine", ask=None, tell=print).add(number=3)
    mine add 3
    """
    proxy: Any = type(kind.__name__, (), {method: _message(kind, method) for method in _remote_names(kind)})()
    proxy.send = name, ask, tell
    return proxy  # type: ignore[no-any-return]


def _message(kind: type, name: str) -> Callable[..., Any]:
    """A method that sends the call of a remote method."""
    method = getattr(kind, name)
    signature = inspect.signature(method)

    def in_order(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        if not keywords:
            return args
        bound = signature.bind(None, *args, **keywords)
        bound.apply_defaults()
        return bound.args[1:]

    @wraps(method)
    async def ask(self: Any, *args: Any, **keywords: Any) -> Any:
        actor, send, _ = self.send
        return await send(actor, name, *in_order(args, keywords))

    @wraps(method)
    def tell(self: Any, *args: Any, **keywords: Any) -> None:
        actor, _, send = self.send
        send(actor, name, *in_order(args, keywords))

    if inspect.iscoroutinefunction(method):
        return ask
    if method.__annotations__.get("return") not in ("None", None):
        raise TypeError(f"{kind.__name__}.{name} answers, so it must be a coroutine")
    return tell


class Mailbox:
    """The actors of this process by name."""

    def __init__(self) -> None:
        self._actors: dict[str, dict[str, Any]] = {}  # by name of the actor, then of the method

    def add(self, name: str, *actors: Any) -> None:
        """Make an actor addressable as `name`; of several, the first that has a method answers."""
        self._actors[name] = {method: actor for actor in reversed(actors) for method in remote_methods(actor)}

    def remove(self, name: str) -> None:
        """Destroy the actor's address: messages to it fail from now on; calls that have begun end as they would."""
        del self._actors[name]

    def names(self) -> list[str]:
        """Names of the actors, sorted."""
        return sorted(self._actors)

    def methods(self, name: str) -> list[str]:
        """Names of the methods that messages to an actor may call, sorted."""
        return sorted(self._actors[name])

    def find(self, actor: str, method: str) -> Callable[..., Any]:
        """The method that a message names; raises ActorNotFoundError when there is none."""
        if actor not in self._actors:
            raise ActorNotFoundError(f"there is no actor {actor!r} here; there are {', '.join(self.names())}")
        target = self._actors[actor].get(method)
        if target is None:
            has = ", ".join(self.methods(actor)) or "none"
            raise ActorNotFoundError(f"actor {actor!r} has no remote method {method!r}; it has {has}")
        return getattr(target, method)  # type: ignore[no-any-return]


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
