"""Chunks of other workers come at any address: programs that only move elements read them there, others a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.kernels.group_run import GroupSpec, GroupStep, LoadedPrograms, pickled, run_steps
from jmars.kernels.program import Call, ChunkType, single

CHUNK = ChunkType((30_000,), np.dtype("f8"))
seen: list[np.ndarray[Any, Any]] = []


def copied(out: Any, inputs: Any, params: Any, arg: Any) -> None:
    seen.append(inputs[0])
    out[...] = inputs[0]


def unaligned() -> np.ndarray[Any, Any]:
    data = np.empty(CHUNK.nbytes + 1, np.uint8)[1:].view("f8")
    data[...] = np.arange(30_000.0)
    assert not data.flags.aligned
    return data


def run(moves: list[bool], inputs: list[Any]) -> list[Any]:
    """A step for each entry of `moves`, of input 0, 0, 1, 1, ...; returns the last chunk."""
    programs = [single("copy", (CHUNK,), Call(copied, (one,), (0,), CHUNK, moves=one)) for one in moves]
    steps = tuple(GroupStep(k, (k // 2,), ()) for k in range(len(moves)))
    spec = GroupSpec(1, tuple(map(pickled, programs)), steps, (len(moves) - 1,))
    seen.clear()
    report, (found,) = run_steps(spec, inputs, lambda: False, "w", LoadedPrograms())
    assert report.failure is None and np.array_equal(found, np.arange(30_000.0))
    return seen


def test_moved_elements_are_read_where_they_are() -> None:
    x = unaligned()
    assert all(np.shares_memory(one, x) and not one.flags.writeable for one in run([True, True], [x]))


def test_other_programs_share_an_aligned_copy() -> None:
    x = unaligned()
    first, moved, *others = run([False, True, False, False], [x, unaligned()])
    assert first.flags.aligned and not first.flags.writeable and not np.shares_memory(first, x)
    assert np.shares_memory(moved, x)
    assert all(one.flags.aligned and np.shares_memory(one, others[0]) for one in others)


def test_aligned_chunks_are_never_copied() -> None:
    x = np.arange(30_000.0)
    assert all(np.shares_memory(one, x) for one in run([False, True], [x]))
