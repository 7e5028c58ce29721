"""Estimate: what nobody has seen fills a batch; measurements are taken in slowly."""

from jmars.worker.estimate import BATCH_SECONDS, Estimate


def test_an_unknown_program_fills_a_batch_and_a_known_one_takes_what_it_took():
    estimate = Estimate()
    assert estimate.seconds(1) == BATCH_SECONDS
    estimate.learn(1, 1e-6)
    assert estimate.seconds(1) == 1e-6
    for _ in range(200):
        estimate.learn(1, 1e-3)
    assert abs(estimate.seconds(1) - 1e-3) < 1e-5
