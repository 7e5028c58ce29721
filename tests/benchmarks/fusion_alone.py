"""CPU time of what runs, way by way: every operand of a workload, one after the other in this process.

    python -m tests.benchmarks fusion_alone [--chunks 20 200 800] [--rounds 5]

The workloads of fusion.py on arrays of 4 x 4 to 40 x 40 square chunks. A busy machine blurs this less than a run on a
cluster: CPU time of this thread alone, the least of the rounds, all ways in each round. Chunks lie in memory that is
used again, as in the cluster's. `with control` adds what an operand costs beside its work, 10 µs (dispatch.py).
`held` is the most bytes of chunks and scratch at a time, in depth-first order.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import jmars.tensor as mt
from jmars.kernels import compile_program
from jmars.optimize import compile_graph
from jmars.optimize.passes import Compiled
from jmars.tensor.tensor_graph import TensorGraph
from jmars.units import format_bytes
from tests.benchmarks.fusion import WAYS, WORKLOADS
from tests.benchmarks.machine import this_machine

CONTROL = 10e-6  # seconds of CPU for an operand

Array = np.ndarray[Any, Any]


class Memory:
    """Buffers that are given back and used again."""

    def __init__(self) -> None:
        self.free: dict[int, list[Array]] = {}

    def take(self, size: int) -> Array:
        found = self.free.setdefault(size, [])
        return found.pop() if found else np.ones(max(size, 1), np.uint8)

    def give(self, buffer: Array, size: int) -> None:
        self.free[size].append(buffer)


def run(compiled: Compiled, held: dict[str, list[Array]], memory: Memory) -> tuple[float, int, float]:
    """(seconds of CPU, most bytes, value)."""
    graph = compiled.after
    left = np.bincount(graph.input_idx, minlength=graph.n).tolist()
    kernels = [compile_program(program) for program in graph.programs]
    values: list[Any] = [None] * graph.n
    buffers: list[Any] = [None] * graph.n
    now = most = 0
    result = next(iter(graph.results.values())).item()
    start = time.thread_time()
    for row in np.argsort(compiled.rank).tolist():
        number = int(graph.program[row])
        if number < 0:
            key, index = graph.stored[row]
            values[row] = held[key][index]
            continue
        program, read = graph.programs[number], graph.inputs(row).tolist()
        size = program.output.nbytes
        buffers[row] = memory.take(size)
        values[row] = buffers[row][:size].view(program.output.dtype).reshape(program.output.shape)
        kernels[number](values[row], [values[one] for one in read], graph.args[row] if graph.args else ())
        now += size
        most = max(most, now + program.work)
        for one in read:
            left[one] -= 1
            if not left[one] and buffers[one] is not None:
                memory.give(buffers[one], values[one].nbytes)
                now -= values[one].nbytes
                values[one] = buffers[one] = None
    elapsed = time.thread_time() - start
    value = float(values[result])
    for row in np.flatnonzero([buffer is not None for buffer in buffers]).tolist():
        memory.give(buffers[row], values[row].nbytes)
    return elapsed, most, value


def arrays(chunk: int, across: int) -> tuple[dict[str, Any], dict[str, list[Array]]]:
    """Tensors of `across` chunks each way, and their chunks by key."""
    side, random = chunk * across, np.random.default_rng(0)
    shapes = dict.fromkeys(("grid", "grid2", "square", "weights"), ((side, side), (chunk, chunk)))
    shapes |= dict.fromkeys(("x", "y"), ((side * side,), (chunk * chunk,))) | {"bias": ((side,), (chunk,))}
    tensors, chunks = {}, {}
    for name, (shape, cut) in shapes.items():
        tensor = tensors[name] = mt.asarray(random.random(shape), chunk_size=cut)
        whole = random.random(shape)
        corners = itertools.product(*(range(0, n, step) for n, step in zip(shape, cut)))
        parts = [tuple(slice(at, at + step) for at, step in zip(corner, cut)) for corner in corners]
        chunks[tensor.data.key] = [np.ascontiguousarray(whole[part]) for part in parts]
    return tensors, chunks


def measure(chunk: int, across: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """All workloads in all ways; (time, held) of each way relative to no fusion."""
    tensors, chunks = arrays(chunk, across)
    memory = Memory()
    relative: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for name, workload in WORKLOADS.items():
        graph = TensorGraph.of([workload((chunk * across) ** 2 / 16e6, tensors).data])
        for number, _, _ in graph.arrays():
            graph.replace_by_stored(number, graph.metas[number].key)
        compiled = {way: compile_graph(graph, switches | {"order": "dfs"}) for way, switches in WAYS.items()}
        runs = {way: [run(one, chunks, memory) for _ in range(2)] for way, one in compiled.items()}  # warm, once
        for _ in range(rounds):
            for way, one in compiled.items():
                runs[way].append(run(one, chunks, memory))
        values = [one[2] for found in runs.values() for one in found]
        assert max(values) - min(values) <= 1e-9 * abs(values[0]), (name, values)
        print(f"\n{name}, chunks of {chunk} x {chunk}: {'cpu ms':>8} {'with control':>13} {'operands':>9} {'held':>10}")
        for way, found in runs.items():
            cpu, most = min(one[0] for one in found[1:]), max(found[0][1], 1)
            operands = int((compiled[way].after.program >= 0).sum())
            whole = cpu + CONTROL * operands
            if way == "off":
                base = whole, most
            relative[way].append((whole / base[0], most / base[1]))
            print(f"  {way:22}{1e3 * cpu:16.1f} {1e3 * whole:13.1f} {operands:9} {format_bytes(most):>10}")
    return relative


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=[20, 200, 800], help="elements along a chunk's side")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    np.seterr(all="ignore")
    found = {
        chunk: measure(chunk, 40 if chunk < 100 else 8 if chunk < 500 else 4, given.rounds) for chunk in given.chunks
    }
    print("\nrelative to no fusion, geometric means: time with control, bytes held")
    print(f"  {'':22}" + "".join(f"{f'{chunk} x {chunk}':>16}" for chunk in found) + f"{'all':>16}")
    for way in WAYS:
        cells = [relative[way] for relative in found.values()]
        cells.append([pair for cell in cells for pair in cell])
        texts = []
        for cell in cells:
            means = [math.exp(statistics.fmean(math.log(pair[k]) for pair in cell)) for k in (0, 1)]
            texts.append(f"{means[0]:9.3f} {means[1]:6.3f}")
        print(f"  {way:22}" + "".join(texts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
