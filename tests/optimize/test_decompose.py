"""Taking apart what was joined gives it back, whichever rule joined it."""

import numpy as np
import pytest
from hypothesis import given

from jmars.optimize.fuse_groups import decompose
from jmars.optimize.regions import fuse_chains, fuse_colors, fuse_regions
from tests.optimize.kinds import graphs


def rows(graph):
    """All that is known of each row."""
    return [
        (
            graph.programs[graph.program[k]] if graph.program[k] >= 0 else graph.stored[k],
            graph.inputs(k).tolist(),
            graph.args[k] if graph.args is not None else (),
            graph.layers[graph.layer[k]],
            int(graph.nbytes[k]),
            int(graph.work[k]),
        )
        for k in range(graph.n)
    ]


@pytest.mark.seed("S1.3")
@pytest.mark.parametrize("fuse", [fuse_chains, fuse_regions, fuse_colors])
@given(graphs())
def test_decomposed_is_what_was_composed(fuse, drawn):
    graph = drawn[0]
    back = decompose(fuse(graph))
    assert rows(back) == rows(graph)
    assert {k: v.tolist() for k, v in back.results.items()} == {k: v.tolist() for k, v in graph.results.items()}
    assert np.array_equal(back.input_ptr, graph.input_ptr) and back.stored == graph.stored
