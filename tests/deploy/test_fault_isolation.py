"""A fault ends the jobs that run; many faults, or a fault while jobs are ended, end the process."""

from __future__ import annotations

from typing import Any

from jmars.deploy.control_process import MOST_FAULTS, FaultIsolation


def context(error: Exception | None = None, message: str = "a timer failed") -> dict[str, Any]:
    return {"message": message} | ({} if error is None else {"exception": error})


def test_a_fault_breaks_the_jobs_and_gives_nothing_up() -> None:
    broken: list[str] = []
    ended: list[str] = []
    FaultIsolation(broken.append, ended.append).handle(context(KeyError(7)))
    assert broken == ["KeyError: 7"] and not ended


def test_what_is_no_fault_breaks_nothing() -> None:
    broken: list[str] = []
    isolation = FaultIsolation(broken.append, broken.append)
    isolation.handle(context())
    isolation.handle(context(OSError(24, "too many files"), "socket.accept() out of system resource"))
    assert broken == []


def test_faults_without_end_give_the_process_up() -> None:
    broken: list[str] = []
    ended: list[str] = []
    isolation = FaultIsolation(broken.append, ended.append)
    for _ in range(MOST_FAULTS):
        isolation.handle(context(KeyError(7)))
    assert len(broken) == MOST_FAULTS - 1 and "KeyError: 7" in ended[0] and "please report that" in ended[0]


def test_a_fault_while_jobs_are_ended_gives_the_process_up() -> None:
    ended: list[str] = []

    def fails(why: str) -> None:
        raise ValueError(why)

    FaultIsolation(fails, ended.append).handle(context(KeyError(7)))
    assert "KeyError: 7" in ended[0] and "ValueError" in ended[0]
