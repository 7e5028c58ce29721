"""CarrierLink: orders and answers, carriers that die, requests that are pinned and unpinned once."""

from __future__ import annotations

import pytest

from jmars.actors.tls import Credentials
from jmars.errors import ChunkLostError
from jmars.storage.chunks import ChunkRange
from jmars.worker.chunk_exchange import DEATHS, CarrierLink, Transfers


class Fake:
    """A carrier that only takes notes."""

    def __init__(self):
        self.orders = []

    def send(self, message):
        self.orders.append(message)


class Control:
    """The owner of a CarrierLink."""

    def __init__(self):
        self.carriers, self.places, self.pins, self.told, self.ports = [], {}, [], [], []
        self.link = CarrierLink(
            self.start,
            serve=self.serve,
            served=self.pins.remove,
            damaged=lambda *what: self.told.append(what),
            listening=self.ports.append,
        )
        self.link.begin("cluster", 3, 2, Credentials(b"key", b"certificate", b"ca"), "::1")

    def start(self):
        self.carriers.append(Fake())
        return self.carriers[-1]

    def serve(self, chunk):
        place = self.places.get(chunk, ("none", "not here"))
        if isinstance(place, Exception):
            raise place
        if place[0] != "none":
            self.pins.append(chunk)
        return place

    @property
    def carrier(self):
        return self.carriers[-1]

    def hears(self, *message):
        self.link.received(self.carrier, message)

    def dies(self):
        self.link.ended(self.carrier, "killed by SIGKILL")

    def pull(self, name, chunk=7):
        wanted = ChunkRange(chunk, 0, 10, 4096, (5, 6))
        return self.link.pull(wanted, [(1, 1)], lambda error: self.told.append((name, error)))


@pytest.fixture
def control():
    return Control()


def test_the_first_order_is_who_this_host_is(control):
    (begin,) = control.carrier.orders
    assert begin[0] == "begin" and begin[1]["bind"] == "[::1]:0" and begin[1]["key"] == b"key"


def test_a_pull_is_sent_and_told_once_and_counted(control):
    ticket = control.pull("a")
    assert control.carrier.orders[-1] == ("pull", ticket, (7, 0, 10, 4096, (5, 6), False), [(1, 1)])
    control.hears("pulled", ticket, "", 1, 10, [1, 2, 3, 500_000])
    failed = control.pull("b")
    control.hears("pulled", failed, "gone", 1, 0, [1, 2, 3, 5])
    assert control.told == [("a", ""), ("b", "gone")]
    (told,) = control.link.take_transfers().values()
    assert told[:3] == Transfers(1, 10, 0.5)[:3] and control.link.take_transfers() == {}
    ((_, *marks),) = told.marks
    assert marks[:4] == [1, 2, 3, 500_000] and marks == sorted(marks) and len(marks) == 5


def test_a_withdrawn_pull_is_told_once_whatever_comes_first(control):
    first, second = control.pull("a"), control.pull("b")
    control.link.withdraw(first, lambda: control.told.append("first is free"))
    control.link.withdraw(second, lambda: control.told.append("second is free"))
    control.hears("pulled", first, "", 1, 10, [1, 2, 3, 5])  # it had ended before the carrier heard of it
    control.hears("withdrawn", first)
    control.hears("withdrawn", second)
    assert control.told == ["first is free", "second is free"]
    control.link.withdraw(first, lambda: control.told.append("again"))
    assert control.told == ["first is free", "second is free"]  # it has ended


def test_a_request_is_pinned_and_unpinned_once(control):
    control.places = {1: ("memory", 64, 100), 2: ("file", "path", b"sums", 100), 3: ChunkLostError("lost")}
    for request, chunk in enumerate((1, 2, 3, 4), start=1):
        control.hears("asked", request, 9, chunk, 0, 10)
    assert control.carrier.orders[1:] == [
        ("give", 1, ("memory", 64, 100)),
        ("give", 2, ("file", "path", b"sums", 100)),
        ("give", 3, ("none", "lost")),
        ("give", 4, ("none", "not here")),
    ]
    control.hears("given", 1, 10, "")
    assert control.pins == [2] and control.told == []
    control.hears("given", 2, 0, "damaged")
    assert control.pins == [] and control.told == [(2, "damaged")]


