"""Both graphs of a plan as JSON that can be read, edited and planned."""

import json

import numpy as np
import pytest
from hypothesis import given, settings

import jmars.tensor as mt
from jmars.client.plans import PlannedRun, plan_for
from jmars.client.plans.plan_text import FORMAT, as_json, read_json
from jmars.errors import GraphError
from jmars.graph import Dag
from jmars.plan import PlanGraph, Workers
from tests.plan.examples import clusters, graphs

HAND = """{"format": "jmars-plan-1",
 "tasks": [{"name": "load", "seconds": 2, "bytes": 100},
           {"name": "load", "seconds": 2, "bytes": 100},
           {"name": "join", "seconds": 1, "bytes": 10, "inputs": [0, 1]}],
 "machines": [{"workers": 1}, {"workers": 1, "speed": 2}],
 "links": {"bandwidth": 1000, "latency": 0}}"""


def planned():
    x = mt.ones((1024, 1024), chunk_size=256)
    return plan_for([((x + 1) @ (x + 2)).data], 2, 512 * 2**20)


@settings(max_examples=30)
@given(graphs(), clusters())
def test_what_is_written_is_read_again(graph, workers):
    held = [False] * graph.n
    text = as_json(graph, workers, ["<a>"] * graph.n, held)
    again, machines, names, there = read_json(text)
    assert again.digest() == graph.digest() and np.array_equal(again.cost, graph.cost)
    for name in ("cores", "speed", "memory", "device", "disk"):
        assert np.array_equal(getattr(machines, name), getattr(workers, name)), name
    apart = ~np.eye(len(workers), dtype=bool)
    assert np.array_equal(machines.bandwidth[apart], workers.bandwidth[apart])
    assert machines.latency == workers.latency and set(names) <= {"<a>"} and there == held


def test_a_plan_is_planned_again_from_its_text():
    plan = planned()
    again = PlannedRun.from_json(plan.to_json(), policy="mars")
    assert again.makespan == plan.what_if(policy="mars").makespan
    assert again.labels == plan.labels and again.operands == plan.operands
    assert again.what_if(workers=4).makespan < again.makespan
    repr(again), again._repr_html_()
    with pytest.raises(GraphError, match="no arrays to rechunk"):
        again.what_if(chunk_size="1MiB")


def test_somebody_may_write_it_by_hand():
    plan = PlannedRun.from_json(HAND)
    assert plan.workers.speed.tolist() == [1.0, 2.0] and plan.operands == 3
    assert 2.5 <= plan.makespan <= 2.6 + 1e-9  # both on the fast machine, or one each and 0.1 s to send
    dearer = json.loads(HAND)
    dearer["tasks"][2]["seconds"] = 5
    assert PlannedRun.from_json(json.dumps(dearer)).makespan == pytest.approx(plan.makespan + 2)


def test_whole_numbers_may_have_an_exponent():
    text = HAND.replace('"bytes": 100', '"bytes": 1e2').replace('{"workers": 1}', '{"workers": 1.0, "memory": 8e9}')
    graph, workers, *_ = read_json(text)
    assert graph.nbytes.tolist() == [100, 100, 10] and workers.memory[0] == 8 * 10**9
    for wrong in ("8.5", "1e400", "1e300"):
        with pytest.raises(GraphError, match=r"at `\$.tasks\[0\].bytes`"):
            read_json(HAND.replace('"bytes": 100', f'"bytes": {wrong}'))


def test_names_may_be_any_text():
    pair = PlanGraph.build(Dag.from_edges(1, [], []), cost=[1.0], nbytes=8)
    assert read_json(as_json(pair, Workers.build(1), ["\ud800 ü"], [False]))[2] == ["\ud800 ü"]


def test_what_is_held_stays_held():
    data = json.loads(HAND)
    data["tasks"][0]["held"] = True
    assert PlannedRun.from_json(json.dumps(data)).operands == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"no plan \(Expecting value.*\); give the text of PlannedRun"),
        (b"\xff", "no plan"),
        ("[" * 100_000, "no plan"),
        ('{"tasks": ' + "[" * 100_000, "no plan"),
        ("{}", "missing required field `format`"),
        ('{"format": "jmars-plan-1"}', "missing required field `tasks`"),
        ('{"format": "jmars-plan-2"}', r"Invalid enum value 'jmars-plan-2' - at `\$.format`"),
        (HAND.replace('"seconds": 1', '"time": 1'), r"unknown field `time` - at `\$.tasks\[2\]`"),
        (HAND.replace('"seconds": 1', '"seconds": -1'), r">= 0.* - at `\$.tasks\[2\].seconds`"),
        (HAND.replace('"seconds": 1', '"seconds": NaN'), "no plan"),
        (HAND.replace("[0, 1]", '["load"]'), r"Expected `int`, got `str` - at `\$.tasks\[2\].inputs\[0\]`"),
        (HAND.replace("[0, 1]", "[0, 2]"), "itself"),
        (
            HAND.replace('"workers": 1, "speed"', '"device": "tpu", "speed"'),
            r"'tpu' - at `\$.machines\[1\].device`",
        ),
        (HAND.replace('"bandwidth": 1000', '"bandwidth": [[1]]'), "2 lists of 2 numbers"),
        (f'{{"format": "{FORMAT}", "tasks": [], "machines": []}}', "no worker"),
    ],
)
def test_what_is_no_plan_is_said(text, words):
    with pytest.raises(GraphError, match=words):
        PlannedRun.from_json(text)
