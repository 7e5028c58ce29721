"""Machine code and numexpr are for runs that save more than compiling or importing costs, or where told so."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.kernels import native_pipeline
from jmars.kernels.expression import Expression, Node
from jmars.kernels.native_pipeline import LLVM_BYTES, marked
from jmars.kernels.program import ChunkType, Elementwise, Program, single

F8, F4, C16 = map(np.dtype, ("f8", "f4", "c16"))


def unary(op: str, size: int, dtype: np.dtype = F8) -> Program:
    chunk = ChunkType((size,), dtype)
    return single(op, (chunk,), Elementwise(Expression((dtype,), (Node(op, (0,), dtype),)), (0,), chunk))


@pytest.fixture(autouse=True)
def llvm(monkeypatch):
    monkeypatch.setattr(native_pipeline, "llvm_there", lambda: True)


def which(*programs: Program, counts: list[int], mode: str = "auto", room: int | None = None) -> list[bool]:
    found = marked(programs, counts, "auto", mode, 2, room)
    assert [(one.name, one.steps) for one in found] == [(one.name, one.steps) for one in programs]
    return [one.backend.startswith("llvm") for one in found]


def test_what_saves_more_than_compiling_costs():
    invert, root = unary("reciprocal", 10**6), unary("sqrt", 10**6)
    assert which(invert, root, counts=[100, 200]) == [False, False]  # 0.03 s and 0.14 s
    assert which(invert, root, counts=[1000, 200]) == [True, False]  # 0.3 s


def test_formulas_only_where_fast_is_asked_for():
    sine, root = unary("sin", 10**6), unary("sqrt", 10**6)
    for mode in ("auto", "on"):
        assert which(sine, root, counts=[1000, 1000], mode=mode) == [False, True]
    assert which(sine, root, counts=[10, 1000], mode="fast") == [False, True]  # 0.08 s
    assert which(sine, root, counts=[1000, 1000], mode="fast") == [True, True]  # 8 s
    assert which(unary("sin", 10**6, F4), counts=[10**6], mode="fast") == [False]  # NumPy's own are faster there


def test_chunks_of_all_shapes_count_together():
    """A last chunk that is shorter runs the same code, else it would be what the others wait for."""
    assert which(unary("sqrt", 10**6), unary("sqrt", 20_000), counts=[1000, 1]) == [True, True]
    assert which(unary("sqrt", 10**6), unary("sign", 20_000), counts=[1000, 1]) == [True, False]


def test_what_a_switch_says():
    root, small, other = unary("sqrt", 10**6), unary("sqrt", 1000), unary("negative", 10**6, C16)
    assert which(root, small, other, counts=[1, 1, 1], mode="on") == [True, False, False]
    assert which(root, counts=[10**6], mode="off") == [False]


def test_not_where_memory_is_scarce_or_llvm_is_missing(monkeypatch):
    root = unary("sqrt", 10**6)
    assert which(root, counts=[1000], room=8 * LLVM_BYTES) == [True]
    assert which(root, counts=[1000], room=8 * LLVM_BYTES - 1) == [False]
    monkeypatch.setattr(native_pipeline, "llvm_there", lambda: False)
    assert which(root, counts=[1000]) == [False]
    assert which(root, counts=[1000], mode="on") == [False]


def wheres(n: int, size: int, dtype: np.dtype = F8, more: int = 0) -> Program:
    """Where in where, then additions."""
    nodes = [Node("where", (0, 1, 2), dtype)] + [Node("where", (0, 2 + k, 1), dtype) for k in range(1, n)]
    nodes += [Node("add", (2 + n + k, 1), dtype) for k in range(more)]
    chunk, condition = ChunkType((size,), dtype), ChunkType((size,), np.dtype("?"))
    step = Elementwise(Expression((np.dtype("?"), dtype, dtype), tuple(nodes)), (0, 1, 2), chunk)
    return single("where", (condition, chunk, chunk), step)


def names(*programs: Program, counts: list[int], kernels: str = "auto", jit: str = "off") -> list[str]:
    return [one.backend for one in marked(programs, counts, kernels, jit, 2, None)]


def test_auto_takes_numexpr_where_the_table_says_that_it_wins():
    root, chain, mixed = unary("sqrt", 10**6), wheres(3, 10**6), wheres(1, 10**6, more=4)
    assert names(root, chain, mixed, counts=[1000] * 3) == ["numpy", "numexpr", "numpy"]
    assert names(chain, counts=[10]) == ["numpy"]  # saves 7 ms; to import numexpr takes two executors 30
    assert names(wheres(3, 10**4), counts=[10**6]) == ["numpy"]  # a single block
    assert names(wheres(3, 10**6, C16), counts=[1000]) == ["numpy"]


def test_kernels_names_the_back_end_of_all_that_it_can_compute():
    root, sine, chain = unary("sqrt", 10), unary("sin", 10), wheres(3, 10**6)
    assert names(root, sine, chain, counts=[1, 1, 1], kernels="numexpr") == ["numexpr", "numpy", "numexpr"]
    assert names(chain, unary("sqrt", 10**6), counts=[1000, 10**6], kernels="numpy") == ["numpy", "numpy"]
    assert names(unary("sqrt", 10**6), chain, counts=[1, 1000], kernels="jit", jit="auto") == ["llvm", "llvm"]
