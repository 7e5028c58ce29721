"""Loops of kernels for GPUs: CUDA's compiler takes them, and compiled for this machine they give NumPy's values.

Here a block's threads are threads of this process, and `__syncthreads` is a barrier.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from jmars.kernels.cuda_text import (
    BLOCK,
    MAP,
    PER_THREAD,
    REDUCE,
    broadcast,
    cuda_text,
    map_source,
    reduction_source,
    reductions,
)
from jmars.kernels.elementwise import REDUCTIONS
from jmars.kernels.expression import Expression, Node, same
from tests.kernels.nvrtc import compiled

NAMES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
F8, I8 = np.dtype("f8"), np.dtype("i8")
Shape = tuple[int, ...]

HOST = """
#include <pthread.h>
#include <thread>
#include <vector>
struct Place { int x, y; };
static thread_local Place threadIdx;
static Place blockIdx, blockDim;
static pthread_barrier_t barrier;
#define __global__
#define __shared__ static
static void __syncthreads() { if (blockDim.y > 1) pthread_barrier_wait(&barrier); }
"""
RUN = """
#define UNPACK(...) __VA_ARGS__
template <class F> static void blocks(int grid, int x, int y, F call) {
  blockDim = {x, y};
  pthread_barrier_init(&barrier, nullptr, x * y);
  for (int b = 0; b < grid; ++b) {
    blockIdx = {b, 0};
    if (y == 1) { for (int t = 0; t < x; ++t) { threadIdx = {t, 0}; call(); } continue; }
    std::vector<std::thread> all;
    for (int t = 0; t < x * y; ++t) all.emplace_back([=] { threadIdx = {t % x, t / x}; call(); });
    for (auto& one : all) one.join();
  }
}
"""


class Case(NamedTuple):
    """A reduction of an expression of one input."""

    ufunc: str
    old: np.dtype
    new: np.dtype
    op: str

    @property
    def expression(self) -> Expression:
        return Expression((self.old,), (Node(self.op, (0, 0) if self.op == "maximum" else (0,), self.old),))


@cache
def cases() -> list[Case]:
    found = []
    for ufunc in REDUCTIONS:
        for name in NAMES:
            old = np.dtype(name)
            found.append(Case(ufunc, old, getattr(np, ufunc).reduce(np.ones(1, old)).dtype, "positive"))
    found += [Case(ufunc, np.dtype(name), F8, "positive") for ufunc in ("add", "multiply") for name in NAMES]
    for name in ("c8", "c16"):
        for ufunc in ("add", "multiply", "logical_and", "logical_or"):
            old = np.dtype(name)
            found.append(Case(ufunc, old, getattr(np, ufunc).reduce(np.ones(1, old)).dtype, "positive"))
    found += [Case(ufunc, F8, F8, op) for ufunc in ("add", "maximum") for op in ("exp", "maximum")]
    return [case for case in dict.fromkeys(found) if cuda_text(case.expression) is not None]


def maps() -> list[tuple[Expression, Shape, list[Shape], int | None]]:
    """Expressions with shapes of the output and the inputs, and the first index."""
    add = Expression((F8, F8), (Node("add", (0, 1), F8),))
    three = Expression((F8, F8, F8), (Node("multiply", (0, 1), F8), Node("subtract", (3, 2), F8)))
    index = Expression((F8, I8), (Node("add", (0, 1), F8),))
    return [
        (add, (3000,), [(3000,), (3000,)], None),
        (add, (), [(), ()], None),
        (add, (5, 7), [(5, 7), ()], None),
        (add, (40, 50), [(40, 50), (50,)], None),
        (add, (40, 50), [(40, 1), (1, 50)], None),
        (three, (6, 7, 8, 9), [(6, 7, 8, 9), (7, 1, 9), (6, 1, 1, 1)], None),
        (three, (4, 1, 5, 300), [(4, 1, 1, 1), (1, 1, 5, 300), (5, 1)], None),
        (index, (2000,), [(2000,)], 10),
        (index, (30, 40), [(40,)], 7),
        (same(I8), (1500,), [], 5),
    ]


def sources() -> list[str]:
    """Of `maps` and `cases`."""
    found = []
    for expression, shape, shapes, first in maps():
        how = broadcast(shape, shapes)
        found.append(map_source(expression, how.flat, len(how.lengths), first is not None))
    return found + [reduction_source(case.expression, case.ufunc, case.new) for case in cases()]


def test_cudas_compiler_takes_all_loops() -> None:
    for source in [*sources()[: len(maps())], *sources()[len(maps()) :: 9]]:
        assert compiled(source).count(".visible .entry") == 1


@pytest.mark.long
def test_cudas_compiler_takes_the_loops_of_all_reductions() -> None:
    assert all(compiled(source).count(".visible .entry") == 1 for source in sources())


class HostLoops:
    """Kernels by their source, for this machine."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("g++") is None:
            pytest.skip("needs g++ (Debian package g++)")
        self._folder = folder
        self._made: dict[str, Any] = {}

    def load(self, wanted: Sequence[str]) -> None:
        """Compile sources together."""
        parts = [HOST, "#include <math.h>\n#include <string.h>", RUN]
        for number, source in enumerate(wanted):
            parameters = (
                source[source.index('extern "C"') :].partition("(")[2].partition(")")[0].replace("__restrict__", "")
            )
            names = ", ".join(one.split()[-1] for one in parameters.split(","))
            kernel = MAP if f"void {MAP}(" in source else REDUCE
            body = (
                source.replace("#include <math.h>\n", "")
                .replace("#include <string.h>\n", "")
                .replace('extern "C" ', "")
            )
            parts += [f"namespace n{number} {{", body.replace("__restrict__", ""), "}", "#undef JM"]
            outside = parameters.replace("jm_c", f"n{number}::jm_c")
            parts += [f'extern "C" void k{number}(int g, int bx, int by, {outside}) {{']
            parts += [f"  blocks(g, bx, by, [=] {{ n{number}::{kernel}({names}); }}); }}"]
        text, library = self._folder / "loops.cpp", self._folder / "loops.so"
        text.write_text("\n".join(parts))
        options = ["-O0", "-fwrapv", "-shared", "-fPIC", "-w", "-pthread"]
        subprocess.run(["g++", *options, "-o", str(library), str(text)], check=True, timeout=200)
        loaded = ctypes.CDLL(str(library))
        self._made = {source: getattr(loaded, f"k{number}") for number, source in enumerate(wanted)}

    def run(self, source: str, grid: int, block: Shape, arrays: Sequence[Any], numbers: Sequence[int]) -> None:
        """Launch a kernel."""
        pointers = [ctypes.c_void_p(one.ctypes.data) for one in arrays]
        self._made[source](grid, *block, *pointers, *(ctypes.c_longlong(one) for one in numbers))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostLoops:
    made = HostLoops(tmp_path_factory.mktemp("loops"))
    wanted = [same(case.new) for case in cases()]
    last = [reduction_source(one, case.ufunc, case.new) for one, case in zip(wanted, cases(), strict=True)]
    made.load(list(dict.fromkeys([*sources(), *last])))
    return made