def test_the_next_carrier_knows_what_the_dead_one_knew(control):
    control.hears("listening", 1234)
    control.link.add_peer(1, 1, "address:1")
    control.link.add_peer(2, 1, "address:2")
    control.link.drop_peer(2, 1)
    ended, open_ = control.pull("a"), control.pull("b")
    control.hears("pulled", ended, "", 1, 10, [1, 2, 3, 5])
    control.places = {1: ("memory", 64, 100)}
    control.hears("asked", 1, 9, 1, 0, 10)
    control.hears("asked", 2, 9, 2, 0, 10)
    control.dies()
    assert control.pins == [] and len(control.carriers) == 2
    kinds = [order[0] for order in control.carrier.orders]
    assert kinds == ["begin", "peer", "gone", "pull"] and control.carrier.orders[0][1]["bind"] == "[::1]:1234"
    assert control.carrier.orders[-1][1] == open_
    control.hears("listening", 1234)
    assert control.ports == [1234]
    control.hears("pulled", open_, "", 1, 10, [1, 2, 3, 5])
    assert control.told[-1] == ("b", "")


def test_reports_of_a_dead_carrier_come_too_late(control):
    ticket = control.pull("a")
    dead = control.carrier
    control.dies()
    control.link.received(dead, ("pulled", ticket, "", 1, 10, [1, 2, 3, 5]))
    control.link.ended(dead, "again")
    assert control.told == [] and len(control.carriers) == 2


def test_a_pull_that_was_under_way_at_three_deaths_fails_and_others_go_on(control):
    control.pull("bad")
    for _ in range(DEATHS - 1):
        control.dies()
        control.hears("listening", 1)
    good = control.pull("good")
    control.dies()
    assert [name for name, _ in control.told] == ["bad"] and "again and again" in control.told[0][1]
    control.hears("pulled", good, "", 1, 10, [1, 2, 3, 5])
    assert control.told[-1] == ("good", "")


def test_a_withdrawn_pull_is_free_when_the_carrier_has_ended(control):
    ticket = control.pull("a")
    control.link.withdraw(ticket, lambda: control.told.append("free"))
    control.dies()
    assert control.told == ["free"] and [order[0] for order in control.carrier.orders] == ["begin"]


def test_carriers_that_die_early_are_given_up_until_the_next_order(control):
    for _ in range(DEATHS):
        control.pull("a")
        control.dies()
    assert len(control.carriers) == DEATHS and len(control.told) == DEATHS
    control.pull("b")
    assert len(control.carriers) == DEATHS + 1 and control.carrier.orders[-1][0] == "pull"
    assert len(control.carrier.orders) == 2


def test_a_closed_link_starts_nothing(control):
    control.link.close()
    control.dies()
    control.link.add_peer(1, 1, "address:1")
    assert len(control.carriers) == 1


def test_links_are_as_the_carrier_measured_them_until_the_host_is_gone(control):
    control.hears("link", 1, 1e9, 1e-3)
    assert control.link.links == {1: (1e9, 1e-3)}
    control.link.drop_peer(1, 1)
    assert control.link.links == {}


def test_answers_about_pulls_and_requests_that_are_over_have_no_effect(control):
    withdrawn = control.pull("a")
    control.link.withdraw(withdrawn, lambda: control.told.append("withdrawn"))
    for message in (("withdrawn", withdrawn), ("pulled", withdrawn, "host 2 is gone", 2, 0, [0, 0, 0, 0])):
        control.hears(*message)
        control.hears(*message)
    assert control.told == ["withdrawn"]
    control.places[7] = ("memory", 0, 10)
    control.hears("asked", 1, 2, 7, 0, 10)
    for _ in range(2):
        control.hears("given", 1, 10, "")
    assert control.pins == [] and control.told == ["withdrawn"]


def test_a_request_without_a_place_gives_none_back(control):
    control.hears("asked", 1, 2, 7, 0, 10)
    control.hears("given", 1, 10, "")
    assert control.pins == []
