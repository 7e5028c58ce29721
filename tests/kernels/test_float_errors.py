"""Floating point errors are found whatever computes an expression, and only those of elements that somebody reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jmars.kernels import FloatError, FloatErrors, compile_program
from jmars.kernels.expression import Expression, Node, constant
from jmars.kernels.float_errors import BITS
from jmars.kernels.fusing import compose
from jmars.kernels.numpy_backend import numexpr_there
from jmars.kernels.program import Call, ChunkType, Elementwise, Program, Reduce, single
from jmars.kernels.reducers import UfuncReducer
from jmars.kernels.routines import llvm_there
from jmars.tensor.ops.chunks import run_expression, run_reduction
from jmars.tensor.ops.getitem import copy_masked

F8 = np.dtype("f8")
ALL = sum(BITS.values())


def expression(*ops: str, warns: int = ALL) -> Expression:
    """`op` of x0 and x1, then of that and x1, and so on."""
    nodes = [Node(op, (0 if k == 0 else 1 + k, 1), F8, warns=warns) for k, op in enumerate(ops)]
    return Expression((F8, F8), tuple(nodes))


def program(of: Expression, shape: tuple[int, ...]) -> Program:
    chunk = ChunkType(shape, F8)
    return single("test", (chunk, chunk), Elementwise(of, (0, 1), chunk))


def errors_of(one: Program, inputs: list[Any], backend: str, out: Any = None) -> list[FloatError]:
    kernel = compile_program(one, backend)
    errors = FloatErrors()
    out = np.empty(one.output.shape, one.output.dtype) if out is None else out
    with np.errstate(all="call", call=errors):
        kernel(out, inputs, (), lambda: False)
    return errors.take(one.steps)


def backends() -> list[str]:
    return ["numpy", *(["numexpr"] if numexpr_there() else []), *(["llvm"] if llvm_there() else [])]


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("shape", [(5,), (50_000,), (300, 400), (3_000_000,)])
def test_an_error_anywhere_names_its_node(backend: str, shape: tuple[int, ...]) -> None:
    one = program(expression("add", "divide", "multiply"), shape)
    x, y = np.ones(shape), np.ones(shape)
    assert errors_of(one, [x, y], backend) == []
    y.reshape(-1)[-3] = 0.0  # 1 / 0 divides by zero; inf * 0 is invalid
    assert errors_of(one, [x, y], backend) == [FloatError(0, 1, 1), FloatError(0, 2, 8)]
    assert errors_of(program(expression("add", "divide", "multiply", warns=2), shape), [x, y], backend) == []


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("length", [70_000, 4 * 16384, 3_000_001])
def test_an_error_before_a_sum(backend: str, length: int) -> None:
    chunk, total = ChunkType((length,), F8), ChunkType((1,), F8)
    middle = Elementwise(expression("multiply", "add"), (0, 1), chunk)
    tail = Reduce(UfuncReducer("add", F8), (0,), (2,), total)
    one = Program("test", (chunk, chunk), total, (middle, tail))
    for place in (0, length // 2, length - 1):
        x, y = np.ones(length), np.ones(length)
        x[place] = y[place] = 1e300
        assert errors_of(one, [x, y], backend) == [FloatError(0, 0, 2)]


@pytest.mark.parametrize("backend", backends())
def test_nan_in_a_comparison_is_no_error(backend: str) -> None:
    f8, shape = F8, (200_000,)
    nodes = (
        Node("less", (0, 1), np.dtype(bool), warns=ALL),
        Node("add", (0, 1), f8, warns=ALL),
        constant(0.0, f8),
        Node("where", (2, 3, 4), f8),
    )
    one = program(Expression((f8, f8), nodes), shape)
    assert errors_of(one, [np.full(shape, np.nan), np.ones(shape)], backend) == []


def test_steps_of_equal_expressions_are_told_apart() -> None:
    shape, half = (8,), expression("divide")
    chunk, one = ChunkType(shape, F8), ChunkType((1,), F8)
    steps = (
        Elementwise(half, (0, 1), chunk),
        Reduce(UfuncReducer("add", F8), (0,), (2,), one),
        Elementwise(half, (1, 0), chunk),
        Elementwise(expression("add"), (4, 3), chunk),
    )
    both = Program("test", (chunk, chunk), chunk, steps)
    zeros, ones = np.zeros(shape), np.ones(shape)
    assert errors_of(both, [ones, zeros], "auto") == [FloatError(0, 0, 1)]
    assert errors_of(both, [zeros, ones], "auto") == [FloatError(2, 0, 1)]


def test_each_node_of_a_fused_program_knows_its_operand() -> None:
    parts = [program(expression(*ops), (8,)) for ops in (("add", "divide"), ("divide",), ("multiply", "divide"))]
    fused = compose(parts, [[0, 1], [-1, 0], [-2, 1]])
    assert fused.node_members == ((0, 0, 1, 2, 2),)
    again = compose([parts[0], fused], [[0, 1], [-1, 0]])
    assert again.node_members == ((0, 0, 1, 1, 2, 3, 3),)


@pytest.mark.parametrize("backend", ["numpy", *(["llvm"] if llvm_there() else [])])
def test_elements_between_rows_of_views_are_not_read(backend: str) -> None:
    from jmars.kernels.native_pipeline import native_block
    from jmars.kernels.pipeline import flat_pipeline, pipeline

    shape = (400, 398)
    of = expression("divide")
    chunk = ChunkType(shape, F8)
    middle = Elementwise(of, (0, 1), chunk)
    native = native_block(of) if backend == "llvm" else None
    run = flat_pipeline(middle, pipeline([], middle, None, [chunk] * 3, strided=True), native)
    x, y, out = np.ones((400, 400)), np.ones((400, 400)), np.ones((400, 400))
    y[:, 0] = y[:, -1] = 0.0
    for column, expected in ((0, []), (7, [(0, 1)])):
        y[5, column] = 0.0
        errors = FloatErrors()
        with np.errstate(all="call", call=errors):
            run(out[:, 1:-1], [x[:, 1:-1], y[:, 1:-1]], (), None)
        assert [(node, bit) for _, node, bit in errors.found] == expected and not errors.unsure


def test_equal_expressions_on_chunks_of_unknown_size_are_told_apart() -> None:
    log = Expression((F8,), (Node("log", (0,), F8, warns=ALL),))
    bounded, number = ChunkType((-1,), F8, most=24), ChunkType((), F8)
    programs = [
        single(
            "mask", (ChunkType((3,), F8), ChunkType((3,), np.dtype(bool))), Call(copy_masked, (0,), (0, 1), bounded)
        ),
        *[single("log", (bounded,), Call(run_expression, (log,), (0,), bounded))] * 2,
        single("sum", (bounded,), Call(run_reduction, (UfuncReducer("add", F8), (0,), True), (0,), number)),
        single("log", (number,), Elementwise(log, (0,), number)),
    ]
    fused = compose(programs, [[0, 1], [-1], [-2], [-3], [-4]])
    inputs = [np.array([1.0, 1.0, np.e]), np.array([False, True, True])]
    assert [error.step for error in errors_of(fused, inputs, "auto")] == [2, 4]  # log(0), then the log of -inf
    inputs = [np.array([1.0, 1.0, np.exp(np.e)]), np.array([False, False, True])]
    assert [error.step for error in errors_of(fused, inputs, "auto")] == []
    inputs = [np.array([1.0, 1.0, np.exp(1.0)]), np.array([False, False, True])]
    assert [error.step for error in errors_of(fused, inputs, "auto")] == [4]  # the sum is zero
