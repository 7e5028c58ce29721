"""A kernel writes in place, can be stopped between blocks, and serves several threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from jmars.errors import ExecutionInterrupted
from jmars.kernels import ChunkType, compile_program, fuse
from jmars.kernels.compile import Kernel
from jmars.kernels.expression import Expression, Node, constant
from jmars.kernels.program import Call, Elementwise, Program, Reduce, single
from jmars.kernels.reducers import UfuncReducer
from tests.kernels.test_program import F8, binary, reverse, run, scale, total

BIG = ChunkType((300_000,), F8)


def chain(n: int) -> Program:
    """x -> ((x * 1.0 + x) * 1.0 + x) ..., n operations."""
    nodes: list[Node] = []
    last = 0
    for k in range(n // 2):
        nodes += [constant(1.0 + k, F8), Node("multiply", (last, 1 + len(nodes)), F8)]
        nodes.append(Node("add", (len(nodes), 0), F8))
        last = len(nodes)
    return single("chain", (BIG,), Elementwise(Expression((F8,), tuple(nodes)), (0,), BIG))


def by_hand(x: np.ndarray, n: int) -> np.ndarray:
    value = x
    for k in range(n // 2):
        value = value * (1.0 + k) + x
    return value


@pytest.mark.long(beyond=3)
@pytest.mark.parametrize("n", [2, 6, 40])
@pytest.mark.parametrize("backend", ["auto", "numpy", "numexpr"])
def test_long_expressions(n, backend):
    x = np.random.default_rng(0).random(BIG.shape)
    np.testing.assert_array_equal(run(chain(n), x, backend=backend), by_hand(x, n))


def test_the_back_end_is_told():
    def name(program: Program, backend: str = "auto") -> str:
        return compile_program(program, backend).backend

    row = ChunkType((6,), F8)
    assert name(binary("add")) == "numpy"
    assert name(chain(6), "numpy") == "numpy-blocked"
    assert name(chain(6), "numexpr") == "numexpr"
    assert name(chain(40), "numexpr") == "numpy-blocked"  # more operations than numexpr compiles in reasonable time
    assert name(single("flip", (row,), Call(reverse, (), (0,), row))) == "function"


@pytest.mark.parametrize("backend", ["numpy", "numexpr"])
@pytest.mark.parametrize("tail", [False, True])
def test_stop_is_asked_between_blocks(backend, tail):
    program = fuse([chain(6), total(BIG)], [0]) if tail else chain(6)
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 3

    out = np.zeros(program.output.shape)
    with pytest.raises(ExecutionInterrupted):
        compile_program(program, backend)(out, [np.ones(BIG.shape)], (), stop)
    assert len(asked) == 3
    if not tail:
        assert out[0] != 0 and out[-1] == 0


def test_one_operation_on_a_large_chunk_can_be_stopped_too():
    chunk = ChunkType((3 << 20,), F8)
    with pytest.raises(ExecutionInterrupted):
        compile_program(scale(2.0, chunk))(np.empty(chunk.shape), [np.ones(chunk.shape)], (), lambda: True)


@pytest.mark.parametrize("backend", ["numpy", "numexpr"])
def test_threads_share_a_kernel(backend):
    kernel = compile_program(chain(20), backend)
    inputs = [np.random.default_rng(i).random(BIG.shape) for i in range(4)]
    outs = [np.empty(BIG.shape) for _ in inputs]

    def work(i: int) -> None:
        for _ in range(3):
            kernel(outs[i], [inputs[i]], ())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, out in zip(inputs, outs):
        np.testing.assert_array_equal(out, by_hand(x, 20))


@pytest.mark.parametrize(
    "shapes", [((300, 400), (400,)), ((300, 1), (1, 400)), ((300, 400), ()), ((2, 1, 90_000), (3, 1))]
)
@pytest.mark.parametrize("backend", ["numpy", "numexpr"])
def test_broadcasting_by_blocks(shapes, backend):
    whole = np.broadcast_shapes(*shapes)
    program = binary("add", ChunkType(whole, F8), *(ChunkType(shape, F8) for shape in shapes))
    program = fuse([program, scale(2.0, ChunkType(whole, F8))], [0])
    a, b = (np.random.default_rng(i).random(shape) for i, shape in enumerate(shapes))
    np.testing.assert_array_equal(run(program, a, b, backend=backend), (a + b) * 2)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("shape", [(3, 40_000, 2), (200, 30, 20), (50_000, 1, 3), (2, 3, 4)])
@pytest.mark.parametrize("fused", [False, True])
def test_every_way_to_reduce_by_blocks(axes, shape, fused):
    chunk = ChunkType(shape, F8)
    kept = ChunkType(tuple(1 if i in axes else n for i, n in enumerate(shape)), F8)
    leaf = single("sum", (chunk,), Reduce(UfuncReducer("add", F8), axes, (0,), kept))
    program = fuse([scale(2.0, chunk), leaf], [0]) if fused else leaf
    x = np.random.default_rng(0).random(shape)
    expected = (x * 2 if fused else x).sum(axis=axes, keepdims=True)
    np.testing.assert_allclose(run(program, x), expected, rtol=1e-13)


def test_blocks_are_summed_in_pairs():
    """float32, ten million times 0.1: adding one by one is wrong by 9 %, NumPy by 1e-7."""
    chunk, f4 = ChunkType((10_000_000,), np.dtype("f4")), np.dtype("f4")
    leaf = single("sum", (chunk,), Reduce(UfuncReducer("add", f4), (0,), (0,), ChunkType((1,), f4)))
    out = np.empty(1, f4)
    compile_program(leaf)(out, [np.full(10_000_000, 0.1, f4)], ())
    assert abs(float(out[0]) / (10_000_000 * float(f4.type(0.1))) - 1) < 3e-7


def test_empty_chunks():
    none = ChunkType((0, 3), F8)
    assert run(scale(2.0, none), np.empty((0, 3))).shape == (0, 3)
    leaf = single("sum", (none,), Reduce(UfuncReducer("add", F8), (0,), (0,), ChunkType((1, 3), F8)))
    assert run(leaf, np.empty((0, 3))).tolist() == [[0, 0, 0]]
    assert run(fuse([scale(2.0, none), leaf], [0]), np.empty((0, 3))).tolist() == [[0, 0, 0]]


def test_single_numbers():
    scalar = ChunkType((), F8)
    assert run(fuse([scale(2.0, scalar), scale(3.0, scalar)], [0]), 5.0) == 30.0


def test_a_kernel_is_a_function_with_two_attributes():
    kernel: Kernel = compile_program(scale(2.0))
    assert (kernel.backend, kernel.text) == ("numpy", "x0 * 2.0")


def test_another_shape_of_what_stands_between_is_no_copy():
    flat, square = ChunkType((12,), F8), ChunkType((3, 4), F8)
    seen: list[np.ndarray] = []

    def doubled(out, inputs, params, arg):
        seen.extend((inputs[0], out))
        np.multiply(inputs[0], 2, out=out)

    def never(out, inputs, params, arg):
        np.copyto(out, inputs[0].reshape(out.shape))
        seen.append(out)

    def call(function, given, gives, **more):
        return single(function.__name__, (given,), Call(function, (), (0,), gives, **more))

    turned = call(never, flat, square, reshapes=True)
    back = call(never, square, flat, reshapes=True)
    x, out = np.arange(12.0), np.empty((3, 4))
    compile_program(fuse([call(doubled, flat, flat), turned], [0]))(out, [x])
    np.testing.assert_array_equal(out, 2 * x.reshape(3, 4))
    assert len(seen) == 2 and np.shares_memory(seen[1], out), "made where it stays"
    seen.clear()
    out = np.empty(12)
    compile_program(fuse([back, call(doubled, flat, flat)], [0]))(out, [x.reshape(3, 4)])
    np.testing.assert_array_equal(out, 2 * x)
    assert np.shares_memory(seen[0], x)
    seen.clear()
    out = np.empty((3, 4))
    compile_program(fuse([call(doubled, square, square), back, turned], [0, 0]))(out, [x.reshape(3, 4)])
    np.testing.assert_array_equal(out, 2 * x.reshape(3, 4))
    out = np.empty((3, 4))
    compile_program(turned)(out, [x])  # alone it is a chunk of its own
    np.testing.assert_array_equal(out, x.reshape(3, 4))
