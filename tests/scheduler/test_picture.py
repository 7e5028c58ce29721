"""The data of a GraphBuilt event that a plan and the tiling give: chunk types, chunk numbers, predicted seconds."""

import numpy as np

import jmars.tensor as mt
from jmars.kernels.program import program_text
from jmars.optimize import compile_graph
from jmars.plan import make_plan
from jmars.scheduler.prepare import graph_built, prediction
from jmars.tensor.tensor_graph import TensorGraph


def u4(values):
    return np.frombuffer(values, "<u4").tolist()


def built(*tensors):
    compiled = compile_graph(TensorGraph.of([tensor.data for tensor in tensors]), {})
    stored = compiled.after.program < 0
    plan = make_plan(compiled.dag, compiled.rank, [1], stored, "bfs")
    return compiled, graph_built(compiled, plan.assign, ["worker-0"])


def test_a_kind_has_the_dtype_and_the_shape_of_its_chunks():
    a = mt.ones((6, 4), chunk_size=(3, 2))
    compiled, data = built((a + 1).astype("f4").sum())
    types = dict(zip(data["group_labels"], data["group_types"]))
    assert ["float32", []] in types.values()
    for kind, program in enumerate(u4(data["group_program"])):
        output = compiled.after.programs[program].output
        assert data["group_types"][kind] == [str(output.dtype), list(output.shape)]
        assert data["group_texts"][kind] == program_text(compiled.after.programs[program])[:300] != ""


def test_a_chunk_is_numbered_within_its_tensor():
    _, data = built(mt.ones((6, 4), chunk_size=(3, 2)) + 1)
    stages = [stage[4] for stage in data["stages"]] or np.bincount(u4(data["before_stage"])).tolist()
    assert data["stage_grids"] == [[2, 2]] * len(stages)
    numbers = np.array(u4(data["before_chunk"]))
    for stage in range(len(stages)):
        assert numbers[np.array(u4(data["before_stage"])) == stage].tolist() == [0, 1, 2, 3]


def test_a_part_of_a_chunk_has_no_number():
    _, data = built(mt.ones((8,), chunk_size=2).sum())
    assert u4(data["before_chunk"]).count(0xFFFFFFFF) > 0
    assert data["stage_grids"][-1] == []


def test_seconds_are_predicted_where_there_is_a_machine():
    compiled, _ = built(mt.ones((8,), chunk_size=2) + 1)
    assert prediction(compiled, None, None)["after_seconds"] == b""
    seconds = np.arange(compiled.after.n) / 4
    assert np.frombuffer(prediction(compiled, None, seconds)["after_seconds"], "<f4").tolist() == seconds.tolist()
