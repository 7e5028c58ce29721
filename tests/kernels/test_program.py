"""Programs are values: equal ones are equal, they pickle, and a chain of them is one."""

from __future__ import annotations

import pickle

import cloudpickle
import numpy as np
import pytest

from jmars.kernels import ChunkType, compile_program, fuse, share_inputs
from jmars.kernels.expression import Expression, Node, constant
from jmars.kernels.program import Call, Combine, Elementwise, Generate, Program, Reduce, program_text, single
from jmars.kernels.reducers import MomentReducer, UfuncReducer

F8 = np.dtype("f8")
ROW, ONE = ChunkType((6,), F8), ChunkType((1,), F8)


def binary(op: str, chunk: ChunkType = ROW, first: ChunkType | None = None, second: ChunkType | None = None) -> Program:
    expression = Expression((F8, F8), (Node(op, (0, 1), F8),))
    return single(op, (first or chunk, second or chunk), Elementwise(expression, (0, 1), chunk))


def scale(by: float, chunk: ChunkType = ROW) -> Program:
    expression = Expression((F8,), (constant(by, F8), Node("multiply", (0, 1), F8)))
    return single("scale", (chunk,), Elementwise(expression, (0,), chunk))


def total(chunk: ChunkType = ROW) -> Program:
    return single("sum", (chunk,), Reduce(UfuncReducer("add", F8), (0,), (0,), ONE))


def reverse(out, inputs, params, arg):
    np.copyto(out, inputs[0][::-1])


def shift(out, inputs, params, arg):
    np.copyto(out, np.roll(inputs[0], arg))


def counting(params, arg, output):
    def fill(out, start):
        out[...] = np.arange(start, start + out.size) + arg

    return fill


def run(program: Program, *inputs, args=(), backend="auto") -> np.ndarray:
    out = np.full(program.output.shape, np.nan).astype(program.output.dtype)
    compile_program(program, backend)(out, [np.asarray(x, F8) for x in inputs], args)
    return out


def test_equal_programs_are_one_key():
    assert binary("add") == binary("add") and hash(binary("add")) == hash(binary("add"))
    assert binary("add") != binary("subtract")
    assert compile_program(binary("add")) is compile_program(binary("add"))


@pytest.mark.parametrize("make", [lambda *p: Call(reverse, p, (), ROW), lambda *p: Generate(counting, p, ROW)])
def test_equal_parameters_that_are_not_the_same_make_two_programs(make):
    different = [(0.0,), (-0.0,), (0,), (False,), ((np.float64(0.0),),), ((np.float64(-0.0),),), (0j,), (-0j,)]
    assert len({single("f", (), make(*params)) for params in different}) == len(different)
    assert make(1.5, ("a", (2, np.int64(3)))) == make(1.5, ("a", (2, np.int64(3))))
    assert hash(make(0.0)) == hash(make(0.0)) and make(0.0) != binary("add").steps[0]


def test_zero_and_minus_zero_are_two_constants_and_nan_is_one():
    assert scale(0.0) != scale(-0.0)
    assert scale(np.nan) == scale(np.nan)


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_programs_pickle_small_and_without_this_process_s_hash(dumps):
    program = fuse([binary("add"), scale(2.0), total()], [0, 0])
    hash(program)
    data = dumps(program)
    assert b"_hash" not in data and len(data) < 2000
    assert pickle.loads(data) == program


def test_a_chain_of_elementwise_is_one_expression():
    fused = fuse([binary("add"), scale(2.0), binary("subtract")], [0, 1])
    assert fused.name == "add+scale+subtract"
    assert len(fused.steps) == 1 and len(fused.inputs) == 3
    assert program_text(fused) == "x2 - ((x0 + x1) * 2.0)"
    a, b, c = np.arange(6.0), np.ones(6), np.full(6, 10.0)
    np.testing.assert_array_equal(run(fused, a, b, c), c - (a + b) * 2)


def test_inputs_are_the_heads_then_each_later_program_s_others():
    small = ChunkType((1,), F8)
    fused = fuse([binary("add", first=small), binary("multiply", second=ONE)], [0])
    assert fused.inputs == (small, ROW, ONE)
    assert run(fused, [1], np.arange(6), [2]).tolist() == [2, 4, 6, 8, 10, 12]


def test_a_reduction_ends_a_chain_without_a_whole_chunk_between():
    big = ChunkType((100_000,), F8)
    add = binary("add", big)
    fused = fuse([add, scale(3.0, big), total(big)], [0, 0])
    assert fused.work == 0
    a = np.random.default_rng(0).random(100_000)
    np.testing.assert_allclose(run(fused, a, a), [(a + a).sum() * 3], rtol=1e-14)


