"""Functions of rows, with the expressions before them, run a block of rows at a time and give the same bits."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from jmars.errors import ExecutionInterrupted
from jmars.kernels import ChunkType, Program, compile_program, compose, fusing, take_member
from jmars.kernels.expression import Expression, Node
from jmars.kernels.fusing import lifetimes
from jmars.kernels.program import Call, Elementwise, Reduce, single
from jmars.kernels.reducers import UfuncReducer
from jmars.tensor.ops.fft import transform_block

F8, C16 = np.dtype("f8"), np.dtype("c16")


def elementwise(op: str, *types: ChunkType, **more: object) -> Program:
    shape = np.broadcast_shapes(*(one.shape for one in types))
    dtypes, slots = tuple(one.dtype for one in types), tuple(range(len(types)))
    expression = Expression(dtypes, (Node(op, slots, F8, **more),))
    return single(op, types, Elementwise(expression, slots, ChunkType(shape, F8)))


def transform(chunk: ChunkType, by_rows: bool) -> Program:
    shape = (*chunk.shape[:-1], chunk.shape[-1] // 2 + 1)
    params = ("rfft", chunk.shape[-1], len(shape) - 1, None)
    step = Call(transform_block, params, (0,), ChunkType(shape, C16), work=chunk.nbytes, by_rows=by_rows)
    return single("rfft", (chunk,), step)


def spectrum(shape: tuple[int, ...], axes: tuple[int, ...] | None, by_rows: bool = True, **more: object) -> Program:
    """The transform of `x / window`; with axes the sum of its absolute values."""
    x, window = ChunkType(shape, F8), ChunkType(shape[-1:], F8)
    programs, reads = [elementwise("divide", x, window, **more)], [[0, 1], [-1], [-2], [-3]]
    programs.append(transform(x, by_rows))
    if axes is not None:
        programs.append(elementwise("absolute", programs[-1].output))
        chunk = programs[-1].output
        kept = tuple(1 if axis in axes else n for axis, n in enumerate(chunk.shape))
        step = Reduce(UfuncReducer("add", F8), axes, (0,), ChunkType(kept, F8))
        programs.append(single("sum", (chunk,), step))
    return compose(programs, reads[: len(programs)])


def run(program: Program, *inputs: np.ndarray) -> np.ndarray:
    out = np.empty(program.output.shape, program.output.dtype)
    compile_program(program)(out, inputs, ())
    return out


CASES = [((3000, 64), (0,)), ((300, 500), (0, 1)), ((700, 100), (1,)), ((901, 77), (0, 1)), ((901, 77), None),
         ((40, 30, 50), (0,)), ((40, 30, 50), (1, 2)), ((40, 30, 50), (0, 1, 2)), ((2, 20_000), (0,))]  # fmt: skip


@pytest.mark.parametrize("shape, axes", CASES)
def test_same_bits_as_with_whole_chunks(shape, axes):
    random = np.random.default_rng(0)
    x, window = random.random(shape), random.random(shape[-1]) + 1
    program, whole = spectrum(shape, axes), spectrum(shape, axes, by_rows=False)
    assert len(lifetimes(program.steps, 2)) == 1 and len(lifetimes(whole.steps, 2)) > 1
    assert run(program, x, window).tobytes() == run(whole, x, window).tobytes()


def without_chains(program: Program, *inputs: np.ndarray) -> np.ndarray:
    """The program with whole chunks between its steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusing, "row_chains", lambda *args: [])
        compile_program.cache_clear()
        found = run(program, *inputs)
    compile_program.cache_clear()
    return found


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_have_the_same_bits(seed):
    """Products, roots and transforms of rows, of each other, with windows, ends reduced along any axes."""
    random = np.random.default_rng(seed)
    shape = [(400, 60), (301, 77), (5, 5000), (30, 20, 40)][seed % 4]
    x, window = ChunkType(shape, F8), ChunkType(shape[-1:], F8)
    programs, reads = [], []
    types = [x, x, window]  # of what may be read; below: by which numbers
    numbers = [0, 1, 2]

    def add(program: Program, *read: int) -> None:
        programs.append(program)
        reads.append([numbers[one] for one in read])
        types.append(program.output)
        numbers.append(-len(programs))

    for _ in range(random.integers(3, 9)):
        one = int(random.choice([k for k, kind in enumerate(types) if kind.dtype == F8]))
        alike = [k for k, kind in enumerate(types) if kind == types[one] and k != one]
        if len(types[one].shape) == len(shape) and random.random() < 0.5:
            add(transform(types[one], True), one)
            add(elementwise("absolute", programs[-1].output), len(types) - 1)
        elif alike:
            other = int(random.choice(alike))
            add(elementwise("multiply", types[one], types[other]), one, other)
        else:
            add(elementwise("sqrt", types[one]), one)
    used = {-number - 1 for read in reads for number in read if number < 0}
    open_ends = [k for k in range(len(programs)) if k not in used]
    while len(open_ends) > 1:  # a program has one end: shapes differ, so sums are joined
        k = open_ends.pop(0)
        totals = []
        for one in (k, open_ends.pop(0)):
            chunk = programs[one].output
            axes = tuple(range(len(chunk.shape)))
            step = Reduce(UfuncReducer("add", F8), axes, (0,), ChunkType((1,) * len(axes), F8))
            add(single("sum", (chunk,), step), 3 + one)
            totals.append(len(types) - 1)
        add(elementwise("add", types[totals[0]], types[totals[1]]), *totals)
        open_ends.append(len(programs) - 1)
    taken = sorted({number for read in reads for number in read if number >= 0})
    reads = [[taken.index(number) if number >= 0 else number for number in read] for read in reads]
    program = compose(programs, reads)
    inputs = [random.random(one.shape) + 0.5 for one in program.inputs]
    assert run(program, *inputs).tobytes() == without_chains(program, *inputs).tobytes()


