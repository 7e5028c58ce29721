"""Simulated runs of several hosts: every one keeps the promise; `python -m tests.sim --hosts 3` runs more of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from jmars.actors.lasting import Delivery
from jmars.scheduler.hosts import Places
from jmars.transport import pulling
from jmars.transport.pulling import Puller
from jmars.worker.chunk_exchange import CarrierLink, ChunkExchange
from tests.sim import lanes
from tests.sim.faults import Faults
from tests.sim.hosts import run_hosts
from tests.sim.world import Failed

SEEDS, BLOCK = 1000, 5
TRIES = 20  # seeds in which a broken one must be found


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_run_keeps_the_promise(first: int) -> None:
    reports = [run_hosts(seed, 3) for seed in range(first, first + BLOCK)]
    ends = [end for report in reports for end in report.ends]
    assert ends.count("succeeded") > len(ends) / 5, "runs that all fail show nothing"
    assert any(report.fetched for report in reports), "runs in which no chunk moves show nothing"


def test_without_faults_every_job_succeeds_or_raises_its_own_error() -> None:
    reports = [run_hosts(seed, 2 + seed % 3, Faults()) for seed in range(4)]
    assert {end for report in reports for end in report.ends} <= {"succeeded", "failed"}
    assert any(report.fetched for report in reports)


@pytest.mark.long
def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    code = "from tests.sim.hosts import run_hosts; print([run_hosts(seed, 3).trace for seed in range(4)])"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},  # the same linear algebra library, with the same bits
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{[run_hosts(seed, 3).trace for seed in range(4)]}\n"}


def found(faults: Callable[[], Faults], first: int = 0) -> str:
    """What the simulation says of the first run that breaks; empty if none does."""
    for seed in range(first, first + TRIES):
        try:
            run_hosts(seed, 3, faults())
        except Failed as failed:
            return str(failed)
    return ""


def test_a_port_that_forgets_what_a_lost_host_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Places, "lost", lambda *_: ([], {}))
    assert "hosts are" in found(lambda: Faults(host_deaths=2))


def test_a_lane_that_checks_no_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "block_sums", lambda view: Equal())
    assert "wrong value" in found(lambda: Faults(bytes_change=0.5))


class Equal:
    """Is equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def test_a_link_that_acts_twice_on_what_came_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Delivery.receive

    def twice(delivery: Delivery, frame: Any, now: float) -> bytes | None:
        message = receive(delivery, frame, now)
        return frame[2] if frame[0] and message is None else message

    monkeypatch.setattr(Delivery, "receive", twice)
    said = found(lambda: Faults(resets=5), first=11)
    assert "held twice" in said or "changed while it ran" in said


def test_a_source_that_takes_memory_to_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    serve = ChunkExchange._serve

    def greedy(exchange: ChunkExchange, chunk: int) -> Any:
        exchange._buffers.arena.allocate(4096)
        return serve(exchange, chunk)

    monkeypatch.setattr(ChunkExchange, "_serve", greedy)
    assert "takes memory, to serve" in found(Faults)


def test_a_carrier_whose_second_answer_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull fails and is withdrawn in one turn, which is common where the carrier reads its orders seldom."""
    monkeypatch.setattr(lanes, "GATHERS", 1.0)
    monkeypatch.setattr(lanes, "READ_SECONDS", 0.05)

    def withdraw(puller: Puller, ticket: int) -> None:
        if not puller._pulls.withdraw(ticket):
            puller._report("withdrawn", ticket)

    pulled = CarrierLink._pulled

    def once(link: CarrierLink, ticket: int, *told: Any) -> None:
        assert ticket in link._pulls, f"pull {ticket} ends twice"
        pulled(link, ticket, *told)

    monkeypatch.setattr(Puller, "withdraw", withdraw)
    monkeypatch.setattr(CarrierLink, "_pulled", once)
    assert "ends twice" in found(lambda: Faults(host_deaths=2, cancels=0.4, late=0.05))


def test_an_echo_reaches_each_handler() -> None:
    faults = {"echoes": 0.5, "cuts": 1, "resets": 1, "cancels": 0.3, "host_deaths": 1}
    heard = {name for seed in range(6) for name in run_hosts(seed, 3, Faults(**faults)).echoes}
    assert {"carrier: pull", "carrier: give", "carrier: peer", "carrier: gone", "CarrierLink.received"} <= heard
    assert {"HostOrders._act_on", "Hosts.take", "HostDispatch.received", "BufferManager.received"} <= heard
    assert {"ChunkExchange.add_peer", "ChunkExchange.drop_peer", "Roster.lost"} <= heard