def test_what_follows_a_reduction_waits_for_it():
    fused = fuse([total(), scale(2.0, ONE), binary("subtract", ROW, ONE, ROW)], [0, 0])
    assert fused.work == 2 * ONE.nbytes  # the sum, and its double
    assert run(fused, np.ones(6), np.arange(6)).tolist() == [12, 11, 10, 9, 8, 7]


def test_functions_stand_between_with_a_chunk_of_work():
    flip = single("flip", (ROW,), Call(reverse, (), (0,), ROW))
    fused = fuse([scale(2.0), flip, scale(10.0)], [0, 0])
    assert len(fused.steps) == 3
    assert fused.work == 2 * ROW.nbytes
    assert run(fused, np.arange(6)).tolist() == [100, 80, 60, 40, 20, 0]


def test_arguments_stand_in_the_order_of_their_steps():
    head = single("count", (), Generate(counting, (), ROW, True))
    roll = single("roll", (ROW,), Call(shift, (), (0,), ROW, True))
    fused = fuse([head, scale(2.0), roll], [0, 0])
    assert fused.takes_args and not scale(2.0).takes_args
    assert run(fused, args=(5, 1)).tolist() == [20, 10, 12, 14, 16, 18]


@pytest.mark.parametrize("size", [10, 70_000])
def test_a_generator_runs_within_the_blocks_of_what_reads_it(size):
    chunk = ChunkType((size,), F8)
    head = single("count", (), Generate(counting, (), chunk, True))
    fused = fuse([head, binary("multiply", chunk), total(chunk)], [1, 0])
    assert fused.work == 0
    x = np.random.default_rng(1).random(size)
    np.testing.assert_allclose(run(fused, x, args=(3,)), [(x * (np.arange(size) + 3.0)).sum()], rtol=1e-13)
    np.testing.assert_array_equal(run(fuse([head, scale(0.5, chunk)], [0]), args=(3,)), (np.arange(size) + 3.0) * 0.5)


def test_a_broadcast_between_two_shapes_is_not_merged():
    column, grid = ChunkType((3, 1), F8), ChunkType((3, 4), F8)
    widen = binary("add", grid, column, grid)
    fused = fuse([scale(2.0, column), widen], [0])
    assert len(fused.steps) == 2 and fused.work == column.nbytes
    a, b = np.arange(3.0).reshape(3, 1), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(run(fused, a, b), a * 2 + b)


def test_a_chunk_read_twice_is_one_input():
    double = share_inputs(binary("add"), [0, 0])
    assert double.inputs == (ROW,)
    assert run(double, np.arange(6)).tolist() == [0, 2, 4, 6, 8, 10]
    fused = share_inputs(fuse([binary("add"), binary("multiply")], [0]), [0, 1, 0])
    a, b = np.arange(6.0), np.ones(6)
    np.testing.assert_array_equal(run(fused, a, b), (a + b) * a)
    swapped = share_inputs(binary("subtract"), [1, 0])
    np.testing.assert_array_equal(run(swapped, a, b), b - a)


def test_shared_inputs_reach_every_step():
    pair = fuse([total(), binary("subtract", ROW, ONE, ROW)], [0])
    shared = share_inputs(pair, [0, 0])
    assert run(shared, np.arange(6)).tolist() == [15, 14, 13, 12, 11, 10]


def test_fusing_fused_programs_is_fusing_the_chain():
    chain = [binary("add"), scale(2.0), binary("subtract"), total()]
    slots = [0, 1, 0]
    assert fuse([fuse(chain[:2], slots[:1]), fuse(chain[2:], slots[2:])], slots[1:2]).steps == fuse(chain, slots).steps


def test_combines_and_states_of_several_fields():
    reducer = MomentReducer(F8, 0, True)
    state = ChunkType((1, 24), np.dtype("u1"))
    leaf = single("std", (ROW,), Reduce(reducer, (0,), (0,), state))
    join = single("std", (state,) * 2, Combine(reducer, (0, 1), ChunkType((), F8), True))
    x, y = np.arange(6.0), np.array([7.0, 1, 0, 3, 9, 100])
    parts = []
    for values in (x, y):
        parts.append(np.empty((1, 24), np.uint8))
        compile_program(leaf)(parts[-1], [values], ())
    out = np.empty(())
    compile_program(join)(out, parts, ())
    np.testing.assert_allclose(out, np.std(np.concatenate([x, y])))
    fused = fuse([scale(2.0), leaf], [0])
    out = np.empty((1, 24), np.uint8)
    compile_program(fused)(out, [x], ())
    np.testing.assert_allclose(out.view(reducer.state)["mean"], 5.0)
