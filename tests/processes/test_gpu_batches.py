"""Batches on a GPU made of NumPy: what they report of copies, for the cost profile."""

from __future__ import annotations

import mmap
from typing import Any

import cloudpickle
import numpy as np
import pytest

from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import ChunkType, Elementwise, single
from jmars.processes.executor import _Ready
from jmars.processes.executor_messages import ExecutorReport
from jmars.processes.gpu_batches import GpuBatches

SIZE = 2**20  # bytes of a chunk
F8 = np.dtype("f8")


@pytest.fixture
def gpu() -> GpuBatches:
    """Over shared memory with a chunk of ones."""
    memory = mmap.mmap(-1, 8 * SIZE)
    np.frombuffer(memory, F8, SIZE // 8)[:] = 1.0
    made = GpuBatches("fake:16MiB", memory, memory)
    assert made.warm_up().slab >= 8 * SIZE
    return made


def run(gpu: GpuBatches, *operands: Any) -> ExecutorReport:
    """All reports of a batch as one."""
    chunk = ChunkType((SIZE // 8,), F8)
    twice = single("add", (chunk,), Elementwise(Expression((F8,), (Node("add", (0, 0), F8),)), (0,), chunk))
    sent: list[ExecutorReport] = []
    gpu.run({0: _Ready(cloudpickle.dumps(twice))}, operands, lambda: False, sent.append)
    assert all(one.stop is None for one in sent)
    copies = sum(one.copies[0] for one in sent), sum(one.copies[1] for one in sent)
    moved = [nbytes for one in sent for nbytes in one.moved]
    return ExecutorReport(sum(one.finished for one in sent), [], 0, 0, None, [], moved=moved, copies=copies)


def order(read: int, write: int) -> Any:
    """Chunk `write` from chunk `read`; each lies at its number in shared memory and in the GPU."""
    return 0, write * SIZE, [read * SIZE], (), ([read * SIZE], [read], write * SIZE, write, 0)


def test_a_report_tells_what_was_copied_for_each_operand_and_how_fast(gpu: GpuBatches) -> None:
    found = run(gpu, order(0, 1), order(1, 2), order(0, 3))
    assert (found.finished, found.moved) == (3, [SIZE, 0, 0])
    assert 2 * SIZE <= found.copies[0] <= 4 * SIZE and found.copies[1] > 0, "one in, and those out that have ended"
    assert run(gpu, order(3, 4)).moved == [0]


def test_operands_that_a_core_computed_are_marked(gpu: GpuBatches) -> None:
    found = run(gpu, order(0, 1), (*order(1, 2)[:4], None), order(2, 3))
    assert found.moved == [SIZE, -1, SIZE]


def test_after_a_failure_of_the_gpu_all_that_is_left_is_marked(gpu: GpuBatches, monkeypatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("no")

    monkeypatch.setattr(gpu._device, "launch", fail)
    assert run(gpu, order(0, 1), order(1, 2)).moved == [-1, -1]
