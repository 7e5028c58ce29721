"""Group tasks made by hand: failures, stops, inputs as bytes, programs of a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.engines import group_task
from jmars.engines.group_task import forget_programs, make_spec, run_group
from jmars.engines.groups import Group, single_group
from jmars.kernels import Pieces, group_run
from jmars.kernels.group_run import GroupReport, GroupStep, GroupValues, group_spec
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.model.messages import JobTable
from jmars.optimize import compile_graph
from jmars.processes.vitals import Meter
from jmars.tensor.ops.shape import copy_reshaped
from jmars.tensor.tensor_graph import TensorGraph

Array = np.ndarray[Any, Any]
F8 = ChunkType((4,), np.dtype("f8"))


def job(
    programs: Sequence[Program], rows: Sequence[int], inputs: Sequence[Sequence[int]], args: Any = None
) -> JobTable:
    readers = [[i for i, read in enumerate(inputs) if one in read] for one in range(len(rows))]
    return JobTable(
        "job",
        3,
        list(programs),
        list(rows),
        inputs,
        args,
        0,
        list(range(len(rows))),
        [programs[row].output.nbytes if row >= 0 else 32 for row in rows],
        [0] * len(rows),
        list(range(len(rows))),
        0,
        [i for i, row in enumerate(rows) if row < 0],
        readers,
    )


def call(function: Any, inputs: int = 0, output: ChunkType = F8, args: bool = False, kind: ChunkType = F8) -> Program:
    return single(function.__name__, [kind] * inputs, Call(function, (), tuple(range(inputs)), output, args))


def ones(out: Array, inputs: Any, params: Any, arg: Any) -> None:
    out[...] = 1


def double(out: Array, inputs: Any, params: Any, arg: Any) -> None:
    np.multiply(inputs[0], 2, out=out)


def fails(out: Array, inputs: Any, params: Any, arg: Any) -> None:
    raise ZeroDivisionError(f"by {inputs[0][0]}")


def leaves(out: Array, inputs: Any, params: Any, arg: Any) -> None:
    raise SystemExit(3)


def writes(out: Array, inputs: Any, params: Any, arg: Any) -> None:
    inputs[0][0] = 5


def pieces(out: None, inputs: Any, params: Any, arg: Any) -> Pieces:
    return Pieces([b"ab", bytes(inputs[0][:1].astype("u1"))])


def strided(out: None, inputs: Any, params: Any, arg: Any) -> Array:
    return np.repeat(inputs[0], 2)[::2][1:]


def itself(out: None, inputs: Any, params: Any, arg: Any) -> Array:
    return inputs[0][1:]


def run(table: JobTable, group: Group, inputs: Sequence[Any] = (), stop: Any = lambda: False) -> Any:
    return run_group(make_spec(table, group), inputs, stop, "tcp://1")


def whole(table: JobTable, outputs: Sequence[int]) -> Group:
    """All operands as one group."""
    operands = tuple(i for i, row in enumerate(table.program) if row >= 0)
    return Group(operands, tuple(table.stored), tuple(outputs), 0, 0)


def test_a_failure_ends_the_group_and_keeps_the_outputs_before() -> None:
    table = job([call(ones), call(double, 1), call(fails, 1)], [0, 1, 2, 1], [(), (0,), (1,), (1,)])
    report, outputs = run(table, whole(table, [1, 2, 3]))
    assert len(report.microseconds) == 2 and not report.stopped and report.worker == "tcp://1"
    assert outputs[0].tolist() == [2] * 4 and outputs[1:] == [None, None]
    failure = report.failure
    assert str(failure) == "ZeroDivisionError: by 2.0" and isinstance(failure.unpickled(), ZeroDivisionError)
    assert "in fails" in failure.traceback and "kernels/group_run.py" not in failure.traceback


def test_a_report_has_small_chunks_that_no_operand_reads() -> None:
    large = call(ones, output=ChunkType((group_task.TOLD // 8,), np.dtype("f8")))
    table = job([call(ones), call(double, 1), large], [0, 1, 2, 1], [(), (0,), (), (0,)])
    report, outputs = run(table, whole(table, [0, 1, 2, 3]))
    assert report.values == {1: outputs[1].tobytes(), 3: outputs[3].tobytes()}  # 0 is read, 2 would be too much
    table = job([call(ones), call(fails, 1)], [0, 1, 0], [(), (0,), ()])
    report, _ = run(table, whole(table, [1, 2]))
    assert report.failure is not None and report.values == {}


def test_even_an_exit_is_a_failure() -> None:
    table = job([call(leaves)], [0], [()])
    assert run(table, single_group(table, 0))[0].failure.name == "SystemExit"


def test_inputs_and_intermediate_chunks_are_read_only() -> None:
    table = job([call(ones), call(writes, 1)], [-1, 1], [(), (0,)])
    mine = np.arange(4.0)
    assert run(table, whole(table, [1]), [mine])[0].failure.name == "ValueError" and mine[0] == 0
    table = job([call(ones), call(writes, 1)], [0, 1], [(), (0,)])
    assert run(table, whole(table, [1]))[0].failure.name == "ValueError"


def test_a_program_that_cannot_be_loaded_fails_its_first_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine:
        def __reduce__(self) -> Any:
            return _not_here, ()

    table = job([call(ones), single("mine", [F8], Call(double, (Mine(),), (0,), F8))], [0, 1], [(), (0,)])
    for _ in range(2):
        report, outputs = run(table, whole(table, [0, 1]))
        assert str(report.failure) == "ModuleNotFoundError: no module here" and len(report.microseconds) == 1
        assert outputs[0] is not None and outputs[1] is None


def _not_here() -> None:
    raise ModuleNotFoundError("no module here")


def test_a_stop_between_operands() -> None:
    table = job([call(ones), call(double, 1)], [0, 1, 1], [(), (0,), (1,)])
    asked = iter([False, False, True])
    report, outputs = run(table, whole(table, [0, 1, 2]), stop=lambda: next(asked))
    assert report.stopped and report.failure is None and len(report.microseconds) == 2
    assert [one is None for one in outputs] == [False, False, True]


def test_a_stop_before_a_function_is_loaded() -> None:
    class Mine:
        def __reduce__(self) -> Any:
            return _not_here, ()

    table = job([single("mine", [F8], Call(double, (Mine(),), (0,), F8))], [-1, 0], [(), (0,)])
    report, outputs = run(table, whole(table, [1]), [np.ones(4)], stop=lambda: True)
    assert report == GroupReport("tcp://1", [], stopped=True) and outputs == [None]


def test_an_operand_without_its_input_is_not_run() -> None:
    table = job([call(ones), call(double, 1)], [-1, 0, 1, 1], [(), (), (0,), (1,)])
    report, outputs = run(table, whole(table, [1, 2, 3]), [None])
    assert report.stopped and report.failure is None and len(report.microseconds) == 1
    assert outputs[0] is not None and outputs[1:] == [None, None]


def test_a_stop_between_blocks() -> None:
    graph = compile_graph(TensorGraph.of([(mt.ones(10**6, chunk_size=10**6) * 2 + 1).data], {}), {}).after
    assert graph.n == 1
    table = job(graph.programs, [0], [()], graph.args)
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) > 3

    report, outputs = run(table, single_group(table, 0), stop=stop)
    assert report.stopped and outputs == [None] and len(asked) == 4 and not report.microseconds


def test_intermediate_chunks_are_dropped_after_their_last_reader() -> None:
    table = job([call(ones), call(double, 1)], [0, 1, 1, 1], [(), (0,), (0,), (2,)])
    group = whole(table, [3])
    spec = group_spec(table, group.operands, group.inputs, group.outputs)
    values = GroupValues(spec.steps, spec.outputs, spec.shapes, [])
    held = []
    for number in range(4):
        values.keep(number, np.ones(4))
        held.append([k for k, chunk in enumerate(values._chunks) if chunk is not None])
    assert held == [[0], [0], [2], [3]]  # nothing reads the second one


kept: list[Array] = []


def keeps(out: Array, inputs: Any, params: Any, arg: Any) -> None:
    kept.append(inputs[0])
    out[...] = inputs[0] + 1


def notes(out: Array, inputs: Any, params: Any, arg: Any) -> None:
    kept.append(out.ctypes.data)
    np.add(inputs[0], 1, out=out)


LARGE = ChunkType((20_000,), np.dtype("f8"))


def test_memory_of_a_chunk_that_ended_is_used_again() -> None:
    kept.clear()
    programs = [call(ones, output=LARGE), call(notes, 1, LARGE, kind=LARGE)]
    table = job(programs, [0, 1, 1, 1, 1], [(), (0,), (1,), (2,), (3,)])
    _, (found,) = run(table, whole(table, [4]))
    assert np.all(found == 5) and len(set(kept)) == 2
    _, (other,) = run(table, whole(table, [4]))
    assert not np.shares_memory(found, other) and np.all(found == 5)


def test_memory_of_a_chunk_that_a_function_keeps_is_not_used_again() -> None:
    kept.clear()
    programs = [call(ones, output=LARGE), call(keeps, 1, LARGE, kind=LARGE)]
    table = job(programs, [0, 1, 1, 1, 1], [(), (0,), (1,), (2,), (3,)])
    _, (found,) = run(table, whole(table, [4]))
    assert np.all(found == 5) and [set(chunk.tolist()) for chunk in kept] == [{1.0}, {2.0}, {3.0}, {4.0}]
    kept.clear()


def test_a_reshaped_chunk_is_a_view_of_its_input() -> None:
    flat = ChunkType((6,), F8.dtype)
    shaped = single("reshape", (flat,), Call(copy_reshaped, (), (0,), ChunkType((2, 3), F8.dtype), reshapes=True))
    table = job([shaped], [-1, 0], [(), (0,)])
    mine = np.arange(6.0)
    _, (found,) = run(table, whole(table, [1]), [mine])
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]] and np.shares_memory(found, mine) and not found.flags.writeable
    assert mine.flags.writeable


def test_results_of_unknown_size_are_whole_arrays_of_their_own() -> None:
    u1, f8 = ChunkType((-1,), np.dtype("u1")), ChunkType((-1,), np.dtype("f8"), 32)
    for function, output, expected in [(pieces, u1, [97, 98, 7]), (strided, f8, [8, 9, 10]), (itself, f8, [8, 9, 10])]:
        table = job([call(function, 1, output)], [-1, 0], [(), (0,)])
        mine = np.arange(7.0, 11.0)
        report, (found,) = run(table, whole(table, [1]), [mine])
        assert found.tolist() == expected and report.shapes == {0: (3,)}
        assert not np.shares_memory(found, mine) and found.flags.c_contiguous


def test_a_result_unlike_the_promise_is_a_failure() -> None:
    table = job([call(itself, 1, ChunkType((-1,), np.dtype("f4")))], [-1, 0], [(), (0,)])
    assert run(table, whole(table, [1]), [np.arange(4.0)])[0].failure.name == "TypeError"


@pytest.mark.parametrize(
    "kind", [F8, ChunkType((2, 2), F8.dtype), ChunkType((-1,), F8.dtype), ChunkType((2, -1), F8.dtype)]
)
def test_uploaded_bytes_become_chunks(kind: ChunkType) -> None:
    def total(out: Array, inputs: Any, params: Any, arg: Any) -> None:
        assert inputs[0].flags.aligned and inputs[0].ndim == len(kind.shape)
        out[...] = inputs[0].sum()

    table = job([call(total, 1, kind=kind)], [-1, 0], [(), (0,)])
    data = np.arange(4.0).tobytes()
    for given in (np.frombuffer(data, np.uint8), np.frombuffer(b"x" + data, np.uint8)[1:]):  # one is not aligned
        shapes = {0: kind.shape if kind.is_sized else (2, 2)[: len(kind.shape)] if kind.shape[0] == 2 else (4,)}
        for known in (shapes, None):
            report, (found,) = run_group(make_spec(table, whole(table, [1]), known), [given], lambda: False, "w")
            assert (
                report == GroupReport("w", report.microseconds, values={0: found.tobytes()})
                and found.tolist() == [6] * 4
            )


def test_a_program_is_loaded_once_by_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_programs()
    loads: list[bytes] = []
    usual = group_run.cloudpickle.loads

    def counted(blob: bytes) -> Any:
        loads.append(blob)
        return usual(blob)

    monkeypatch.setattr(group_run.cloudpickle, "loads", counted)
    table = job([call(ones)], [0], [()])
    spec, found = make_spec(table, single_group(table, 0)), []
    threads = [threading.Thread(target=lambda: found.append(run_group(spec, [], lambda: False, "w"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outputs[0].tolist() for _, outputs in found] == [[1.0] * 4] * 8 and len(loads) == 1


def test_waiting_for_a_core_is_no_part_of_an_operands_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def pauses(out: Array, inputs: Any, params: Any, arg: Any) -> None:
        time.sleep(0.05)
        out[...] = 1

    waited = iter([0, 90_000_000, 90_000_000])
    table = job([call(pauses)], [0, 0], [(), ()])
    monkeypatch.setattr(Meter, "_nanoseconds", lambda meter: next(waited))
    report, _ = run(table, whole(table, [0, 1]))
    assert len(report.microseconds) == 2 and 5_000 <= sum(report.microseconds) <= 45_000


def test_equal_programs_are_pickled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_programs()
    table = job([call(ones), call(double, 1)], [0, 1, 1], [(), (0,), (0,)])
    first = group_task.pickle.loads(make_spec(table, single_group(table, 1)))
    monkeypatch.setattr(group_run.cloudpickle, "dumps", lambda program: pytest.fail("pickled again"))
    other = job([call(double, 1)], [-1, 0], [(), (0,)])
    again = group_task.pickle.loads(make_spec(other, Group((1,), (0,), (1,), 0, 0)))
    assert first == again and first.job == 3 and first.steps == (GroupStep(0, (0,), ()),)
