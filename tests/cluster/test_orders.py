"""A job under a tight memory limit runs in the order that was found best, and spills about what was predicted."""

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config

MIB = 2**20


@pytest.fixture(scope="module")
def small():
    with Cluster(n_workers=2, memory_limit="240MiB") as cluster:
        yield cluster


def transposed():
    z = mt.arange(6000.0 * 4000, chunk_size=500_000).reshape(6000, 4000).rechunk(chunk_size=1000) + 1
    return (z + z[::-1]).sum(axis=0)


def told(job):
    built = next(event[4] for event in job.events() if event[2] == "GraphBuilt")
    ended = [event[4] for event in job.events() if event[2] == "JobMoved"][-1]
    return built["predicted"], ended["measured"]


@pytest.mark.long(beyond=2)
@pytest.mark.parametrize("order", ["auto", "mars", "dfs", "blevel", "level"])
def test_values_are_right_in_every_order(small, order):
    with config.using(task=config.task | {"order": order}):
        job = small.submit(transposed())
    x = np.arange(6000.0 * 4000).reshape(6000, 4000) + 1
    assert np.array_equal(job.result(60), (x + x[::-1]).sum(axis=0))


def test_the_plan_tells_beforehand_about_what_is_spilled_and_held(small):
    z = mt.ones((5000, 5000), chunk_size=1000) + 1  # 191 MiB, and the sum as much again: 130 lie in memory
    with config.using(task=config.task | {"redraw": False}):  # else no chunk of z is ever held
        job = small.submit(z + z.T)
    assert job.wait(60)
    predicted, measured = told(job)
    assert predicted["chosen"] in {name for name, *_ in predicted["tried"]}
    assert predicted["spilled"] > 0 and measured["spilled"] > 0
    assert measured["spilled"] <= 2 * predicted["spilled"] + 40 * MIB  # ten chunks that were sent ahead
    assert predicted["peak"][1] <= small.memory_limit
    del job


def test_what_is_preferred_is_validated_where_it_is_set():
    with pytest.raises(Exception, match="order cannot be 'best'; choose one of auto, mars, dfs, blevel, level"):
        config.load({"task": {"default_config": {"order": "best"}}})
    with pytest.raises(Exception, match="prefer cannot be 'quick'; choose one of lean, fast, memory"):
        config.load({"task": {"default_config": {"prefer": "quick"}}})
