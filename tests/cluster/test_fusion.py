"""Fused operands on a real cluster: values, what the view is told, and whose line an error names."""

import itertools

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config

MODES = [*itertools.product(["chain", "region", "color"], [False, True])]


def ones(x):
    return x + 1


def fails(x):
    raise ZeroDivisionError("as it should")


@pytest.mark.parametrize("which", ["first", "second"])
@pytest.mark.parametrize("mode", ["chain", "region", "color"])
def test_an_error_in_a_fused_operand_names_the_line_that_raised(cluster, mode, which):
    x = mt.ones(10, chunk_size=10) * 2
    if which == "first":
        y = mt.map_blocks(fails, x, dtype=float)
        z = mt.map_blocks(ones, y, dtype=float)
    else:
        y = mt.map_blocks(ones, x, dtype=float)
        z = mt.map_blocks(fails, y, dtype=float)
    with config.using(task=config.task | {"fuse": mode}):
        job = cluster.submit((z + 1).sum())
    with pytest.raises(ZeroDivisionError) as caught:
        job.result()
    notes = "\n".join(caught.value.__notes__)
    assert "ones+fails" in notes or "fails+ones" in notes
    assert ("(y = mt.map_blocks(fails" if which == "first" else "(z = mt.map_blocks(fails") in notes


@pytest.mark.parametrize(("mode", "early"), MODES)
def test_every_mode_gives_the_value_and_shows_each_line_of_the_cell(cluster, mode, early):
    a, b = (mt.random.default_rng(seed).random((40, 6), chunk_size=(10, 3)) for seed in (1, 2))
    x = a + b
    value = (x * x - mt.exp(x)[::-1]).sum(axis=1)
    with config.using(task=config.task | {"fuse": mode, "fuse_tileable": early}):
        job = cluster.submit(value)
    a, b = (np.random.default_rng(seed).random((40, 6)) for seed in (1, 2))
    np.testing.assert_allclose(job.result(), ((a + b) ** 2 - np.exp(a + b)[::-1]).sum(axis=1), rtol=1e-13)
    built = next(event[4] for event in job.events() if event[2] == "GraphBuilt")
    stages = [stage[0] for stage in built["stages"]]
    assert stages[:3] == ["random", "random", "add"] and {"multiply", "exp", "subtract", "sum"} <= set(stages)
    before, into = np.frombuffer(built["before_stage"], "<u4"), np.frombuffer(built["before_group"], "<u4")
    assert len(before) == len(into) == built["n_before"] > built["n_after"]
    assert sorted(set(into.tolist())) == list(range(built["n_after"]))
    assert np.frombuffer(built["after_nbefore"], "<u4").tolist() == np.bincount(into).tolist()
