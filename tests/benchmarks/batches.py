"""Loops over batches of a cold Zarr array, beside the disk and zarr alone: python -m tests.benchmarks batches

    python -m tests.benchmarks batches [--gigabytes 1] [--limit 512MiB] [--rounds 2] [--packed]

Rows of 256 float32; --packed: compressed by zarr's default. Before each loop the pages of the files are dropped from
the system's cache. MiB/s are bytes of the array; `disk` reads the files in two threads, `zarr` piece by piece. Memory
is the most that all processes of the cluster and this one had together (PSS), above that before the loop.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import zarr

import jmars
import jmars.tensor as mt
from jmars.units import format_bytes, parse_bytes
from tests.benchmarks.machine import cpu_between, cpu_by_process, this_machine

COLUMNS = 256
PIECE = 2**24  # bytes
SIZE = 1024  # rows of a batch


def fill(box: tuple[slice, ...]) -> Any:
    """Rows that begin with their number; the rest has eight random bits an element."""
    rows = np.arange(box[0].start, box[0].stop)
    found = np.random.default_rng(box[0].start).integers(0, 256, (len(rows), COLUMNS), np.uint8).astype("f4")
    found[:, 0] = rows
    return found[:, box[1]]


def files(folder: Path) -> list[Path]:
    """All files in a folder."""
    return sorted(one for one in folder.rglob("*") if one.is_file())


def drop_pages(folder: Path) -> None:
    """Have the next reads come from the disk."""
    for one in files(folder):
        descriptor = os.open(one, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def disk(folder: Path) -> None:
    """Read all files, two at a time."""

    def read(path: Path) -> None:
        buffer = bytearray(2**23)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(read, files(folder)))


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Sample the memory of this process and its children; the list gets what it was at first, and the most."""
    found, stop = [0, 0], threading.Event()

    def now() -> int:
        total = 0
        for one in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            try:
                total += one.memory_full_info().pss
            except psutil.Error:
                pass
        return total

    def watch() -> None:
        while not stop.wait(0.3):
            found[1] = max(found[1], now())

    found[0] = found[1] = now()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def loop(x: Any, shuffle: bool, seed: int) -> tuple[float, np.ndarray]:
    """Seconds to the first batch of an epoch, and the numbers of its rows."""
    start, first, numbers = time.perf_counter(), 0.0, []
    for batch in x.batches(SIZE, shuffle=shuffle, seed=seed):
        first = first or time.perf_counter() - start
        numbers.append(batch[:, 0].astype(np.int64))
    return first, np.concatenate(numbers)


def main() -> None:
    """Write the array, and print a line for each reader and round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--limit", default="512MiB")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--folder", help="for the array; by default a temporary one")
    options = parser.parse_args()
    rows = int(options.gigabytes * 2**30) // (COLUMNS * 4)
    print(this_machine())
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as name,
        jmars.Cluster(n_workers=2, memory_limit=parse_bytes(options.limit)),
    ):
        folder = Path(name) / "rows.zarr"
        made = mt.from_blocks(fill, (rows, COLUMNS), "f4", chunks=(PIECE // (COLUMNS * 4), COLUMNS))
        mt.to_zarr(made, folder, **({} if options.packed else {"compressors": None}))
        stored = sum(one.stat().st_size for one in files(folder))
        size = rows * COLUMNS * 4
        print(f"{format_bytes(size)} in pieces of 16 MiB, {format_bytes(stored)} on disk, limit {options.limit}")

        def report(reader: str, read: Callable[[], Any]) -> None:
            drop_pages(folder)
            before = cpu_by_process([os.getpid()])
            with peak_memory() as memory:
                start = time.perf_counter()
                found = read()
                seconds = time.perf_counter() - start
            used = cpu_between(before, cpu_by_process([os.getpid()]))
            line = f"{reader:10} {size / 2**20 / seconds:7.0f} MiB/s {seconds:7.2f} s, {used:6.2f} s of CPU"
            if found is not None:
                first, numbers = found
                once = "each row once" if (np.bincount(numbers, minlength=rows) == 1).all() else "WRONG ROWS"
                line += f", first batch {first:.2f} s, {once}, memory +{format_bytes(memory[1] - memory[0])}"
            print(line, flush=True)

        def by_zarr() -> None:
            array = zarr.open_array(str(folder), mode="r")
            for low in range(0, rows, array.chunks[0]):
                array[low : low + array.chunks[0]]

        x = mt.from_zarr(str(folder))
        for turn in range(options.rounds):
            report("disk", partial(disk, folder))
            report("zarr", by_zarr)
            report("in order", partial(loop, x, False, turn))
            report("shuffled", partial(loop, x, True, turn))


if __name__ == "__main__":
    main()
