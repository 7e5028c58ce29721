"""Schedulers and hosts that are broken on purpose: the simulation must find out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jmars.flow import Counters
from jmars.memory import HostMemory
from jmars.model.messages import Finished, JobClosed, Report, Started
from jmars.model.status import OperandState as S
from jmars.scheduler.operand_rows import OperandActor
from jmars.scheduler.session_actor import SessionActor
from jmars.storage.arena import Arena
from tests.sim import executor
from tests.sim.faults import Faults
from tests.sim.world import Failed, World, run

TRIES = 30  # seeds in which a broken one must be found


def found(faults: Callable[[], Faults] = Faults, prepare: Callable[[World], None] = lambda _: None) -> str:
    """What the simulation says of the first run that breaks; empty if none does."""
    for seed in range(TRIES):
        try:
            run(seed, faults(), prepare)
        except Failed as failed:
            return str(failed)
    return ""


@pytest.mark.long
def test_the_real_one_is_not_found_guilty() -> None:
    assert found(lambda: Faults(repeats=0.3)) == ""


def test_who_counts_a_repeated_report_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = OperandActor.finished

    def counted(rows: OperandActor, operands: Any, worker: int) -> Any:
        for one in operands:
            if rows.state[one] == S.FINISHED:  # as if it ran again
                rows.state[one], rows.chosen[one] = S.RUNNING, worker
                rows.load[worker] += 1
                rows.running += 1
        return finished(rows, operands, worker)

    monkeypatch.setattr(OperandActor, "finished", counted)
    assert "again: python -m tests.sim --from" in found(lambda: Faults(repeats=0.3))


def test_who_frees_a_chunk_before_its_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = OperandActor.finished

    def early(rows: OperandActor, operands: Any, worker: int) -> Any:
        ready, workers, freed = finished(rows, operands, worker)
        graph = rows.counters.graph
        for one in {i for operand in operands for i in graph.preds[operand]}:
            if (
                rows.state[one] == S.FINISHED
                and rows.owner[one] >= 0
                and len(graph.succs[one]) > 1
                and one not in freed
            ):
                rows.state[one] = S.FREED
                rows.held[rows.owner[one]] -= rows.nbytes[one]
                freed.append(one)
        return ready, workers, freed

    monkeypatch.setattr(OperandActor, "finished", early)
    assert found()


@pytest.mark.parametrize("kind", [Started, Finished, JobClosed])
def test_who_loses_a_report(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    real = SessionActor.report
    told = [0]

    def loses(session: SessionActor, report: Report) -> None:
        told[0] += isinstance(report, kind)
        if not isinstance(report, kind) or told[0] % 20:
            real(session, report)

    monkeypatch.setattr(SessionActor, "report", loses)
    assert found()


def test_who_never_frees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostMemory, "free_chunks", lambda *_: None)
    assert "still there" in found() or "left behind" in found()


def test_who_gives_the_same_slot_to_two(monkeypatch: pytest.MonkeyPatch) -> None:
    allocate = Arena.allocate
    last: list[int] = []

    def twice(arena: Arena, size: int, at_end: bool = False) -> int | None:
        slot = allocate(arena, size, at_end)
        if slot is not None and size > 4096:
            last.append(slot)
            if len(last) % 9 == 0 and last[-2] in arena._sizes and arena.size_of(last[-2]) >= size:
                arena.free(slot)
                return last[-2]
        return slot

    monkeypatch.setattr(Arena, "allocate", twice)
    assert "slots" in found() or "KeyError" in found()


def test_an_executor_that_writes_a_wrong_number(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, calls = executor._compiled, [0]

    def wrong(blob: bytes) -> Any:
        program, kernel = compiled(blob)

        def run(out: Any, views: Any, args: Any, stop: Any) -> Any:
            value = kernel(out, views, args, stop)
            calls[0] += 1
            if out is not None and calls[0] % 50 == 0:
                out[...] += 1
            return value

        return program, run

    monkeypatch.setattr(executor, "_compiled", wrong)
    assert "wrong value" in found()


def test_a_run_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counters, "is_done", property(lambda _: False))
    said = found()
    assert "has not ended" in said or "nothing will ever happen" in said
