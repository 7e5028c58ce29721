"""Links and hosts that fail in mid-pull: the bytes come from elsewhere or an error comes, in bounded time."""

from __future__ import annotations

import os
import signal

import pytest

from jmars.transport import pulling, pulls
from tests.contract.transport.carriers import CarrierHost, carriers, noise, pulled, pump
from tests.contract.transport.rogue import proxy
from tests.transport.certificates import identity

MB = 2**20
CHUNK = 20 * MB + 77
DATA = noise(CHUNK)
INTO = 32 * MB


@pytest.fixture
def hasty(monkeypatch):
    """Carriers that are started now wait for silent hosts a tenth of the time."""
    monkeypatch.setattr(pulls, "STALL_SECONDS", pulls.STALL_SECONDS / 10)
    monkeypatch.setattr(pulls, "LAST_SECONDS", pulls.LAST_SECONDS / 10)
    monkeypatch.setattr(pulling, "LOOK_SECONDS", pulling.LOOK_SECONDS / 10)
    monkeypatch.setattr(pulling, "SILENT_SECONDS", pulling.SILENT_SECONDS / 10)
    monkeypatch.setattr(pulling, "BEAT_SECONDS", pulling.BEAT_SECONDS / 10)


def in_the_middle(reader, source, *others):
    """A pull that has had its first bytes and waits for the source's next answers; returns the ticket."""
    source.fill(1, 4096, DATA)
    for other in others:
        other.fill(1, 4096, DATA)
    source.answers = 1
    ticket = reader.pull(1, 0, CHUNK, INTO, source, *others)
    pump([reader, source], lambda: len(source.asked) > 2)  # the third range is due when the first has come
    assert reader.memory[INTO : INTO + 2 * MB] == DATA[: 2 * MB] and ticket not in reader.pulled
    return ticket


def after_parts(between, parts, transport, hosts, what):
    """Cut or hold a connection that is up when so many parts more have passed; by UCX only their heads pass."""
    reader, source, *_ = hosts
    assert pulled(hosts, reader, reader.pull(1, 0, 10, INTO, source)) == ""
    return between.after(parts * (MB if transport == "tls" else 300), what)


def test_a_source_that_is_killed_is_replaced_by_the_next_holder():
    with carriers(0, 1, 2) as hosts:
        reader, source, other = hosts
        ticket = in_the_middle(reader, source, other)
        os.kill(source.pid, signal.SIGKILL)
        assert os.WTERMSIG(source.status()) == signal.SIGKILL
        reader.send("gone", *source.holder)
        assert pulled([reader, other], reader, ticket) == "" and reader.pulled[ticket][1] == 2
        assert reader.memory[INTO : INTO + CHUNK] == DATA


def test_a_source_that_is_killed_without_a_word_is_left_after_some_dials(hasty):
    with carriers(0, 1, 2) as hosts:
        reader, source, other = hosts
        ticket = in_the_middle(reader, source, other)
        os.kill(source.pid, signal.SIGKILL)
        assert pulled([reader, other], reader, ticket) == "" and reader.pulled[ticket][1] == 2
        assert reader.memory[INTO : INTO + CHUNK] == DATA


def test_without_another_holder_the_error_tells_why(hasty):
    with carriers(0, 1) as hosts:
        reader, source = hosts
        ticket = in_the_middle(reader, source)
        os.kill(source.pid, signal.SIGKILL)
        error = pulled([reader], reader, ticket)
        assert "host 1 sent nothing for" in error and "refused" in error


def test_a_source_that_comes_back_at_the_same_address_goes_on():
    with carriers(0, 1) as hosts:
        reader, source = hosts
        ticket = in_the_middle(reader, source)
        os.kill(source.pid, signal.SIGKILL)
        source.status()
        again = CarrierHost(source.who, bind=f"127.0.0.1:{source.port}")
        try:
            assert again.port == source.port
            again.fill(1, 4096, DATA)
            again.knows(reader)
            assert pulled([reader, again], reader, ticket) == "" and reader.memory[INTO : INTO + CHUNK] == DATA
        finally:
            again.close()


def test_a_source_whose_control_process_does_not_answer_is_left(hasty):
    with carriers(0, 1, 2) as hosts:
        reader, source, other = hosts
        ticket = in_the_middle(reader, source, other)
        assert pulled(hosts, reader, ticket) == "" and reader.pulled[ticket][1] == 2
        source.answers = None
        source.answer()  # late: nobody waits for it, and nothing stays pinned
        pump(hosts, lambda: not source.open_requests)


