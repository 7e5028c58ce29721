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
from jmars.processes.executor_messages import COPIED_DOWN, COPY_DOWN, REFUSED_BY_GPU, CopyDown, ExecutorReport
from jmars.processes.gpu_batches import GpuBatches

SIZE = 2**20  # bytes of a chunk
F8 = np.dtype("f8")


@pytest.fixture
def gpu() -> GpuBatches:
    """Over shared memory with a chunk of ones."""
    memory = mmap.mmap(-1, 8 * SIZE)
    np.frombuffer(memory, F8, SIZE // 8)[:] = 1.0
    made = GpuBatches("fake:16MiB", memory)
    assert made.warm_up().slab >= 8 * SIZE
    return made


def run(gpu: GpuBatches, *operands: Any) -> ExecutorReport:
    """All reports of a batch as one."""
    sent = reports(gpu, *operands)
    assert all(one.stop is None for one in sent)
    copies = sum(one.copies[0] for one in sent), sum(one.copies[1] for one in sent)
    moved = [nbytes for one in sent for nbytes in one.moved]
    return ExecutorReport(sum(one.finished for one in sent), [], 0, 0, None, [], moved=moved, copies=copies)


def reports(gpu: GpuBatches, *operands: Any) -> list[ExecutorReport]:
    """What a batch reports; each operand adds a chunk to itself."""
    sent: list[ExecutorReport] = []
    gpu.run(programs(), operands, lambda: False, sent.append)
    return sent


def programs() -> dict[int, Any]:
    """One, which adds a chunk to itself."""
    chunk = ChunkType((SIZE // 8,), F8)
    twice = single("add", (chunk,), Elementwise(Expression((F8,), (Node("add", (0, 0), F8),)), (0,), chunk))
    return {0: _Ready(cloudpickle.dumps(twice))}


def order(read: int, write: int) -> Any:
    """Chunk `write` from chunk `read`; each lies at its number in shared memory and in the GPU."""
    return 0, write * SIZE, [read * SIZE], (), ([read * SIZE], [read], write * SIZE, write, 0)


def test_a_report_tells_what_was_copied_for_each_operand_and_how_fast(gpu: GpuBatches) -> None:
    found = run(gpu, order(0, 1), order(1, 2), order(0, 3))
    assert (found.finished, found.moved) == (3, [2 * SIZE, SIZE, SIZE])
    assert 2 * SIZE <= found.copies[0] <= 4 * SIZE and found.copies[1] > 0, "one in, and those out that have ended"
    assert run(gpu, order(3, 4)).moved == [SIZE]


def test_an_operand_that_the_gpu_cannot_run_is_named_and_no_core_stands_in(gpu: GpuBatches, monkeypatch) -> None:
    launch, calls = gpu._device.launch, []

    def fail(expression: Any, out: Any, *more: Any) -> None:
        calls.append(out)
        if out.ctypes.data == gpu._device.view(2 * SIZE, (1,), F8).ctypes.data:
            raise ValueError("no")
        launch(expression, out, *more)

    monkeypatch.setattr(gpu._device, "launch", fail)
    before = gpu._bytes[2 * SIZE : 3 * SIZE].copy()
    sent = reports(gpu, order(0, 1), order(1, 2), order(2, 3))
    assert sum(one.finished for one in sent) == 1 and sent[-1].stop[0] == REFUSED_BY_GPU
    assert str(sent[-1].stop[1]) == "ValueError: no"
    np.testing.assert_array_equal(gpu._bytes[2 * SIZE : 3 * SIZE], before)
    assert np.frombuffer(gpu._bytes[SIZE : 2 * SIZE], F8).tolist() == [2.0] * (SIZE // 8)
    monkeypatch.setattr(gpu._device, "launch", launch)
    assert run(gpu, order(0, 2)).finished == 1  # the GPU is well


def test_an_error_that_comes_late_still_has_its_operand(gpu: GpuBatches, monkeypatch) -> None:
    """A stream may fail when later operands are submitted already."""
    launch = gpu._device.launch

    def fail_later(expression: Any, out: Any, inputs: Any, stream: Any, first: Any) -> None:
        def fail() -> None:
            raise ValueError("late")

        if out.ctypes.data == gpu._device.view(2 * SIZE, (1,), F8).ctypes.data:
            stream.work.append(fail)
        else:
            launch(expression, out, inputs, stream)

    monkeypatch.setattr(gpu._device, "launch", fail_later)
    sent = reports(gpu, order(0, 1), order(1, 2), order(0, 3))
    assert sum(one.finished for one in sent) == 1 and str(sent[-1].stop[1]) == "ValueError: late"


def _downs(sent: list[ExecutorReport]) -> list[tuple[int, str]]:
    return [(one.stop.chunk, one.stop.error) for one in sent if one.stop is not None and one.stop[0] == COPIED_DOWN]


def test_a_chunk_comes_down_beside_the_kernels_of_the_next_batch(gpu: GpuBatches, monkeypatch) -> None:
    launch, sent = gpu._device.launch, list[ExecutorReport]()
    assert run(gpu, order(0, 1)).finished == 1
    target = np.frombuffer(gpu._bytes[6 * SIZE : 7 * SIZE], F8)
    gpu.copy_down(CopyDown(COPY_DOWN, 1, SIZE, 6 * SIZE, SIZE), sent.append)
    launched: list[int] = []

    def seen(*given: Any) -> None:
        launched.append(len(_downs(sent)))
        launch(*given)

    monkeypatch.setattr(gpu._device, "launch", seen)
    gpu.run(programs(), [order(1, 2), order(2, 3)], lambda: False, sent.append)
    assert launched == [0, 0] and _downs(sent) == [(1, "")], "kernels were launched before the copy was waited for"
    assert target.tolist() == [2.0] * (SIZE // 8)


def test_a_chunk_comes_down_without_a_further_order_and_after_an_error(gpu: GpuBatches, monkeypatch) -> None:
    sent = list[ExecutorReport]()
    assert run(gpu, order(0, 1)).finished == 1
    gpu.copy_down(CopyDown(COPY_DOWN, 1, SIZE, 6 * SIZE, SIZE), sent.append)
    gpu.settle(sent.append)
    assert _downs(sent) == [(1, "")]
    gpu.copy_down(CopyDown(COPY_DOWN, 7, SIZE, 6 * SIZE, SIZE), sent.append)
    assert _downs(sent)[1][0] == 7 and "chunk 7 is not on the GPU" in _downs(sent)[1][1]
    np.frombuffer(gpu._bytes, F8)[6 * SIZE // 8 :] = 0.0
    gpu.copy_down(CopyDown(COPY_DOWN, 1, SIZE, 6 * SIZE, SIZE), sent.append)
    gpu.run(programs(), [order(1, 2)], lambda: True, sent.append)  # told to stop
    assert _downs(sent)[2] == (1, "")
    assert np.frombuffer(gpu._bytes[6 * SIZE : 7 * SIZE], F8).tolist() == [2.0] * (SIZE // 8)


@pytest.mark.seed("S4.2")
def test_the_warm_up_is_told_apart_from_operands() -> None:
    memory = mmap.mmap(-1, 8 * SIZE)
    ready = GpuBatches("fake:16MiB", memory).warm_up()
    assert ready.seconds > 0 and (ready.slab, ready.name, ready.why) == (12 * SIZE, "FakeDevice", "")
    failed = GpuBatches("cuda:no-such", memory).warm_up()
    assert failed.slab == 0 and failed.seconds > 0 and failed.why
