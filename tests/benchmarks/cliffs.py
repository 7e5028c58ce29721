"""Works that need far less than all of their arrays, beside NumPy and dask.array: python -m tests.benchmarks cliffs.

Each work computes little of a large array: a window of windows, rows of a memory map, writes in a loop, singular values
without vectors, an element of an array of the kernel. All engines run in interleaved rounds; jmars and dask have two
workers of one thread. Printed are seconds (the median of the rounds), and the most bytes that the process, and for
jmars the cluster, have beyond what they had before. An engine that refuses a work, for want of memory or another
reason, is printed as such. `--scale` multiplies the sizes; `--only` chooses works.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import xarray as xr
from IPython.core.interactiveshell import InteractiveShell

import jmars
import jmars.tensor as mt
from tests.benchmarks.machine import this_machine

MIB = 2**20
WORKERS = 2
SAMPLE_SECONDS = 0.02
windows = np.lib.stride_tricks.sliding_window_view


class Work(NamedTuple):
    """A work on each engine; None where dask.array cannot do it."""

    name: str
    numpy: Callable[[], Any]
    dask: Callable[[], Any] | None
    jmars: Callable[[], Any]


class Peak:
    """The most bytes of this process and a cluster within a `with`, beyond those before."""

    def __init__(self, cluster: jmars.Cluster) -> None:
        self._cluster, self._ended = cluster, threading.Event()
        self.most = 0

    def _resident(self) -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096 + int(self._cluster.info()["memory"]["resident"])

    def _watch(self, before: int) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.most = max(self.most, self._resident() - before)

    def __enter__(self) -> Peak:
        self._thread = threading.Thread(target=self._watch, args=(self._resident(),), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def works(shell: Any, folder: Path, scale: float) -> list[Work]:
    """The works; `shell` has their arrays as names of the user."""
    rng = np.random.default_rng(0)
    line, box = rng.random(int(4e6 * scale)), rng.random((int(1000 * scale), 120, 130))
    tall, big = rng.random((int(200_000 * scale), 64)), rng.random((int(60_000 * scale), 1000))
    np.save(folder / "map.npy", big)
    os.utime(folder / "map.npy", (0, 0))  # a file of long ago
    part = np.load(folder / "map.npy", mmap_mode="r")[100:]
    rows, many, n = np.arange(0, len(part) // 2, len(part) // 20), np.arange(0, len(part), 16), int(1000 * scale)
    shell.user_ns.update(np=np, big=big, part=part, rows=rows, many=many)
    places, points = np.sort(rng.random(len(line) // 10)) * len(line), np.arange(float(len(line)))
    held = {"places": mt.asarray(places), "points": mt.tensor(points, chunk_size=len(line) // 10 + 1)}
    held |= {"line": mt.asarray(line), "box": mt.asarray(box), "tall": mt.asarray(tall)}
    jmars.execute(*held.values())
    in_dask = {name: da.from_array(x) for name, x in (("line", line), ("tall", tall), ("big", big), ("part", part))}
    days = {"time": np.datetime64("2000-01-01") + np.arange(len(box))}
    cubes = [xr.DataArray(x, days, ("time", "y", "x")) for x in (box, da.from_array(box), held["box"])]

    def cell(text: str) -> Any:
        shell.run_cell(f"%%jmars\n{text}").raise_error()
        return shell.user_ns.get("e")

    def anomaly(cube: Any) -> Any:
        months = cube.groupby("time.month")
        return months - months.mean("time")

    def loop(namespace: Any, count: int) -> Any:
        x = namespace.zeros((count, 1000))
        for k in range(count):
            x[k] = float(k)
        return x.sum()

    def write() -> None:
        big[5, 5] = 2.0

    def fetched(value: Any) -> Any:
        return mt.as_tensor(value).fetch() if not isinstance(value, mt.Tensor) else value.fetch()

    return [
        Work("sliding_window_view(line, 1000)[5].sum()", lambda: windows(line, 1000)[5].sum(),
             lambda: da.lib.stride_tricks.sliding_window_view(in_dask["line"], 1000)[5].sum().compute(),
             lambda: fetched(windows(held["line"], 1000)[5].sum())),
        Work("sliding_window_view(box, 50, 0).mean(-1)", lambda: windows(box, 50, 0).mean(-1),
             lambda: da.lib.stride_tricks.sliding_window_view(cubes[1].data, 50, 0).mean(-1).compute(),
             lambda: fetched(windows(held["box"], 50, 0).mean(-1))),
        *(Work(f"xarray: rolling(time=50).{name}()", lambda name=name: getattr(cubes[0].rolling(time=50), name)(),
               lambda name=name: getattr(cubes[1].rolling(time=50), name)().compute(),
               lambda name=name: getattr(cubes[2].rolling(time=50), name)().compute()) for name in ("mean", "std")),
        Work("xarray: groupby(time.month) - mean", lambda: abs(anomaly(cubes[0])).mean().values,
             lambda: abs(anomaly(cubes[1])).mean().compute(), lambda: abs(anomaly(cubes[2])).mean().values),
        Work("rows of a slice of a map", lambda: part[rows].sum(), lambda: in_dask["part"][rows].sum().compute(),
             lambda: cell("e = part[rows].sum()")),
        Work("many rows of a slice of a map", lambda: part[many].sum(), lambda: in_dask["part"][many].sum().compute(),
             lambda: cell("e = part[many].sum()")),
        Work("half of a slice of a map", lambda: part[: 30 * n].sum(),
             lambda: in_dask["part"][: 30 * n].sum().compute(),
             lambda: cell(f"e = part[: {n * 30}].sum()")),
        Work(f"a[k] = v, {n} times", lambda: loop(np, n), lambda: loop(da, n).compute(),
             lambda: fetched(loop(mt, n))),
        Work(f"a[k] = v, {5 * n} times", lambda: loop(np, 5 * n), None, lambda: fetched(loop(mt, 5 * n))),
        Work("interp(places, points, line)", lambda: np.interp(places, points, line), None,
             lambda: fetched(np.interp(held["places"], held["points"], held["line"]))),
        Work("svd(tall)[1]", lambda: np.linalg.svd(tall, full_matrices=False)[1],
             lambda: da.linalg.svd(in_dask["tall"])[1].compute(), lambda: fetched(np.linalg.svd(held["tall"])[1])),
        Work("big[5, 5] in a cell", lambda: big[5, 5], lambda: in_dask["big"][5, 5].compute(),
             lambda: cell("e = big[5, 5]")),
        Work("big[:, 3].sum() in a cell", lambda: big[:, 3].sum(), lambda: in_dask["big"][:, 3].sum().compute(),
             lambda: cell("e = big[:, 3].sum()")),
        Work("big[5, 5] = 2 in a cell", write, None, lambda: cell("big[5, 5] = 2.0")),
    ]  # fmt: skip


def measured(work: Callable[[], Any], cluster: jmars.Cluster) -> tuple[float, int] | str:
    """Seconds and bytes of a work, or the error."""
    with Peak(cluster) as peak:
        begun = time.perf_counter()
        try:
            work()
        except Exception as error:  # printed: a refusal is a result
            return f"{type(error).__name__}: {str(error)[:60]}"
        took = time.perf_counter() - begun
    return took, peak.most


def text(found: list[tuple[float, int] | str]) -> str:
    """The figures of an engine."""
    refused = next((one for one in found if isinstance(one, str)), None)
    if refused or not found:
        return f"{refused or '-':>24}"
    some = [one for one in found if not isinstance(one, str)]
    return f"{statistics.median(one[0] for one in some):9.3f} s {max(one[1] for one in some) / MIB:8.0f} MiB"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--memory", default="2GiB", help="memory limit of the cluster")
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of works")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    dask.config.set(scheduler="threads", num_workers=WORKERS)
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jmars")
    with (
        tempfile.TemporaryDirectory() as name,
        jmars.Cluster(n_workers=WORKERS, memory_limit=given.memory) as cluster,
        jmars.config.using(display="none"),
    ):
        print(f"{'':44}{'NumPy':>24}{'dask.array':>24}{'jmars':>24}")
        for work in works(shell, Path(name), given.scale):
            if given.only and not any(part in work.name for part in given.only):
                continue
            engines = {kind: function for kind in ("numpy", "dask", "jmars") if (function := getattr(work, kind))}
            found: dict[str, list[tuple[float, int] | str]] = {"numpy": [], "dask": [], "jmars": []}
            for _ in range(given.rounds):
                for kind, function in engines.items():
                    if not any(isinstance(one, str) for one in found[kind]):
                        found[kind].append(measured(function, cluster))
            print(f"{work.name:44}{''.join(map(text, found.values()))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