def test_a_cut_link_is_dialled_again_and_the_pull_goes_on(transport):
    with carriers(0, 1) as hosts, proxy(hosts[1].port) as between:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        reader.knows(source, between.address)
        after_parts(between, 7, transport, hosts, "cut")
        ticket = reader.pull(1, 0, CHUNK, INTO, source)
        assert pulled(hosts, reader, ticket) == "" and reader.memory[INTO : INTO + CHUNK] == DATA
        assert between.connections == 2
        pump(hosts, lambda: not source.open_requests)


def test_a_half_open_link_is_noticed_and_another_holder_is_asked(hasty, transport):
    with carriers(0, 1, 2) as hosts, proxy(hosts[1].port) as between:
        reader, source, other = hosts
        source.fill(1, 4096, DATA)
        other.fill(1, 4096, DATA)
        reader.knows(source, between.address)
        after_parts(between, 7, transport, hosts, "hold")
        ticket = reader.pull(1, 0, CHUNK, INTO, source, other)
        assert pulled(hosts, reader, ticket) == "" and reader.pulled[ticket][1] == 2
        assert reader.memory[INTO : INTO + CHUNK] == DATA


def test_a_half_open_link_without_another_holder_is_dialled_again(hasty, transport):
    with carriers(0, 1) as hosts, proxy(hosts[1].port) as between:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        reader.knows(source, between.address)
        held = after_parts(between, 7, transport, hosts, "hold")
        ticket = reader.pull(1, 0, CHUNK, INTO, source)
        pump(hosts, held.is_set)
        connections = between.connections
        between.resume()
        assert pulled(hosts, reader, ticket) == "" and reader.memory[INTO : INTO + CHUNK] == DATA
        assert between.connections > connections


def test_a_source_lets_go_of_a_reader_that_is_silent(monkeypatch):
    from jmars.transport import serving

    monkeypatch.setattr(serving, "PEER_SILENT_SECONDS", 0.5)
    with carriers(0, 1) as hosts:
        reader, source = hosts
        in_the_middle(reader, source)
        os.kill(reader.pid, signal.SIGSTOP)
        source.answers = None
        source.answer()
        pump([source], lambda: not source.open_requests)
        os.kill(reader.pid, signal.SIGCONT)
        pump(hosts, lambda: 1 in reader.pulled)
        assert reader.pulled[1][0] == "" and reader.memory[INTO : INTO + CHUNK] == DATA


def test_a_host_that_is_gone_is_cut_off_and_refused_for_ever():
    with carriers(0, 1) as hosts:
        reader, source = hosts
        ticket = in_the_middle(reader, source)
        source.send("gone", *reader.holder)
        pump([source], lambda: not source.open_requests)
        reader.send("gone", *source.holder)
        assert "host 1 is gone" in pulled([reader], reader, ticket)
        reader.knows(source)
        assert "none of its holders is known" in pulled([reader], reader, reader.pull(1, 0, 9, INTO, source))


def test_a_refused_host_hears_why(hasty):
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, DATA)
        source.send("gone", *reader.holder)
        error = pulled(hosts, reader, reader.pull(1, 0, 9, INTO, source))
        assert "refuses this one: host 0, incarnation 1 is gone" in error and not source.asked


@pytest.mark.parametrize(
    "who",
    [identity(1, ca="other"), identity(1, incarnation=2), identity(1, named=(2, 1)), identity(1, cluster="another")],
    ids=["CA", "incarnation", "name", "cluster"],
)
def test_a_host_that_is_not_the_one_that_was_named_gives_nothing(hasty, who):
    with carriers(0, who, 2) as hosts:
        reader, source, other = hosts
        source.fill(1, 4096, bytes(100))
        other.fill(1, 4096, DATA)
        reader.send("peer", 1, 1, f"127.0.0.1:{source.port}")
        ticket = reader.pull(1, 0, 100, INTO, (1, 1), other)
        assert pulled(hosts, reader, ticket) == "" and reader.pulled[ticket][1] == 2 and not source.asked
        assert reader.memory[INTO : INTO + 100] == DATA[:100]
        assert "host 1 sent nothing" in pulled(hosts, reader, reader.pull(1, 0, 100, INTO, (1, 1)))
