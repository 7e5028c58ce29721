"""HostLinks: what plans take, and when a change is told."""

from __future__ import annotations

from typing import Any

import pytest

from jmars.scheduler.host_links import BANDWIDTH, LATENCY, HostLinks


@pytest.fixture
def told() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def links(told: list[dict[str, Any]]) -> HostLinks:
    return HostLinks(told.append)


def test_plans_take_what_was_measured_and_else_a_guess(links: HostLinks) -> None:
    links.measured(7, {3: (1e8, 0.002)})
    assert links.bandwidth([3, 7]).tolist() == [[BANDWIDTH, 1e8], [BANDWIDTH, BANDWIDTH]]
    assert links.latency([3, 7]) == pytest.approx((0.002 + LATENCY) / 2)
    assert links.bandwidth([7]).shape == (1, 1) and links.latency([7]) == LATENCY


def test_a_change_is_told_from_a_half_on(links: HostLinks, told: list[dict[str, Any]]) -> None:
    for bandwidth in (1e8, 1.4e8, 0.7e8, 1.5e8, 1.1e8, 1e8):
        links.measured(2, {1: (bandwidth, 0.001)})
    assert [one["bandwidth"] for one in told] == [1e8, 1.5e8, 1e8]
    assert [one["why"] for one in told] == [
        "measured for the first time",
        "1.5 times as fast as before",
        "1.5 times as slow as before",
    ]
    assert told[0] == {
        "from": 1,
        "to": 2,
        "bandwidth": 1e8,
        "latency": 0.001,
        "transport": "tls",
        "why": told[0]["why"],
    }


def test_bytes_that_the_head_passes_on_are_a_link_too(links: HostLinks, told: list[dict[str, Any]]) -> None:
    links.passed(1, 2, 1000, 1e-3)  # too few to tell
    assert not told
    links.passed(1, 2, 4 * 2**20, 0.1)
    assert told[0]["transport"] == "head" and links.bandwidth([1, 2])[0, 1] == pytest.approx(4 * 2**20 / 0.1)
    links.measured(2, {1: (5e7, 0.001)})
    assert told[1]["transport"] == "tls" and told[1]["why"] == "parts come by TLS now"


def test_links_of_a_lost_host_are_forgotten(links: HostLinks, told: list[dict[str, Any]]) -> None:
    links.measured(2, {1: (1e8, 0.001), 3: (2e8, 0.001)})
    links.lost(1)
    assert links.bandwidth([1, 2, 3])[:, 1].tolist() == [BANDWIDTH, BANDWIDTH, 2e8]
    links.measured(2, {1: (1e8, 0.001)})
    assert len(told) == 3 and told[-1]["why"] == "measured for the first time"


def test_the_reason_for_a_transport_is_told_and_kept(links: HostLinks, told: list[dict[str, Any]]) -> None:
    links.measured(2, {1: (4e8, 2e-4)}, {1: ("ucx", "both hosts have RDMA")})
    assert told[-1]["transport"] == "ucx" and told[-1]["why"] == "measured for the first time; both hosts have RDMA"
    links.measured(2, {1: (4e8, 2e-4)}, {1: ("tls", "UCX has failed: a test")})
    assert told[-1]["why"] == "parts come by TLS now; UCX has failed: a test"
    (found,) = links.info({1: "host-1", 2: "host-2"})
    assert found == {
        "from": "host-1", "to": "host-2", "bandwidth": 4e8, "latency": 2e-4, "transport": "tls",
        "why": "UCX has failed: a test",
    }  # fmt: skip
    links.lost(1)
    assert links.info({1: "host-1", 2: "host-2"}) == []
