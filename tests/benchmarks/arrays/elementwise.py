"""What an element costs one thread: blocks of NumPy beside machine code, with no cluster around them.

    python -m tests.benchmarks elementwise [--rounds 15]

Chunks of 1 Mi float64 from 0 to 10. `NumPy's own` is NumPy by hand in blocks that stay in the cache; `blocks` are ours;
`machine code` needs llvmlite (extra `jit`) and, for the sine, the switch `jit="fast"`. All take turns in each round,
and the medians are printed, in ns an element.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jmars.kernels import ChunkType, compile_program
from jmars.kernels.blocks import BLOCK_SIZE
from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import Elementwise, Program, Reduce
from jmars.kernels.reducers import UfuncReducer
from jmars.kernels.routines import llvm_there
from tests.benchmarks.machine import this_machine

SIZE = 2**20
F8 = np.dtype("f8")
CHUNK = ChunkType((SIZE,), F8)
SINE = [("sin", (0,))]
BOTH = [("multiply", (0, 0)), ("multiply", (1, 1)), ("add", (2, 3)), ("sqrt", (4,)), ("sin", (0,)), ("add", (5, 6))]

Array = np.ndarray[Any, Any]


def program(nodes: list[tuple[str, tuple[int, ...]]], inputs: int, total: bool) -> Program:
    """One that writes the values of an expression, or their sum."""
    expression = Expression((F8,) * inputs, tuple(Node(op, args, F8) for op, args in nodes))
    middle = Elementwise(expression, tuple(range(inputs)), CHUNK)
    if not total:
        return Program("elementwise", (CHUNK,) * inputs, CHUNK, (middle,))
    last = Reduce(UfuncReducer("add", F8), (0,), (inputs,), ChunkType((1,), F8))
    return Program("sum", (CHUNK,) * inputs, last.output, (middle, last))


def by_hand(x: Array, y: Array | None, out: Array, total: bool) -> float:
    """NumPy's own functions, block by block."""
    value, a, b = 0.0, np.empty(BLOCK_SIZE), np.empty(BLOCK_SIZE)
    for low in range(0, SIZE, BLOCK_SIZE):
        here = slice(low, low + BLOCK_SIZE)
        u, w = x[here], b if total else out[here]
        np.sin(u, w)
        if y is not None:
            np.multiply(u, u, a)
            a += np.multiply(y[here], y[here])
            w += np.sqrt(a, a)
        if total:
            value += np.add.reduce(w)
    return value


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(1)
    x, y, out = rng.random(SIZE) * 10, rng.random(SIZE) * 10, np.empty(SIZE)
    lines: dict[str, dict[str, Callable[[], Any]]] = {}
    for name, nodes, total in (
        ("sin(x)", SINE, False),
        ("sqrt(x*x + y*y) + sin(x)", BOTH, False),
        ("the same, summed", BOTH, True),
    ):
        arrays = [x, y][: 1 + (nodes is BOTH)]
        one = program(nodes, len(arrays), total)
        ways: dict[str, Callable[[], Any]] = {
            "NumPy's own": partial(by_hand, x, y if nodes is BOTH else None, out, total)
        }
        for way, backend in (("blocks", "numpy"), ("machine code", "llvm-fast"))[: 1 + llvm_there()]:
            ways[way] = partial(compile_program(one, backend), out[:1] if total else out, arrays)
        lines[name] = ways
    taken: dict[tuple[str, str], list[float]] = {(name, way): [] for name, ways in lines.items() for way in ways}
    for number in range(rounds + 1):  # the first one warms
        for name, ways in lines.items():
            for way, work in ways.items():
                start = time.perf_counter()
                work()
                taken[name, way] += [1e9 * (time.perf_counter() - start) / SIZE] * bool(number)
    print(f"machine: {this_machine()}\n{'ns an element':26}" + "".join(f"{way:>14}" for way in lines["sin(x)"]))
    for name, ways in lines.items():
        print(f"{name:26}" + "".join(f"{statistics.median(taken[name, way]):14.2f}" for way in ways))


if __name__ == "__main__":
    main()
