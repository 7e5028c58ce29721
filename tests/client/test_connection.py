"""Messages that a client's thread sends: their order, and which travel together."""

import os
import signal
import threading

import pytest

from jmars.client import connection as module
from jmars.client.connection import Connection


class Channel:
    """Notes messages; a call is answered with its arguments."""

    def __init__(self):
        self.sent = []

    def tell(self, *message):
        self.sent.append(message)

    async def ask(self, *message):
        self.sent.append(message)
        return message[2:]

    def close(self):
        pass


@pytest.fixture
def channel(monkeypatch):
    channel = Channel()

    async def connect(*_):
        return channel

    monkeypatch.setattr(module, "connect", connect)
    return channel


@pytest.fixture
def connection(channel):
    connection = Connection("", "", None, lambda: None)
    yield connection
    connection.close()


def held_loop(connection):
    """Hold the loop, so that messages gather; returns the event that frees the loop."""
    held, free = threading.Event(), threading.Event()

    def hold():
        held.set()
        free.wait(10)

    connection._loop.call_soon_threadsafe(hold)
    assert held.wait(10)
    return free


def test_items_told_one_after_the_other_travel_in_one_message(connection, channel):
    free = held_loop(connection)
    for key in "abc":
        connection.tell_together("session", "drop", key)
    free.set()
    connection.ask("session", "jobs")
    assert channel.sent == [("session", "drop", ["a", "b", "c"]), ("session", "jobs")]


def test_an_item_overtakes_no_earlier_message(connection, channel):
    free = held_loop(connection)
    connection.tell_together("session", "drop", "a")
    connection.tell("session", "keep", "b")
    connection.tell_together("session", "drop", "b")
    connection.tell_together("store", "unpin", "d")
    free.set()
    connection.ask("session", "jobs")
    assert channel.sent == [
        ("session", "drop", ["a"]),
        ("session", "keep", "b"),
        ("session", "drop", ["b"]),
        ("store", "unpin", ["d"]),
        ("session", "jobs"),
    ]


def test_a_finalizer_in_a_forked_child_waits_for_no_thread_of_the_parent(connection):
    held, end = threading.Event(), threading.Event()

    def hold():
        with connection._scheduling:
            held.set()
            end.wait(60)

    threading.Thread(target=hold).start()
    assert held.wait(10)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # ends the child if it hangs
        connection.tell("session", "drop", ["a"])
        connection.tell_together("session", "drop", "a")
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    end.set()
    assert status == 0


def test_an_item_goes_after_what_was_answered_before_it(connection, channel):
    connection.tell_together("session", "drop", "a")
    connection.ask("session", "jobs")
    connection.tell_together("session", "drop", "b")
    connection.ask("session", "jobs")
    drops = [message for message in channel.sent if message[1] == "drop"]
    assert drops == [("session", "drop", ["a"]), ("session", "drop", ["b"])]
    assert [message[1] for message in channel.sent] == ["drop", "jobs", "drop", "jobs"]


def test_a_closed_connection_takes_items_without_effect(channel):
    connection = Connection("", "", None, lambda: None)
    connection.close()
    connection.tell_together("session", "drop", "a")
    assert channel.sent == []
