"""What a file tells of thousands of keys is read key by key, and nothing of it is lost on the way."""

import json

import numpy as np
import pytest

from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import ChunkType, Elementwise, single
from jmars.plan.costs import CostTable, KnownCost, newest, prior


def learnt(**known):
    costs = CostTable()
    for key, one in known.items():
        costs.made(key)[1] = one
    return costs


def test_only_what_is_asked_for_is_read():
    costs = CostTable()
    costs.take({f"program-{n}": f"{n + 1}.0 0.5 7 0" for n in range(1000)})
    (one,) = costs.of("program-7").values()
    assert one == KnownCost(8.0, 0.5, 7, False)
    assert len(costs.known) == 1 and len(costs.stored) == 999
    assert costs.of("no such key") == {} and "no such key" not in costs
    assert len(costs) == 1000 and set(costs) == {f"program-{n}" for n in range(1000)}


def test_what_was_not_asked_for_is_written_as_it_was_read():
    costs, text = CostTable(), "12345678.9 0.123456789012345 1795309602 1, 8.0 1e-07 3 0"
    costs.take({"add": text, "sin": text})
    assert len(costs.of("add")) == 2
    assert costs.as_data() == {"add": text, "sin": text} == json.loads(json.dumps(costs.as_data()))
    assert costs.as_data(["sin", "cos"]) == {"sin": text}


def test_lists_of_numbers_as_older_files_have_them_are_read():
    old, new = CostTable(), CostTable()
    old.take({"add": [[8.0, 0.5, 7, 1], [800, 1.5, 7, 0]]})
    new.take({"add": "8.0 0.5 7 1, 800.0 1.5 7 0"})
    assert old == new and len(old.of("add")) == 2


@pytest.mark.parametrize("rows", ["", "a b c d", "8 1 7", "8 -1 7 0", "nan 1 7 0", "8 1e999 7 0", [7], 3, None, {}])
def test_what_is_damaged_is_as_if_it_were_not_there(rows):
    costs = CostTable()
    costs.take({"add": rows})
    assert costs.of("add") == {} and costs == CostTable()


def test_what_is_taken_in_counts_more_than_what_was_known():
    costs = learnt(add=KnownCost(8.0, 0.5, 7))
    costs.take({"add": "8.0 0.25 9 0"})
    assert [one.seconds for one in costs.of("add").values()] == [0.5, 0.25]
    costs.take({"add": "8.0 0.125 9 0"})
    assert [one.seconds for one in costs.of("add").values()] == [0.5, 0.125]


def test_the_oldest_are_forgotten_read_or_not():
    costs = learnt(here=KnownCost(8.0, 0.5, 2), late=KnownCost(8.0, 0.5, 9))
    costs.take({"old": "8.0 0.5 1 0", "new": "8.0 0.5 3 0"})
    assert costs.forget_oldest(4) == []
    assert sorted(costs.forget_oldest(2)) == ["here", "old"] and sorted(costs) == ["late", "new"]
    assert set(costs.stored) == {"new"}, "it was looked at, not taken out"
    assert newest({"a": "8 1 5 0", "b": "8 1 6 0", "c": "junk"}, 2) == {"a": "8 1 5 0", "b": "8 1 6 0"}


def test_an_output_of_several_costs_what_its_function_does():
    chunk = ChunkType((10**6,), np.dtype("f8"))

    def seconds(op):
        expression = Expression((chunk.dtype,) * 2, (Node(op, (0, 1), chunk.dtype),))
        return prior(single(op, (chunk, chunk), Elementwise(expression, (0, 1), chunk)), 0)

    assert seconds("add") < seconds("divmod.0") < seconds("logaddexp")
