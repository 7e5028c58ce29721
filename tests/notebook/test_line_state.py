"""Costs by source line: of fused operands, of several stages, of lines in other cells."""

import numpy as np

from jmars.model.status import OperandState as S
from jmars.notebook.run_state import RunState
from jmars.notebook.tab_states import MOST_LINES, CellFacts
from tests.notebook.events_for_tests import graph_built, started, u32

CELL = CellFacts("cell-1", 4, 1000.0, file="<cell>", text=("a = np.random.rand(8)", "b = a + 1", "b.sum()", "# end"))


def run_with(log, cell=CELL, job="job-1"):
    run = RunState(cell=cell)
    run.follow(job)
    run.fold(log.events)
    return run


def timed(log, ids, allocate=0.0, prepare=0.0, calculate=0.0, store=0.0):
    took = [u32([int(1e6 * seconds)] * len(ids)) for seconds in (allocate, prepare, calculate, store)]
    return log.add("OperandsTimed", 1.0, worker=0, ids=u32(ids), microseconds=took, backends=[])


def costs_of(run):
    return np.frombuffer(run.trait("line_costs", 0.0), "<f4").reshape(len(run.lines.code), -1)


def rows_of(run, operand):
    bits = run.lines.lines_of(np.array([operand]))
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()


def test_a_fused_operands_seconds_are_split_among_its_lines():
    log = timed(started(4), [0, 1], allocate=0.25, prepare=0.5, calculate=2.0, store=1.0)
    costs = costs_of(run_with(timed(log, [4], calculate=3.0)))
    assert costs[:, :5].tolist() == [[0.25, 0.5, 2, 1, 3], [0.25, 0.5, 2, 1, 3], [0, 0, 3, 0, 0], [0, 0, 0, 0, 0]]


def test_bytes_are_of_the_line_that_makes_the_output():
    log = started(4)
    log.events[-1][4]["after_nbytes"] = np.array([64, 64, 64, -1, 8], "<i8").tobytes()
    assert costs_of(run_with(timed(log, [0, 1, 3])))[:, 5].tolist() == [0, 128, 0, 0]


def test_states_are_counted_by_line_over_all_stages():
    log = started(4).moved(S.FINISHED, [0, 1]).moved(S.RUNNING, [2], 1)
    log.add("GraphBuilt", 0.1, **graph_built(2), stage_number=2).moved(S.READY, [0])
    states = costs_of(run_with(log))[:, 6:]
    assert states.sum(1).tolist() == [6, 6, 2, 0]
    assert states[1, S.FINISHED] == 2 and states[1, S.RUNNING] == 1 and states[1, S.READY] == 1


def test_a_graph_that_is_told_again_is_not_counted_twice():
    log = started(4).moved(S.FINISHED, [0])
    log.add("GraphBuilt", 0.1, **graph_built(4), stage_number=1)
    assert costs_of(run_with(log))[:, 6:].sum() == 9


def test_lines_elsewhere_follow_those_of_the_cell():
    log = started(4)
    log.events[-1][4]["stages"][0][1:4] = ["/tmp/ipykernel_1/7.py", 5, "def f(x):  # an earlier cell"]
    run = run_with(log, CellFacts(file="<cell>", text=CELL.text))
    assert [(row["where"], row["line"]) for row in run.lines.code] == [("", k) for k in (1, 2, 3, 4)] + [("a cell", 5)]
    assert rows_of(run, 0) == [1, 4]
    assert costs_of(run)[0].sum() == 0


def test_rows_are_bounded():
    log = started(4)
    text = tuple(f"x{k} = {k}" for k in range(2 * MOST_LINES))
    log.events[-1][4]["stages"][2][2] = 2 * MOST_LINES
    run = run_with(log, CellFacts(file="<cell>", text=text))
    assert len(run.lines.code) == MOST_LINES and run.lines.code[-1]["text"] == "further lines"
    assert rows_of(run, 4) == [MOST_LINES - 1]


def test_pieces_of_the_lanes_know_their_lines():
    run = run_with(timed(timed(started(4), [0], calculate=1.0), [4], calculate=1.0))
    lanes = run.trait("lanes", 0.0)
    assert [lanes["lines"][one] for one in lanes["lanes"][0]["lines"]] == [[0, 1], [2]]


def test_kinds_of_a_large_graph_know_the_operands_they_were_fused_from():
    assert run_with(started(1000)).picture(0.0)["graph"]["after_stages"] == [[0, 1], [2]]
    assert run_with(started(4)).picture(0.0)["graph"]["after_stages"] == []


def test_the_line_of_the_magic_is_not_listed():
    cell = CellFacts("cell-1", 2, 1000.0, file="<cell>", text=("# %%jmars -w 2", "a = 1"))
    assert [row["line"] for row in RunState(cell=cell).lines.code] == [2]
