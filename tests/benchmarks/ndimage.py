"""Filters of images beside SciPy alone: python -m tests.benchmarks ndimage [FILTER ...].

An array of `--size` rows and columns of float64 (11,585: 1 GiB) is filtered by SciPy in a process of its own, and by
jmars on `--workers` workers, where the array already is. Printed are the seconds of both, their ratio, the seconds of
CPU of both (of all processes), SciPy's peak of memory beyond the interpreter's, and how many elements differ. With
`--streamed` the array is drawn chunk by chunk during the run and the filtered array is only compared, on a cluster
whose memory limit is a tenth of SciPy's peak. `--check` fails where a bit differs, or where the ratio is below 1.5 and
`--streamed` was not asked.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

import jmars
import jmars.tensor as mt
from tests.benchmarks.machine import cpu_by_process, this_machine

Array = np.ndarray[Any, Any]
BAND = 64  # rows that are drawn together
DISK = ndimage.generate_binary_structure(2, 1)
FILTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gaussian": ("gaussian_filter", {"sigma": 2}),
    "gaussian, wide": ("gaussian_filter", {"sigma": 10, "mode": "nearest"}),
    "derivative": ("gaussian_filter", {"sigma": 2, "order": (0, 1), "mode": "mirror"}),
    "gaussian_laplace": ("gaussian_laplace", {"sigma": 2}),
    "gradient": ("gaussian_gradient_magnitude", {"sigma": 2}),
    "laplace": ("laplace", {}),
    "sobel": ("sobel", {"mode": "wrap"}),
    "prewitt": ("prewitt", {}),
    "uniform": ("uniform_filter", {"size": 9}),
    "convolve": ("convolve", {"weights": np.arange(25.0).reshape(5, 5)}),
    "correlate1d": ("correlate1d", {"weights": np.arange(15.0), "mode": "constant", "cval": 0.5}),
    "minimum": ("minimum_filter", {"size": 7}),
    "maximum": ("maximum_filter", {"footprint": np.ones((5, 5))}),
    "median": ("median_filter", {"size": 3}),
    "percentile": ("percentile_filter", {"percentile": 20, "size": (1, 7)}),
    "rank": ("rank_filter", {"rank": 2, "footprint": DISK}),
    "grey_opening": ("grey_opening", {"size": (5, 5)}),
    "white_tophat": ("white_tophat", {"size": (9, 9)}),
    "morphological_gradient": ("morphological_gradient", {"size": (3, 3)}),
    "binary_erosion": ("binary_erosion", {"iterations": 3}),
}


def drawn(first: int, rows: int, columns: int) -> Array:
    """Some rows of the array, from a multiple of BAND on."""
    bands = range(first, first + rows, BAND)
    return np.concatenate([np.random.default_rng(at).random((min(BAND, first + rows - at), columns)) for at in bands])


def alone(name: str, size: int, file: Path) -> None:
    """SciPy in this process; prints its seconds and its peak of memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = np.empty((size, size))
    for at in range(0, size, BAND):
        x[at : at + BAND] = drawn(at, min(BAND, size - at), size)
    function, options = FILTERS[name]
    if function.startswith("binary"):
        x = x > 0.05
    begin, cpu = time.perf_counter(), time.process_time()
    found = getattr(ndimage, function)(x, **options)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(seconds, cpu, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
    np.save(file, found)


def tensor(size: int, height: int) -> mt.Tensor:
    """The same array, drawn by the workers in chunks of `height` rows."""
    rows = tuple(min(height, size - at) for at in range(0, size, height))
    firsts = mt.arange(0, size, height, chunk_size=1).reshape(-1, 1)
    made = mt.map_blocks(lambda first, block_id: drawn(int(first[0, 0]), rows[block_id[0]], size), firsts, dtype="f8",
                         chunks=(rows, (size,)))  # fmt: skip
    return made


def filtered(name: str, x: mt.Tensor) -> mt.Tensor:
    """What jmars computes."""
    function, options = FILTERS[name]
    found: mt.Tensor = getattr(mt.ndimage, function)(x > 0.05 if function.startswith("binary") else x, **options)
    return found


def differing(found: mt.Tensor, file: Path) -> int:
    """Number of elements with other bits than those in the file."""
    theirs = mt.asarray(np.load(file, mmap_mode="r"), chunks=found.chunks)
    assert found.dtype == theirs.dtype and found.shape == theirs.shape
    bits = f"u{found.dtype.itemsize}"
    return int((found.view(bits) != theirs.view(bits)).sum())


def cpu_seconds() -> float:
    """Seconds of CPU of this process and those below it."""
    return sum(cpu_by_process([os.getpid()]).values())


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="FILTER")
    parser.add_argument("--size", type=int, default=11_585, help="rows and columns")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--streamed", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone is not None:
        alone(given.names[0], given.size, given.alone)
        return 0
    print(this_machine())
    print(
        f"{'':24}{'SciPy s':>9}{'jmars s':>9}{'ratio':>7}{'CPU s':>8}{'CPU s':>8}"
        f"{'SciPy MiB':>11}{'limit MiB':>11}{'bits differ':>13}"
    )
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "found.npy")
        for name in given.names or FILTERS:
            command = [sys.executable, "-m", "tests.benchmarks", "ndimage", name, "--size", str(given.size)]
            answer = subprocess.run([*command, "--alone", str(file)], check=True, capture_output=True, text=True)
            theirs, their_cpu, peak = map(float, answer.stdout.split())
            limit = int(peak / 10) if given.streamed else int(4 * 8 * given.size**2 + 2**30)
            with jmars.Cluster(n_workers=given.workers, memory_limit=limit):
                x = tensor(given.size, BAND if given.streamed else 4 * BAND)
                warm = filtered(name, mt.ones((600, 600), chunk_size=300)).execute()  # the workers import SciPy
                if not given.streamed:
                    x = mt.asarray(x).execute()
                begin, cpu = time.perf_counter(), cpu_seconds()
                if given.streamed:
                    differ = differing(filtered(name, x), file)
                    ours, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
                else:
                    found = filtered(name, x).execute()
                    ours, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
                    differ = differing(found, file)
                    del found
                del x, warm
            failed |= differ > 0 or (not given.streamed and theirs < 1.5 * ours)
            print(f"{name:24}{theirs:9.2f}{ours:9.2f}{theirs / ours:7.2f}{their_cpu:8.2f}{cpu:8.2f}"
                  f"{peak / 2**20:11.0f}{limit / 2**20:11.0f}{differ:13,}", flush=True)  # fmt: skip
    return int(failed and given.check)


if __name__ == "__main__":
    sys.exit(main())
