"""Groups by predicted times: transfers count with the bytes that chunks of unknown size probably have."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.engines.engine import EngineWorker
from jmars.engines.planned_groups import planned_groups
from jmars.kernels.program import Call, ChunkType, single
from jmars.model.messages import JobTable
from jmars.plan import Profile, signature

BYTES, MOST = np.dtype("u1"), 10**8


@pytest.mark.parametrize("likely, workers", [(1000, {0, 1}), (None, {0})])
def test_transfers_count_with_expected_bytes(likely: int | None, workers: set[int]) -> None:
    """Eight stored chunks on two workers; operands that take 0.1 s choose some bytes of each, for a last operand."""
    x = ChunkType((10**7,), BYTES)
    chosen = ChunkType((-1,), BYTES, MOST, likely)
    programs = [
        single("choose", (x,), Call(print, (), (0,), chosen)),
        single("join", (chosen,) * 8, Call(print, (), tuple(range(8)), ChunkType((8,), BYTES))),
    ]
    profile = Profile()
    for _ in range(3):
        known = signature(programs[0])
        profile.observe(known.key, known.size, 0.1)
    stored, choosing, last = range(8), range(8, 16), 16
    job = JobTable(
        "job", 1, programs, [-1] * 8 + [0] * 8 + [1], [()] * 8 + [(i,) for i in stored] + [tuple(choosing)], None, 0,
        list(range(17)), [x.nbytes] * 8 + [MOST] * 8 + [8], [0] * 17, list(range(17)), 8, list(stored),
        [(i + 8,) for i in stored] + [(last,)] * 8 + [()], [last], [i % 2 for i in range(16)] + [0],
    )  # fmt: skip
    engine = [EngineWorker(f"key-{i}", f"worker-{i}", "here", 1, 10**10) for i in range(2)]
    groups = planned_groups(job, engine, profile, (0.005, 0.003), {i: i % 2 for i in stored}, 0.3e9)
    assert {group.worker for group in groups} == workers