def test_maps_read_what_they_should(host: HostLoops) -> None:
    for expression, shape, shapes, first in maps():
        how = broadcast(shape, shapes)
        inputs = [np.random.default_rng(n).random(one) for n, one in enumerate(shapes)]
        values: list[Any] = list(inputs)
        if first is not None:
            values.append(np.arange(first, first + int(np.prod(shape))).reshape(shape))
        for node in expression.nodes:
            values.append(getattr(np, node.op)(*(values[arg] for arg in node.args)))
        numbers = [] if first is None else [first]
        for axis, length in enumerate(how.lengths):
            numbers += [length, *(own[axis] for own, flat in zip(how.strides, how.flat) if not flat)]
        out = np.full(shape, -1, expression.dtype)
        source = map_source(expression, how.flat, len(how.lengths), first is not None)
        grid = -(-out.size // (BLOCK * PER_THREAD))
        host.run(source, grid, (BLOCK, 1), [*inputs, out], [*numbers, out.size])
        assert np.array_equal(out, np.broadcast_to(values[-1], shape)), (expression.text(), shape, shapes)


def reduced(host: HostLoops, case: Case, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """By all launches."""
    expression, before = case.expression, np.ascontiguousarray(x)
    shape = tuple(1 if axis in axes else length for axis, length in enumerate(x.shape))
    for step in reductions(x.shape, axes):
        target = np.empty(step.size, case.new)
        host.run(
            reduction_source(expression, case.ufunc, case.new), step.blocks, step.block, [before, target], step[:4]
        )
        expression, before = same(case.new), target
    return before.reshape(shape)


@pytest.mark.parametrize("shape, axes", [
    ((), ()), ((1, 1), (0, 1)), ((1,), (0,)), ((2000,), (0,)), ((7, 6), (0,)), ((7, 6), (1,)), ((3, 40, 5), (1,)),
    ((3, 4, 5, 6), (0, 2)), ((3, 4, 5, 6), (1, 3)), ((40, 3), (0,)), ((2, 1, 9), (1,)), ((3, 1, 5), (0, 1, 2)),
])  # fmt: skip
@pytest.mark.parametrize("blocks", [1, 6])
def test_all_axes_and_shapes(
    host: HostLoops, shape: Shape, axes: Shape, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jmars.kernels.cuda_text.BLOCKS", blocks)
    monkeypatch.setattr("jmars.kernels.cuda_text.THREADS", 16)
    monkeypatch.setattr("jmars.kernels.cuda_text.MIN_PART_ELEMENTS", 1)
    x = np.arange(int(np.prod(shape)), dtype="i8").reshape(shape) % 97
    found = reduced(host, Case("add", I8, I8, "positive"), x, axes)
    assert np.array_equal(found, x.sum(axis=axes, keepdims=True))


def test_reductions_give_numpys_values(host: HostLoops) -> None:
    rng = np.random.default_rng(0)
    for case in cases():
        values = rng.integers(-3, 4, 50).astype(case.old)
        rows = [values, np.abs(values).clip(1).astype(case.old), values[:1]]
        if case.old.kind == "f":
            tiny = np.array([1e-40, -1e-40, 0], case.old)
            rows += [np.array(row, case.old) for row in ([np.inf, -np.inf], [1, np.nan, 2], [-np.inf], [np.inf])] + [
                tiny
            ]
        elif case.old.kind in "iu":
            rows += [np.array([bound], case.old) for bound in (np.iinfo(case.old).min, np.iinfo(case.old).max)]
        for row in rows:
            with np.errstate(all="ignore"):
                mapped = np.exp(row) if case.op == "exp" else row
                dtype = {"dtype": case.new} if case.ufunc in ("add", "multiply") else {}
                expected = getattr(np, case.ufunc).reduce(mapped, keepdims=True, **dtype)
            rtol = 1e-6 if case.new in ("f4", "c8") else 1e-14
            np.testing.assert_allclose(reduced(host, case, row, (0,)), expected, rtol=rtol, err_msg=str(case))
