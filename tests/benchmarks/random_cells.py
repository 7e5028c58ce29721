"""What drawing cell by cell costs beside NumPy, in one process: the time of chunks of several forms, as ratios.

    python -m tests.benchmarks random_cells [--rounds N]

Each line is one chunk of a large array: it is drawn by our kernel, whole and in blocks as where it is fused, and by
NumPy's generator in blocks. Rounds are interleaved; ratios are of medians.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import numpy as np

from jmars.kernels.blocks import BLOCK_SIZE
from jmars.kernels.program import ChunkType
from jmars.tensor.ops.random_draws import open_draws
from jmars.tensor.ops.random_streams import Cells, Stream

Shape = tuple[int, ...]
CHUNKS: list[tuple[Shape, Shape, Shape]] = [  # the array, the chunk, where it begins
    ((50_000_000,), (5_000_000,), (5_000_000,)),
    ((16_384, 16_384), (2048, 2048), (2048, 2048)),
    ((10_000, 10_000), (2500, 2500), (2500, 2500)),
    ((10_000, 10_000), (500, 10_000), (500, 0)),
    ((10_000, 10_000), (10_000, 100), (0, 100)),
    ((1000, 1000, 1000), (200, 200, 200), (200, 200, 200)),
    ((365, 720, 1440), (1, 720, 1440), (50, 0, 0)),
]
F8 = np.dtype(np.float64)


def ours(method: str, shape: Shape, chunk: Shape, corner: Shape, block: int) -> Callable[[], None]:
    """Draw one chunk by the kernel, `block` elements at a time."""
    stream = Stream.of(np.random.default_rng(0))
    out = np.empty(math.prod(chunk))

    def run() -> None:
        fill = open_draws((method, (), Cells.of(shape), 0), (stream, corner), ChunkType(chunk, F8))
        for start in range(0, out.size, block):
            fill(out[start : start + block], start)

    return run


def numpys(draw: Callable[..., np.ndarray], size: int) -> Callable[[], None]:
    """Draw as many by NumPy into memory that is there, a block at a time."""
    out = np.empty(size)

    def run() -> None:
        for start in range(0, size, BLOCK_SIZE):
            part = out[start : start + BLOCK_SIZE]
            part[...] = draw(size=part.size)

    return run


def seconds(run: Callable[[], object]) -> float:
    """Of the processor, so that neighbours count less."""
    begun = time.process_time()
    run()
    return time.process_time() - begun


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'array':>20} {'chunk':>18} {'method':>16} {'NumPy ns':>9} {'whole':>6} {'blocks':>7}")
    for shape, chunk, corner in CHUNKS:
        for method in ("standard_normal", "poisson"):
            rng, size = np.random.default_rng(1), math.prod(chunk)
            runs = [
                numpys(getattr(rng, method), size),
                ours(method, shape, chunk, corner, size),
                ours(method, shape, chunk, corner, BLOCK_SIZE),
            ]
            times = [[seconds(run) for run in runs] for _ in range(rounds)]
            theirs, whole, blocks = (statistics.median(column) for column in zip(*times))
            form, part = (" x ".join(map(str, one)) for one in (shape, chunk))
            numbers = f"{theirs / size * 1e9:9.1f} {whole / theirs:6.2f} {blocks / theirs:7.2f}"
            print(f"{form:>20} {part:>18} {method:>16} {numbers}")


if __name__ == "__main__":
    main()
