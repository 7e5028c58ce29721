"""Workers are numbers that make sense, and an operand knows which of them may run it."""

import numpy as np
import pytest

from jmars.errors import GraphError
from jmars.plan import CPU, GPU, PlanGraph, Workers
from tests.plan.examples import cascade


def test_a_number_holds_for_all_and_an_array_for_each():
    workers = Workers.build(3, cores=[1, 2, 4], speed=[1.0, 1.0, 0.5], bandwidth=2.0)
    assert len(workers) == 3 and workers.rate == 5.0
    assert workers.bandwidth.shape == (3, 3) and workers.seconds_per_byte == 0.5
    assert Workers.build(1).seconds_per_byte == 0.0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cores": [1, 2]}, r"cores has shape \(2,\) and there are 3 workers"),
        ({"speed": 0.0}, "speed must be above 0"),
        ({"bandwidth": np.ones(3)}, r"bandwidth has shape \(3,\)"),
        ({"disk": np.nan}, "disk must be above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(given, says):
    with pytest.raises(GraphError, match=says):
        Workers.build(3, **given)


def test_there_must_be_a_worker():
    with pytest.raises(GraphError, match="no worker to plan for; start a worker first"):
        Workers.build(0)


def test_pins_and_devices_say_who_may_run_what():
    workers = Workers.build(3, device=[CPU, GPU, CPU])
    graph = PlanGraph.build(cascade().dag, 1.0, 1, pin=[-1, 2, -1, -1, -1], device=[0, 0, CPU, GPU, 0])
    assert workers.able(graph) == [(0, 1, 2), (2,), (0, 2), (1,), (0, 1, 2)]
    with pytest.raises(GraphError, match="wants worker -1 and device 2"):
        Workers.build(2).able(graph)
    pinned = PlanGraph.build(cascade().dag, 1.0, 1, pin=2)
    with pytest.raises(GraphError, match="wants worker 2 and device 0"):
        Workers.build(2).able(pinned)
