"""Seed 003, "Operand 选择策略": the order that keeps few chunks."""

import numpy as np

from jmars.graph import levels
from jmars.optimize.passes import depth_first, mars
from tests.graph.examples import tree
from tests.seeds.worked import held_after_each_unit


def test_s3_21_two_chunks_after_five_units_instead_of_six():
    dag, size = tree(8), np.ones(15, np.int64)
    by_level = held_after_each_unit(dag, np.lexsort((np.arange(15), levels(dag))), workers=2)
    assert by_level == [2, 4, 6, 8, 6, 4, 2, 1]
    for rank in (mars(dag, size), depth_first(dag, size)):
        assert held_after_each_unit(dag, rank, workers=2) == [2, 2, 4, 4, 2, 4, 3, 2, 1]
