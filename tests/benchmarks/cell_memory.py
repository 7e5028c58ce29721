"""Memory and descriptors of a Jupyter kernel over many cells: python -m tests.benchmarks cell_memory.

The kernel and each process of its cluster: resident memory, as it grew since the first line, and open descriptors.
`--views` shows the live view in each cell, `--plain` has NumPy alone compute the cells, `--new` makes each cell a graph
of a new structure, and `--trace` prints the lines that allocated what the kernel holds at the end and did not hold at
the first line.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.notebook.kernels import Client, running_kernel

SETUP = """
%load_ext jmars
import gc, linecache, os, tracemalloc
import numpy as np
import jmars
from collections import Counter
jmars.config.display = "{display}"
base = np.arange({size}.0)
def objects_():
    gc.collect()
    return Counter(f"{{type(one).__module__}}.{{type(one).__qualname__}}" for one in gc.get_objects())
"""
CELL = "%%jmars\nx = base.reshape(40, -1) + {k}\ntotal = float((x @ x.T).sum() + np.sqrt(x * x + {k}).sum())"
NEW = "%%jmars\ny = np.arange({k}.0, {k}.0 + 1000 + {k}).reshape(1, -1) * 2\ntotal = float(y.sum())"
TRACE = "gc.collect(); before_ = tracemalloc.take_snapshot(); count_ = objects_()"
SHOW = """
gc.collect()
for one in tracemalloc.take_snapshot().compare_to(before_, "traceback")[:{lines}]:
    print(one.size_diff, one.count_diff)
    print("\\n".join(one.traceback.format()[-12:]))
grown_ = objects_()
grown_.subtract(count_)
print([(kind, n) for kind, n in grown_.most_common(40) if n > 20])
"""


def main() -> None:
    """Run the cells and print a line every so many of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--every", type=int, default=200)
    parser.add_argument("--views", action="store_true")
    parser.add_argument("--plain", action="store_true", help="the same cells without jmars")
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--local", action="store_true", help="cells so small that the kernel computes them")
    parser.add_argument("--trace", type=int, default=0, metavar="LINES")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_kernel(Path(folder), "newest") as kernel:
        kernel.run(SETUP.format(display="widget" if asked.views else "none", size=4000 if asked.local else 4_000_000))
        if not asked.plain:
            kernel.run("%%jmars -w 2 --memory 512MiB\nnp.ones(3).sum()")
        if asked.trace:
            kernel.run("tracemalloc.start(12)")
        first: dict[str, int] = {}
        text = NEW if asked.new else CELL
        for done in _cells(kernel, asked.cells, asked.every, text.removeprefix("%%jmars\n") if asked.plain else text):
            found = _sizes(int(kernel.run("print(os.getpid())")))
            first = first or {name: resident for name, (resident, _) in found.items()}
            grown = [
                f"{name} {resident / 2**20:.1f} MiB ({(resident - first.get(name, 0)) / 2**20:+.2f}), {files} fds"
                for name, (resident, files) in found.items()
            ]
            print(f"{done:5} cells: {'; '.join(grown)}", flush=True)
            if asked.trace and done == asked.every:
                kernel.run(TRACE)
        if asked.trace:
            print(kernel.run(SHOW.format(lines=asked.trace), timeout=300))


def _cells(kernel: Client, cells: int, every: int, text: str) -> Iterator[int]:
    for k in range(1, cells + 1):
        kernel.run(text.format(k=k))
        kernel.iopub.clear()
        if k % every == 0:
            yield k


def _sizes(pid: int) -> dict[str, tuple[int, int]]:
    """Resident bytes and descriptors by process: the kernel, and each process that it or a child of it started."""
    kernel = psutil.Process(pid)
    found = {}
    for number, one in enumerate([kernel, *kernel.children(recursive=True)]):
        name = "kernel" if one.pid == pid else f"{number} {one.name()}"
        found[name] = (one.memory_info().rss, one.num_fds())
    return found


if __name__ == "__main__":
    main()
