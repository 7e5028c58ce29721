"""Programs composed in any shape give what they give one by one, hold no more than they say, and cost their number."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.kernels import ChunkType, compile_program, compose, fuse, fusing, take_member
from jmars.kernels.expression import Expression, Node, constant
from jmars.kernels.fusing import regions
from jmars.kernels.program import Call, Elementwise, Generate, Program, Reduce, single
from jmars.kernels.reducers import UfuncReducer

F8 = np.dtype("f8")


def apply(op: str, chunk: ChunkType, *types: ChunkType) -> Program:
    """One operation on chunks, the numbers of which differ."""
    expression = Expression((F8,) * len(types), (Node(op, tuple(range(len(types))), F8),))
    return single(op, types, Elementwise(expression, tuple(range(len(types))), chunk))


def shifted(chunk: ChunkType, inputs: int) -> Program:
    return single("shift", (chunk,) * inputs, Call(shift, (), tuple(range(inputs)), chunk, True))


def shift(out, inputs, params, arg):
    np.copyto(out, np.roll(sum(inputs), arg))


def counted(chunk: ChunkType) -> Program:
    return single("count", (), Generate(counting, (), chunk, True))


def counting(params, arg, output):
    def fill(out, start):
        np.multiply(np.arange(start, start + out.size) % 7, arg, out=out)

    return fill


def total(chunk: ChunkType) -> Program:
    return single("sum", (chunk,), Reduce(UfuncReducer("add", F8), (0,), (0,), ChunkType((1,), F8)))


def one_by_one(programs, reads, inputs, args):
    """The composed programs, run one after the other."""
    given, values = iter(args), []
    for program, read in zip(programs, reads, strict=True):
        out = np.empty(program.output.shape)
        own = [next(given)] if program.takes_args else []
        compile_program(program)(out, [inputs[v] if v >= 0 else values[-1 - v] for v in read], own)
        values.append(out)
    return values[-1]


@st.composite
def compositions(draw):
    """(programs, reads, arguments): what nobody else reads, the last one does."""
    size = draw(st.sampled_from([5, 40_000]))  # the second is more than two blocks
    chunk = ChunkType((size,), F8)
    programs, reads, args, external = [], [], [], 0
    for k in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["add", "multiply", "negative", "shift", "count", "sum"]))
        read = []
        for _ in range({"negative": 1, "sum": 1, "count": 0}.get(kind, 2)):
            choice = draw(st.integers(-k, external))
            external += choice == external
            read.append(choice)
        read = list(dict.fromkeys(read))
        types = [chunk if v >= 0 else programs[-1 - v].output for v in read]
        if kind == "sum" and types[0] == chunk:
            programs.append(total(chunk))
        elif kind == "count":
            programs.append(counted(chunk))
        elif kind == "shift" and all(t == chunk for t in types):
            programs.append(shifted(chunk, len(types)))
        elif len(types) == 1:
            programs.append(apply("negative", types[0], *types))
        else:
            programs.append(apply(kind if kind != "shift" else "add", max(types, key=lambda t: t.size), *types))
        reads.append(read)
        if programs[-1].takes_args:
            args.append(draw(st.integers(1, 5)))
    read_inside = {-1 - v for read in reads for v in read if v < 0}
    for k in range(len(programs) - 1):  # the rest is added up
        if k not in read_inside:
            last = len(programs) - 1
            types = [programs[k].output, programs[last].output]
            programs.append(apply("add", max(types, key=lambda t: t.size), *types))
            reads.append([-1 - k, -1 - last])
    return programs, reads, args, external


@given(compositions())
@settings(max_examples=150)
def test_composed_is_one_by_one(composition):
    programs, reads, args, external = composition
    size = max(program.output.size for program in programs)
    size = max([size, *(t.size for program in programs for t in program.inputs)])
    inputs = [np.random.default_rng(k).integers(-9, 9, size).astype(F8) for k in range(external)]  # sums are exact
    expected = one_by_one(programs, reads, inputs, args)
    program = compose(programs, reads)
    assert program.name == "+".join(one.name for one in programs) and len(program.inputs) == external
    out = np.full(program.output.shape, np.nan)
    compile_program(program)(out, inputs, args)
    np.testing.assert_array_equal(out, expected)


@given(compositions())
@settings(max_examples=20, deadline=None)
def test_a_kernel_allocates_no_more_than_its_program_says(composition):
    programs, reads, args, _external = composition
    program = compose(programs, reads)
    if not any(t.size > 100 for t in (*program.inputs, program.output, *(s.output for s in program.steps))):
        return
    inputs, out = [np.ones(t.shape) for t in program.inputs], np.empty(program.output.shape)
    kernel = compile_program(program)
    kernel(out, inputs, args)  # block buffers of this thread are there now
    tracemalloc.start()
    try:
        kernel(out, inputs, args)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    own = 2 * 8 * 40_000  # what `shift` and the generator allocate for themselves
    assert peak <= program.work + own + 10_000


BIG = ChunkType((40_000,), F8)


def test_a_diamond_is_one_expression_and_its_sum_one_region():
    four = [
        apply("add", BIG, BIG, BIG),
        apply("square", BIG, BIG),
        apply("exp", BIG, BIG),
        apply("subtract", BIG, BIG, BIG),
    ]
    program = compose([*four, total(BIG)], [[0, 1], [-1], [-1], [-2, -3], [-4]])
    assert len(program.steps) == 2 and program.work == 0
    (region,) = regions(program.steps, 2)
    assert (region.heads, region.middle, region.tail) == ((), 0, 1)


def test_several_generators_run_in_one_region():
    program = compose([counted(BIG), counted(BIG), apply("add", BIG, BIG, BIG), total(BIG)], [[], [], [-2, -1], [-3]])
    assert program.work == 0 and len(regions(program.steps, 0)) == 1
    out = np.empty(1)
    compile_program(program)(out, [], [2, 5])
    assert out[0] == 7 * (np.arange(40_000) % 7).sum()


def test_a_value_that_two_regions_read_is_held_until_the_last_has():
    mean = apply("divide", ChunkType((1,), F8), ChunkType((1,), F8), ChunkType((1,), F8))
    programs = [apply("exp", BIG, BIG), total(BIG), mean, apply("subtract", BIG, BIG, ChunkType((1,), F8))]
    program = compose(programs, [[0], [-1], [-2, 1], [-1, -3]])
    assert len(program.steps) == 4  # exp is read by the sum and by the difference
    assert program.work == BIG.nbytes + 2 * 8
    x, out = np.linspace(0, 1, BIG.size), np.empty(BIG.size)
    compile_program(program)(out, [x, np.array([float(BIG.size)])])
    np.testing.assert_allclose(out, np.exp(x) - np.exp(x).mean(), atol=1e-12)


def test_the_cost_of_a_long_chain_is_its_length(monkeypatch):
    made = []
    monkeypatch.setattr(fusing, "Node", lambda *args: made.append(args) or Node(*args))
    plus = Expression((F8,), (constant(1.0, F8), Node("add", (0, 1), F8)))
    row = ChunkType((3,), F8)
    program = fuse([single("add", (row,), Elementwise(plus, (0,), row))] * 2000, [0] * 1999)
    assert len(program.steps) == 1 and len(made) <= 2 * 2000
    out = np.empty(3)
    compile_program(program)(out, [np.zeros(3)])
    assert out.tolist() == [2000.0] * 3


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_inputs_are_numbered_as_the_caller_says(order):
    row = ChunkType((3,), F8)
    out = np.empty(3)
    compile_program(compose([apply("subtract", row, row, row)], [order]))(out, [np.full(3, 5.0), np.full(3, 2.0)])
    assert out.tolist() == [3.0 if order == [0, 1] else -3.0] * 3


def fail_at(out, inputs, params, arg):
    if arg == 7:
        raise ZeroDivisionError("seven")
    np.copyto(out, inputs[0])


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_an_error_says_which_of_the_fused_operands_raised_it(failing):
    row = ChunkType((3,), F8)
    call = single("call", (row,), Call(fail_at, (), (0,), row, True))
    programs = [call, call, apply("negative", row, row), fuse([call, total(row)], [0])]
    program = compose(programs, [[0], [-1], [-2], [-3]])
    assert program.members == (0, 1, 2, 3, 4)
    args = [7 if k == failing else 0 for k in (0, 1, 3)]
    with pytest.raises(ZeroDivisionError) as caught:
        compile_program(program)(np.empty(1), [np.zeros(3)], args)
    assert take_member(caught.value) == failing
    assert take_member(caught.value) == -1 and not caught.value.__dict__  # it travels as it was raised


def test_an_exception_that_takes_no_notes_is_raised_as_it_is():
    class Sealed(Exception):
        __setattr__ = None

        @property
        def __dict__(self):
            raise AttributeError

    def fail(out, inputs, params, arg):
        raise Sealed

    row = ChunkType((3,), F8)
    program = fuse([apply("negative", row, row), single("fail", (row,), Call(fail, (), (0,), row))], [0])
    with pytest.raises(Sealed) as caught:
        compile_program(program)(np.empty(3), [np.zeros(3)])
    assert take_member(caught.value) == -1
