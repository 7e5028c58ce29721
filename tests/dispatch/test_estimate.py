"""Estimate: what nobody has seen fills a batch; measurements are taken in slowly."""

from jmars.dispatch.ledger import Estimate
from jmars.model.limits import BATCH_SECONDS


def test_an_unknown_program_fills_a_batch_and_a_known_one_its_share():
    estimate = Estimate()
    assert estimate.seconds(1) == BATCH_SECONDS
    estimate.learn(1, 1e-6)
    assert estimate.seconds(1) == 1e-6
    for _ in range(200):
        estimate.learn(1, 1e-3)
    assert abs(estimate.seconds(1) - 1e-3) < 1e-5


def test_what_was_seen_is_taken_once_and_apart_where_memory_was_fresh():
    estimate = Estimate()
    for seconds in (1.0, 3.0):
        estimate.learn(1, seconds)
    estimate.learn(1, 9.0, fresh=4096)
    seen = estimate.take()[1]
    assert (seen.warm, seen.seconds) == (2, 4.0)
    assert (seen.cold, seen.cold_seconds, seen.fresh) == (1, 9.0, 4096)
    assert estimate.take() == {}
    assert estimate.seconds(1) == seen.next
