"""Shards in another process: the same rows as here, whenever the process ends."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from jmars.scheduler.shards import RemotePlace, Shards, make_rows, parts_of

N, WORKERS, KEY = 60, 3, b"0123456789abcdef"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of a process that holds shards."""
    path = str(tmp_path_factory.mktemp("holder") / "s1")
    orders = {"holds": path, "key": KEY.hex(), "path": sys.path}
    process = subprocess.Popen([sys.executable, "-P", "-m", "jmars", "scheduler"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(orders).encode() + b"\n")
    process.stdin.flush()
    while not Path(path).exists() or not place(path, []).is_there():
        time.sleep(0.01)
    yield path
    process.stdin.close()
    assert process.wait(60) == 0


def place(path: str, told: list[tuple[str, str]], key: bytes = KEY) -> RemotePlace:
    return RemotePlace("scheduler-1", path, key, lambda *what: told.append(what))


def graph(seed: int) -> FlowGraph:
    draw = random.Random(seed)
    edges = [(draw.randrange(b), b) for b in range(10, N) for _ in range(2)]
    return FlowGraph(Dag.from_edges(N, [a for a, _ in edges], [b for _, b in edges]), kept=[N - 1, N - 2])


def rows(seed: int, there: RemotePlace | None) -> Shards:
    home = [one % 2 for one in range(N)]
    return Shards(Counters(graph(seed)), [10] * N, [-1] * N, WORKERS, home, {1: there} if there else None)


def drive(rows: Shards, seed: int, die: int = -1) -> list[object]:
    """Run operands in an order of the seed, with deaths of workers and lost chunks; the `die`-th step ends the line."""
    draw, seen, queue = random.Random(seed), list[object](), list[tuple[int, int]]()
    queue += zip(*rows.start())
    step = 0
    while queue:
        step += 1
        if step == die:
            rows.shards[1]._line.close()  # type: ignore[attr-defined]
        operand, worker = queue.pop(draw.randrange(len(queue)))
        seen.append(rows.started([operand], worker))
        if draw.random() < 0.1:
            moved = rows.dropped([operand])
            queue += zip(moved.ready, moved.workers)
            continue
        if draw.random() < 0.2:
            rows.sized(operand, (2,), 16)
        ready, workers, freed = rows.finished([operand], worker)
        queue += zip(ready, workers)
        seen += [ready, workers, freed, list(rows.load), bytes(rows.state), rows.running, rows.is_done]
        if draw.random() < 0.05 and (found := rows.lost([operand], 0.0)) is not None:
            waiting = {one for one, _ in queue}
            queue += [pair for pair in zip(found.ready, found.workers) if pair[0] not in waiting]
            moved = rows.missing([one for one in waiting if rows.counters.graph.preds[one]])
            queue = [pair for pair in queue if pair[0] not in waiting or not rows.counters.graph.preds[pair[0]]]
            queue += zip(moved.ready, moved.workers)
    return [*seen, rows.chosen, rows.owner, rows.held, rows.tries, rows.free()]


@pytest.mark.parametrize("seed", range(4))
def test_a_shard_elsewhere_gives_what_one_here_gives(path: str, seed: int) -> None:
    there = rows(seed, place(path, []))
    assert drive(there, seed) == drive(rows(seed, None), seed)
    there.close()


@pytest.mark.parametrize("die", [1, 2, 17, 40])
def test_whenever_the_process_ends_the_rest_is_the_same(path: str, die: int) -> None:
    told: list[tuple[str, str]] = []
    assert drive(rows(1, place(path, told)), 1, die) == drive(rows(1, None), 1)
    assert [name for name, _ in told] == ["scheduler-1"]


def test_small_jobs_and_absent_processes_leave_all_here(path: str, tmp_path: Path) -> None:
    args = Counters(graph(0)), [10] * N, [-1] * N, WORKERS, 1
    gone = place(str(tmp_path / "s2"), [])
    assert not isinstance(make_rows(*args, {"scheduler-1": place(path, [])}), Shards)  # 60 are few
    assert not isinstance(make_rows(*args, {"scheduler-2": gone}), Shards)
    assert gone.make(parts_of(args[0], [10] * N, [-1] * N, WORKERS, [0] * N)[0], bytearray(N), [0]) is None


def test_a_connection_without_the_secret_is_refused(path: str) -> None:
    assert not place(path, [], b"another secret..").is_there()
    assert not place(path, [], b"x" * 5000).is_there()
