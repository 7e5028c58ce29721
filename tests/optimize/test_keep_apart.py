"""Annotated operands: what differs is never fused, merged or drawn within another; values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.optimize import compile_graph
from jmars.optimize.passes import keep_apart
from jmars.tensor.operand import Annotation, annotate
from jmars.tensor.tensor_graph import TensorGraph

FUSIONS = ("region", "chain", "color")


def names(*tensors: Any, **settings: Any) -> list[str]:
    after = compile_graph(TensorGraph.of([one.data for one in tensors]), settings).after
    return [after.programs[k].name for k in after.program.tolist()]


@pytest.mark.parametrize("fuse", FUSIONS)
@pytest.mark.parametrize("tileable", [True, False])
def test_operands_for_two_workers_are_not_fused(fuse: str, tileable: bool) -> None:
    settings = {"fuse": fuse, "fuse_tileable": tileable}
    with annotate(worker=0):
        x = mt.random.default_rng(1).random(8, chunk_size=4) + 1
    with annotate(worker=1):
        y = mt.exp(x) * 2
    assert sorted(names(y, **settings)) == ["exp+multiply"] * 2 + ["random+add"] * 2
    with annotate(worker=1):
        x = mt.random.default_rng(1).random(8, chunk_size=4) + 1
        y = mt.exp(x) * 2
    assert names(y, **settings) == ["random+add+exp+multiply"] * 2


@pytest.mark.parametrize("fuse", FUSIONS)
@pytest.mark.parametrize("tileable", [True, False])
def test_an_operand_that_may_not_be_fused_stays_alone(fuse: str, tileable: bool) -> None:
    x = mt.ones(8, chunk_size=4) + 1
    with annotate(fuse=False):
        y = mt.exp(x)
    found = names(mt.sin(y) * 2, fuse=fuse, fuse_tileable=tileable, redraw=False)
    assert sorted(found) == ["exp"] * 2 + ["ones+add"] * 2 + ["sin+multiply"] * 2


def test_equal_operands_with_other_annotations_are_computed_apart() -> None:
    x = mt.arange(8, chunk_size=8)
    one = mt.exp(x)
    with annotate(worker=0):
        other = mt.exp(x)
    assert len([name for name in names(one, other, fuse_enabled=False) if name == "exp"]) == 2
    assert len([name for name in names(one, mt.exp(x), fuse_enabled=False) if name == "exp"]) == 2  # two results
    assert names(one + other, fuse_enabled=False).count("exp") == 2
    assert names(one + mt.exp(x), fuse_enabled=False).count("exp") == 1


@pytest.mark.parametrize("redraw", [True, False])
def test_a_source_for_one_worker_is_not_drawn_by_readers_elsewhere(redraw: bool) -> None:
    with annotate(worker=0):
        x = mt.random.default_rng(1).random((400, 300), chunk_size=(200, 300))
    down = names(x.sum(axis=0) + 1, x[100:].max(axis=0), redraw=redraw)
    assert down.count("random") == 2
    free = mt.random.default_rng(1).random((400, 300), chunk_size=(200, 300))
    assert "random" not in names(free.sum(axis=0) + 1, free.max(axis=0)), "drawn by each reader"


def test_rows_are_numbered_only_where_some_are_annotated() -> None:
    plain = compile_graph(TensorGraph.of([(mt.ones(8, chunk_size=4) + 1).data]), {"fuse_enabled": False}).after
    assert keep_apart(plain) is None
    with annotate(gpu=True):
        x = mt.ones(8, chunk_size=4)
    with annotate(fuse=False):
        y = x + 1
    apart = keep_apart(compile_graph(TensorGraph.of([(y * 2).data]), {"fuse_enabled": False}).after)
    assert apart is not None and apart[0] == apart[1] and len(np.unique(apart)) == 4


def test_inner_blocks_override_outer_blocks() -> None:
    with annotate(worker="worker-1", fuse=False), annotate(worker=0):
        x = mt.ones(3)
    annotation = x.data.op.annotation
    assert annotation is not None and (annotation.worker, annotation.fuse, annotation.gpu) == (0, False, None)
    assert mt.ones(3).data.op.annotation is None
    with annotate(), annotate(fuse=True):
        assert mt.ones(3).data.op.annotation is None, "that asks for nothing"
    with annotate(gpu=True), annotate(gpu=False):
        assert mt.ones(3).data.op.annotation == Annotation(gpu=False)


def test_programs_for_a_gpu_are_not_fused_with_others_where_asked() -> None:
    graph = TensorGraph.of([(mt.random.default_rng(1).random(80, chunk_size=40) + 1).data])
    assert compile_graph(graph, {}).after.n == 2
    apart = compile_graph(graph, {}, runs_on_gpu=lambda program: bool(program.inputs)).after
    assert sorted({apart.programs[row].name for row in apart.program.tolist()}) == ["add", "random"]


@pytest.mark.parametrize("given", [{"worker": 1.0}, {"worker": True}, {"worker": -1}, {"gpu": 1}, {"fuse": "no"}])
def test_arguments_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"give True or False|number"), annotate(**given):
        pass


def test_operands_of_a_later_stage_have_the_annotation_of_their_origin() -> None:
    from jmars.optimize.unfolding import Unfolding

    x = mt.arange(8, chunk_size=4)
    with annotate(worker=1):
        y = mt.sort(x[x > 3])
    stage = Unfolding(TensorGraph.of([y.data])).next()
    assert stage is not None
    assert {op.annotation is None for op in stage.graph.operands} == {True, False}
