"""Where numexpr beats NumPy in blocks: the operations of the table in `kernels/elementwise.py`, and whole expressions.

    python -m tests.benchmarks backends [--rounds 25]

For each operation that numexpr computes with NumPy's bits: CPU ns of an element of a chunk in the cache, by the
difference between nine operations in a row and one, beside the table's numbers. Then expressions on chunks of 1 Mi
elements, and whether `kernels="auto"` takes numexpr for them; the last line has those for which NumPy was faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.kernels import ChunkType, Program, compile_program
from jmars.kernels.elementwise import OPS
from jmars.kernels.expression import Expression, Node
from jmars.kernels.native_pipeline import marked
from jmars.kernels.program import Elementwise, single
from tests.benchmarks.machine import this_machine

F8, F4, I8, BOOL = map(np.dtype, ("f8", "f4", "i8", "?"))
Nodes = Sequence[tuple[str, tuple[int, ...], np.dtype[Any]]]
WAYS = ("numpy", "numexpr")
SHAPES = ((1, 0, 0), (4, 0, 0), (8, 0, 0), (4, 1, 0), (8, 1, 2), (4, 4, 0), (1, 1, 4), (4, 0, 4))  # of `wheres`


def program(inputs: Sequence[np.dtype[Any]], nodes: Nodes, size: int) -> Program:
    """An expression on chunks of `size`."""
    expression = Expression(tuple(inputs), tuple(Node(*node[:3]) for node in nodes))
    chunk = ChunkType((size,), expression.dtype)
    step = Elementwise(expression, tuple(range(len(inputs))), chunk)
    return single("expression", [ChunkType((size,), dtype) for dtype in inputs], step)


def least(one: Program, rounds: int, condition: str = "halves") -> list[float]:
    """CPU ns of an element, by NumPy and by numexpr."""
    rng = np.random.default_rng(0)
    size = one.output.size
    bools = np.arange(size) < size // 2 if condition == "halves" else rng.random(size) < 0.5
    made = [bools if kind.dtype == BOOL else (rng.random(size) + 1).astype(kind.dtype) for kind in one.inputs]
    out, found = np.empty(size, one.output.dtype), []
    for way in WAYS:
        kernel = compile_program(one, way)
        assert kernel.backend.startswith(way)
        taken = []
        for _ in range(rounds):
            start = time.process_time()
            for _ in range(4):
                kernel(out, made)
            taken.append((time.process_time() - start) / 4)
        found.append(1e9 * min(taken) / size)
    return found


def in_a_row(op: str, dtype: np.dtype[Any], n: int) -> Program:
    """`n` operations, each on the result before."""
    if op == "where":
        nodes = [(op, (0, 1 if k == 0 else 2 + k, 1 + k % 2 if k else 2), dtype) for k in range(n)]
        return program([BOOL, dtype, dtype], nodes, 1 << 18)
    arity = getattr(np, op).nin
    nodes = [(op, (arity - 1 + k if k else 0, *[k % 2 if k else 1] * (arity - 1)), dtype) for k in range(n)]
    return program([dtype] * arity, nodes, 1 << 18)


def wheres(n: int, compared: int, added: int, dtype: np.dtype[Any]) -> Program:
    """`n` wheres, `compared` of them with a condition that is computed, then additions."""
    inputs = [BOOL] * (compared < n) + [dtype, dtype]
    nodes: list[tuple[str, tuple[int, ...], np.dtype[Any]]] = []
    x, y = len(inputs) - 2, len(inputs) - 1
    value = x
    for k in range(n):
        condition = 0
        if k < compared:
            nodes.append(("greater", (value, y), BOOL))
            condition = y + len(nodes)
        nodes.append(("where", (condition, value, y if k % 2 == 0 else x), dtype))
        value = y + len(nodes)
    for _ in range(added):
        nodes.append(("add", (value, x), dtype))
        value = y + len(nodes)
    return program(inputs, nodes, 1 << 20)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    print(f"machine: {this_machine()}\n{'ns an element':30}{'NumPy':>8}{'numexpr':>9}   table")
    with np.errstate(all="ignore"):
        for op, row in OPS.items():
            kinds = row.numexpr[0] if row.numexpr else "if" if op == "where" else ""
            for dtype in (F8, F4, I8, BOOL):
                if dtype.kind in kinds and not row.compares:  # a comparison is no input of the next
                    long, short = (least(in_a_row(op, dtype, n), rounds) for n in (9, 1))
                    ours, theirs = ((a - b) / 8 for a, b in zip(long, short, strict=True))
                    print(f"{op + ' ' + dtype.name:30}{ours:8.2f}{theirs:9.2f}   {row.in_cache}")
        print(f"\n{'expression':44}{'NumPy':>8}{'numexpr':>9}{'ratio':>7}   auto takes")
        slower = []
        for n, compared, added in SHAPES:
            one = wheres(n, compared, added, F8)
            (chosen,) = (found.backend for found in marked([one], [10_000], "auto", "off", 1, None))
            for condition in ("halves", "random"):
                ours, theirs = least(one, rounds // 3 + 1, condition)
                name = f"{n} where, {compared} compared, {added} added, {condition}"
                print(f"{name:44}{ours:8.2f}{theirs:9.2f}{theirs / ours:7.2f}   {chosen}")
                slower += [name] * (chosen == "numexpr" and theirs > ours)
        print(f"numexpr taken where NumPy was faster: {slower}")


if __name__ == "__main__":
    main()
