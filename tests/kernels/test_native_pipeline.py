"""Machine code gives what blocks of NumPy give, to the last bit, however a chunk is laid out and whatever follows."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from jmars.errors import ExecutionInterrupted
from jmars.kernels import ChunkType, compile_program
from jmars.kernels.expression import Expression, Node, constant
from jmars.kernels.native_pipeline import settled
from jmars.kernels.program import Elementwise, Generate, Program, Reduce
from jmars.kernels.reducers import MomentReducer, UfuncReducer

pytest.importorskip("llvmlite", reason="machine code needs the extra jit")

F8, F4, I4, I8, BOOL = map(np.dtype, ("f8", "f4", "i4", "i8", "?"))


def length(dtype: np.dtype = F8) -> Expression:
    """sqrt(x * x + y * y)"""
    nodes = [("multiply", (0, 0)), ("multiply", (1, 1)), ("add", (2, 3)), ("sqrt", (4,))]
    return Expression((dtype, dtype), tuple(Node(op, args, dtype) for op, args in nodes))


def program(shapes: list[tuple[int, ...]], shape: tuple[int, ...], expression: Expression, *tail: Reduce) -> Program:
    inputs = tuple(ChunkType(one, dtype) for one, dtype in zip(shapes, expression.inputs))
    middle = Elementwise(expression, tuple(range(len(inputs))), ChunkType(shape, expression.dtype))
    return Program("test", inputs, (tail or (middle,))[-1].output, (middle, *tail))


def same(one: Program, arrays: list[np.ndarray], backend: str = "llvm") -> np.ndarray:
    """What both back ends give."""
    native, plain = compile_program(one, "llvm"), compile_program(one, "numpy")
    assert (native.backend, plain.backend) == (backend, "numpy-blocked")
    outs = [np.full(one.output.shape, 7, one.output.dtype) for _ in range(2)]
    for kernel, out in zip((native, plain), outs):
        kernel(out, arrays)
    np.testing.assert_array_equal(*outs)
    return outs[0]


def drawn(shape: tuple[int, ...], dtype: np.dtype = F8, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 100).astype(dtype)


@pytest.mark.parametrize(
    "shapes",
    [
        [(300, 200), (300, 200)],
        [(300, 200), (200,)],
        [(300, 200), (300, 1)],
        [(1, 200), (300, 1)],
        [(300, 200), ()],
        [(3, 20_000), (20_000,)],
        [(3, 1_200_000), (3, 1)],
        [(300, 67), (67,)],
        [(50, 20, 67), (67,)],
    ],
)
def test_operands_are_broadcast(shapes):
    shape = np.broadcast_shapes(*shapes)
    arrays = [drawn(one, seed=k) for k, one in enumerate(shapes)]
    same(program(shapes, shape, length()), arrays)


def test_rows_that_are_too_short_or_of_three_kinds_are_left_to_numpy():
    same(program([(9000, 3), (3,)], (9000, 3), length()), [drawn((9000, 3)), drawn((3,))], "numpy-blocked")
    shapes = [(20, 1, 100), (1, 30, 1)]
    same(program(shapes, (20, 30, 100), length()), [drawn(one) for one in shapes], "numpy-blocked")


@pytest.mark.parametrize("size", [16_385, 2 * 16_384, 3 * 16_384 + 5, 7 * 16_384, 1_500_000])
@pytest.mark.parametrize("dtype", [F8, F4])
def test_a_sum_has_the_bits_of_numpys_blocks(size, dtype):
    tail = Reduce(UfuncReducer("add", dtype), (0,), (2,), ChunkType((1,), dtype))
    same(program([(size,), (size,)], (size,), length(dtype), tail), [drawn((size,), dtype, k) for k in range(2)])


def test_sums_of_truths_and_of_short_integers_count_in_long_ones():
    x, y = drawn((100_000,), I4, 1), drawn((100_000,), I4, 2)
    tail = Reduce(UfuncReducer("add", I8), (0,), (2,), ChunkType((1,), I8))
    less = Expression((I4, I4), (Node("less", (0, 1), BOOL),))
    assert same(program([x.shape] * 2, x.shape, less, tail), [x, y])[0] == np.sum(x < y)
    product = Expression((I4, I4), (Node("multiply", (0, 1), I4),))
    assert same(program([x.shape] * 2, x.shape, product, tail), [x, y])[0] == np.sum(x * y)


def test_a_mean_is_finished_and_a_sum_of_zeros_below_none_is_zero():
    x = drawn((50_000,))
    mean = Reduce(UfuncReducer("add", F8, 50_000), (0,), (2,), ChunkType((), F8), last=True)
    same(program([x.shape] * 2, x.shape, length(), mean), [x, x])
    negative = Expression((F8,), (Node("negative", (0,), F8), Node("add", (1, 1), F8)))
    tail = Reduce(UfuncReducer("add", F8), (0,), (1,), ChunkType((1,), F8))
    assert not np.signbit(same(program([x.shape], x.shape, negative, tail), [np.zeros(50_000)]))


def test_other_reductions_take_the_blocks():
    x, y = drawn((400, 300), seed=1), drawn((400, 300), seed=2)
    for reducer, axes, shape in [
        (UfuncReducer("add", F8), (0,), (1, 300)),
        (UfuncReducer("add", F8), (1,), (400, 1)),
        (UfuncReducer("maximum", F8), (0, 1), (1, 1)),
    ]:
        same(program([x.shape] * 2, x.shape, length(), Reduce(reducer, axes, (2,), ChunkType(shape, F8))), [x, y])
    moments = MomentReducer(F8, 0, False)
    tail = Reduce(moments, (0, 1), (2,), ChunkType((), F8), last=True)
    same(program([x.shape] * 2, x.shape, length(), tail), [x, y])


def _counting(params, arg, output):
    def fill(out, start):
        out[...] = np.arange(start, start + out.size)

    return fill


def test_what_is_made_on_the_way_goes_through_it():
    chunk = ChunkType((70_000,), F8)
    steps = (Generate(_counting, (), chunk), Elementwise(length(), (1, 0), chunk))
    same(Program("test", (chunk,), chunk, steps), [drawn((70_000,))])
    tail = Reduce(UfuncReducer("add", F8), (0,), (2,), ChunkType((1,), F8))
    same(Program("test", (chunk,), tail.output, (*steps, tail)), [drawn((70_000,))])


def test_a_kernel_stops_between_pieces():
    one = program([(4_000_000,)] * 2, (4_000_000,), length())
    asked = []
    x = drawn((4_000_000,))
    with pytest.raises(ExecutionInterrupted):
        compile_program(one, "llvm")(np.empty(4_000_000), [x, x], (), lambda: asked.append(1) or len(asked) == 2)
    assert len(asked) == 2


def test_sums_with_angles_beyond_the_farthest_are_numpys_there():
    sine = Expression((F8,), (Node("sin", (0,), F8), constant(3.0, F8), Node("multiply", (1, 2), F8)))
    x = np.linspace(-3, 3, 40_000)
    x[20_000] = 1e300
    tail = Reduce(UfuncReducer("add", F8), (0,), (1,), ChunkType((1,), F8))
    out = np.empty(1)
    compile_program(program([x.shape], x.shape, sine, tail), "llvm-fast")(out, [x])
    np.testing.assert_allclose(out[0], (np.sin(x) * 3).sum(), rtol=0, atol=1e-9)


def test_auto_asks_the_program_and_nothing_is_left_running():
    one = program([(123_456,)] * 2, (123_456,), length())
    assert compile_program(one).backend == "numpy-blocked"
    marked = Program(one.name, one.inputs, one.output, one.steps, backend="llvm")
    assert marked != one
    assert compile_program(marked).backend == "llvm"
    settled()
    assert not [thread for thread in threading.enumerate() if "jmars compiles" in thread.name]
