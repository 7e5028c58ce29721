"""A value is retained as long as a Python object refers to its node."""

from __future__ import annotations

import jmars.tensor as mt
from jmars.client.sent_graphs import Retained


def test_the_key_of_a_node_that_is_gone_is_forgotten_once() -> None:
    gone: list[str] = []
    retained = Retained(gone.append)
    x = mt.ones(4)
    key = x.data.key
    retained.add([x.data, x.data])
    retained.add([x.data])
    assert list(retained) == [key] and not gone
    del x
    assert gone == [key]


def test_a_key_that_was_forgotten_before_is_not_forgotten_again() -> None:
    gone: list[str] = []
    retained = Retained(gone.append)
    x = mt.ones(4)
    retained.add([x.data])
    retained.pop(x.data.key)
    del x
    assert not gone


def test_after_a_clear_nothing_is_forgotten() -> None:
    gone: list[str] = []
    retained = Retained(gone.append)
    x = mt.ones(4)
    retained.add([x.data])
    retained.clear()
    del x
    assert not gone
