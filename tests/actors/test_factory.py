"""ActorFactory: actors that peers create, and end."""

from __future__ import annotations

import pytest

from jmars.actors import ActorFactory, Mailbox
from jmars.errors import ActorNotFoundError, ClusterError


class Door:
    """An actor that has something to close."""

    def __init__(self, opened: list[str]) -> None:
        self.opened = opened
        opened.append("open")

    def close(self) -> None:
        self.opened.append("closed")


def test_a_destroyed_actor_is_closed_and_its_name_is_free() -> None:
    opened: list[str] = []
    mailbox = Mailbox()
    factory = ActorFactory(mailbox, {"door": Door, "thing": object})
    factory.create("door", "a", opened)
    factory.create("thing", "b")
    assert mailbox.names() == ["a", "actors", "b"]
    factory.destroy("a")
    factory.destroy("b")
    factory.create("door", "a", opened)
    assert opened == ["open", "closed", "open"]


def test_a_class_that_raises_leaves_no_actor() -> None:
    mailbox = Mailbox()
    factory = ActorFactory(mailbox, {"door": Door})
    with pytest.raises(TypeError):
        factory.create("door", "a")
    assert mailbox.names() == ["actors"]
    with pytest.raises(ActorNotFoundError, match="no actor 'a' was created"):
        factory.destroy("a")


@pytest.mark.parametrize("name", ["", "actors", "own"])
def test_names_that_are_empty_or_taken_are_refused(name: str) -> None:
    mailbox = Mailbox()
    factory = ActorFactory(mailbox, {"thing": object})
    mailbox.add("own", object())
    with pytest.raises(ClusterError, match="empty or taken"):
        factory.create("thing", name)
    with pytest.raises(ActorNotFoundError):
        factory.destroy(name)
