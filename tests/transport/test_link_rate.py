"""LinkRate: bandwidth of busy times, latency of an idle link."""

from __future__ import annotations

from jmars.transport.pulls import ENOUGH, LinkRate


def test_a_busy_time_tells_a_bandwidth_and_the_newest_count_most():
    rate = LinkRate()
    rate.begin(10.0)
    rate.moved(ENOUGH, 11.0)
    assert rate.bandwidth == ENOUGH
    rate.moved(2 * ENOUGH, 12.0)
    assert ENOUGH < rate.bandwidth < 2 * ENOUGH


def test_the_wait_before_a_busy_time_does_not_count():
    rate = LinkRate()
    rate.begin(0.0)
    rate.moved(100, 0.5)
    rate.begin(100.0)
    rate.moved(ENOUGH, 101.0)
    assert rate.bandwidth == ENOUGH


def test_few_bytes_tell_nothing():
    rate = LinkRate()
    rate.begin(0.0)
    rate.moved(ENOUGH - 1, 1.0)
    assert rate.bandwidth == 0.0 and rate.news() is None


def test_the_latency_is_the_fastest_round_trip_and_old_ones_expire():
    rate = LinkRate()
    assert rate.latency == 0.0
    rate.trips.append(0.001)
    rate.trips.append(0.2)
    assert rate.latency == 0.001
    for _ in range(16):
        rate.trips.append(0.1)
    assert rate.latency == 0.1


def test_news_are_told_once():
    rate = LinkRate()
    rate.begin(0.0)
    rate.moved(ENOUGH, 1.0)
    rate.trips.append(0.5)
    assert rate.news() == (ENOUGH, 0.5) and rate.news() is None
    rate.trips.append(0.25)
    assert rate.news() == (ENOUGH, 0.25)