def test_values_of_fewer_axes_are_whole():
    a, z = ChunkType((40, 50), F8), ChunkType((40, 40, 50), F8)
    programs = [elementwise("divide", a, a), elementwise("divide", z, a), transform(z, True)]
    program = compose(programs, [[0, 1], [2, -1], [-2]])
    inputs = list(np.random.default_rng(0).random((2, 40, 50)) + 1) + [np.random.default_rng(1).random((40, 40, 50))]
    assert run(program, *inputs).tobytes() == without_chains(program, *inputs).tobytes()


def test_chunks_between_the_steps_are_never_whole():
    program, x = spectrum((8192, 256), (0,)), np.ones((8192, 256))
    assert program.work == 0 and spectrum((8192, 256), (0,), by_rows=False).work >= 2 * x.nbytes
    out, kernel = np.empty(program.output.shape), compile_program(program)
    tracemalloc.start()
    kernel(out, [x, x[0]], ())
    assert tracemalloc.get_traced_memory()[1] < x.nbytes / 8
    tracemalloc.stop()


def test_rows_that_are_long_or_few_are_computed_whole():
    assert len(lifetimes(spectrum((3, 2**18), (0,)).steps, 2)) == 3  # a thread would keep blocks of such rows
    assert len(lifetimes(spectrum((10, 10), (0,)).steps, 2)) == 3


def test_errors_name_the_fused_operand_that_raised():
    program = spectrum((3000, 64), (0,), raises=("divide",))
    with pytest.raises(FloatingPointError) as caught, np.errstate(divide="raise"):
        run(program, np.ones((3000, 64)), np.zeros(64))
    assert take_member(caught.value) == 0


def test_stop_is_asked_between_blocks():
    program = spectrum((3000, 64), (0,))
    asked = iter([False, True])
    with pytest.raises(ExecutionInterrupted):
        kernel = compile_program(program)
        kernel(np.empty(program.output.shape), [np.ones((3000, 64)), np.ones(64)], (), lambda: next(asked))
