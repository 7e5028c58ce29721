"""A rechunk behind a file is read in the new chunks, where no piece of the file is read more often."""

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.optimize.passes import compile_graph
from jmars.optimize.slices import push_down_rechunks
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine

VALUES = np.random.default_rng(0).random((400, 600))


def plane(chunks=(40, 600), pieces=(20, 20), takes="steps"):
    return mt.from_blocks(VALUES.__getitem__, VALUES.shape, float, chunks, name="plane", takes=takes, pieces=pieces)


def labels(*tensors, workers=1):
    graph = TensorGraph.of([one.data for one in tensors])
    return [operand.label for operand in push_down_rechunks(graph, workers).operands]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (lambda x: x.rechunk((400, 60)), ["plane"]),
        (lambda x: (x + 1).rechunk((400, 60)).max(axis=0), ["plane", "add", "max"]),
        (lambda x: (x + plane((20, 100))).rechunk((100, 100)), ["plane", "plane", "add"]),
        (lambda x: (x + plane()).rechunk((400, 60)), ["plane", "plane", "add"]),
        (lambda x: x.rechunk((400, 60)).sum(axis=0), ["plane", "sum"]),
        (lambda x: mt.sort(x.rechunk((40, 60)), axis=0), ["plane", "sort"]),
        # a sum that is fused with an expression would add other blocks
        (lambda x: (x + 1).rechunk((400, 60)).sum(axis=0), ["plane", "add", "rechunk", "sum"]),
        # pieces would be read twice
        (lambda x: x.rechunk((400, 50)), ["plane", "rechunk"]),
        # several readers
        (lambda x: [x.rechunk((400, 60)).max(axis=0), x.max(axis=0)], ["plane", "rechunk", "max", "max"]),
    ],
)  # fmt: skip
def test_rechunks_that_go(expression, wanted):
    made = expression(plane())
    assert labels(*(made if isinstance(made, list) else [made])) == wanted


def test_what_stays_as_it_is():
    assert labels(plane(pieces=()).rechunk((400, 60))) == ["plane", "rechunk"]
    assert labels(plane(takes="chunks").rechunk((400, 60))) == ["plane", "rechunk"]
    x = plane()
    assert labels(x.rechunk((400, 60)), x) == ["plane", "rechunk"]
    graph = TensorGraph.of([plane().data])
    assert push_down_rechunks(graph) is graph


def test_workers_are_not_left_idle():
    x = plane().rechunk((400, 300))
    assert labels(x, workers=1) == ["plane"]
    assert labels(x, workers=2) == ["plane", "rechunk"]
    assert labels(plane((400, 600)).rechunk((400, 600)), workers=2) == ["plane"]


def test_results_keep_keys_and_chunks():
    x = (plane() + 1).rechunk((400, 60))
    made = push_down_rechunks(TensorGraph.of([x.data]))
    assert [made.metas[k] for k in made.results] == [x.data.meta]


def test_a_selection_of_a_rechunk_reads_its_elements():
    graph = TensorGraph.of([plane().rechunk((400, 60))[:3, ::100].data])
    assert compile_graph(graph, {}).after.reads.sum() == 3 * 6 * 8


def value(x, monkeypatch, parts):
    monkeypatch.setattr(engine, "tiled", lambda graph: compile_graph(graph, {"parts": parts}).after)
    return engine.OneByOne().fetch(x.data)


@pytest.mark.parametrize("seed", range(40))
def test_values_are_those_without_the_pass(seed, monkeypatch):
    rng = np.random.default_rng(seed)

    def cut():
        return tuple(rng.choice([20, 40, 60, 100, 400], 2).tolist())

    x = plane(cut())
    for k in rng.integers(0, 6, 4).tolist():
        match k:
            case 0 | 1:
                x = x.rechunk(cut())
            case 2:
                x = mt.sqrt(x) + 1
            case 3:
                x = x.T
            case 4:
                x = x * plane(cut()).sum(axis=0).mean()
            case 5:
                x = x - (plane(cut()) if x.shape == VALUES.shape else plane(cut()).T)
    x = [x, x.sum(axis=0), x.std(), mt.cumsum(x, axis=1), x[::7, 5:9], x.mean(axis=1)[3:9]][seed % 6]
    one, other = (value(x, monkeypatch, parts) for parts in (True, False))
    assert one.tobytes() == other.tobytes()
