"""xarray's own tests with jmars in Dask's place: counts them, and lists the failures by cause.

    python -m tests.conformance.xarray_suite                    all files of FILES
    python -m tests.conformance.xarray_suite test_dask          a file
    python -m tests.conformance.xarray_suite test_dask --show   with each failure and its message
    python -m tests.conformance.xarray_suite test_dask --manager dask     the same tests with Dask

xarray's tests take array functions and the class of arrays from the chunk manager of the name "dask"; jmars's is put
there, and `dask.compute`, `persist` and `is_dask_collection` learn xarray objects on tensors. Failed tests of Dask's
own protocol are counted apart: the message, or the code of the test, names Dask's graphs, keys, tokens or delayed
objects. Needs xarray with its tests, pandas, Dask and pytest-timeout; more tests run if there are flox, bottleneck,
cftime and numbagg.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import xarray

PARTS = "dask or chunk or lazy"
FILES = {  # and the tests that are chosen by name
    "test_dask": None, "test_rolling": PARTS, "test_interp": PARTS, "test_coarsen": PARTS, "test_computation": PARTS,
    "test_duck_array_ops": PARTS, "test_groupby": PARTS, "test_dataarray": PARTS, "test_dataset": PARTS,
    "test_missing": PARTS, "test_weighted": PARTS,
}  # fmt: skip
PROTOCOL = "Dask's own protocol: graphs, keys, delayed objects, data frames"
ASKS_DASK = re.compile(r"__dask_\w+__|\._meta\b|\.blocks\[|\btokenize\(|graph_manipulation|patch\(\s*dask_|\.dask\b")
CAUSES = [
    (PROTOCOL, re.compile(
        r"__dask_|tokenize|dask\.delayed|from_delayed|\bdelayed\b|HighLevelGraph|dask\.optimize|gm\.|dask\.config|"
        r"\.dask\b|has no attribute '(dask|name|_meta|partitions|numblocks|blocks|npartitions|to_legacy_dataframe)'|"
        r"dask_array_expr|dask\.array[<.]|dask\.dataframe|dask_expr|bag|dask\.base|pint|Dask|traverse|optimize_graph")),
    ("objects and cftime, which jmars refuses",
     re.compile(r"dtype object|cftime|unexpected keyword argument 'chunks'")),
    ("map_blocks of xarray objects", re.compile(r"drop_axis|new_axis|block_info|map_blocks")),
    ("computes where Dask is lazy", re.compile(r"Too many computes|NotReadyError")),
    ("chunks differ from Dask's", re.compile(r"chunk", re.I)),
    ("an array of NumPy where Dask is lazy", re.compile(r"isinstance\(|ndarray")),
]  # fmt: skip


class Functions:
    """Functions of arrays as the tests name them."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)

    def from_array(self, x: Any, chunks: Any = "auto", **options: Any) -> Any:
        return self._tensor.asarray(np.asarray(x), chunks=chunks)

    def array(self, x: Any, **options: Any) -> Any:
        return self._tensor.asarray(np.asarray(x), **options)


def install(cluster: Any) -> None:
    """jmars under the name "dask"; the number of computations is counted."""
    import dask
    from xarray.namedarray import parallelcompat

    import jmars.tensor as mt
    from jmars.client.local_runs import LocalRuns
    from jmars.client.xarray_manager import JmarsManager
    from jmars.tensor.tensor import Tensor

    functions = Functions(mt)
    manager = type("Manager", (JmarsManager,), {"array_api": property(lambda self: functions)})()
    parallelcompat.list_chunkmanagers = lambda: {"dask": manager}
    limits: list[list[int]] = []  # computations left to each open block

    def counted(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            for limit in limits:
                limit[0] -= 1
                if limit[0] < 0:
                    raise RuntimeError("Too many computes")
            return original(self, *args, **kwargs)

        setattr(owner, name, call)

    counted(type(cluster), "submit_data")
    counted(LocalRuns, "_run")

    from xarray import tests  # which takes functions and class from the manager

    @contextlib.contextmanager
    def raise_if_dask_computes(max_computes: int = 0) -> Iterator[None]:
        limits.append([max_computes])
        try:
            yield
        finally:
            limits.pop()

    tests.raise_if_dask_computes = raise_if_dask_computes

    def is_lazy(x: Any) -> bool:
        parts = x.variables.values() if hasattr(x, "data_vars") else [x, *getattr(x, "_coords", {}).values()]
        found = (getattr(one, "variable", one) for one in parts)
        return any(isinstance(getattr(one, "_data", one), Tensor) for one in found)

    def each(name: str) -> Callable[..., Any]:
        return lambda *args, **options: tuple(getattr(x, name)() if hasattr(x, name) else x for x in args)

    theirs = dask.is_dask_collection
    dask.is_dask_collection = lambda x: is_lazy(x) if type(x).__module__.startswith(("xarray", "jmars")) else theirs(x)
    dask.compute, dask.persist = each("compute"), each("persist")


class Results:
    """Notes the result of each test."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[tuple[str, str, bool]] = []
        self.asks_dask: set[str] = set()  # tests whose code names Dask's own protocol

    def pytest_collection_modifyitems(self, items: Any) -> None:
        self.asks_dask = {one.nodeid for one in items if ASKS_DASK.search(inspect.getsource(one.function))}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.counts["xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome] += 1
            if report.outcome == "failed":
                crash = getattr(report.longrepr, "reprcrash", None)
                message = crash.message if crash else str(report.longrepr)
                asks_dask = report.nodeid in self.asks_dask
                self.failures.append((report.nodeid.split("::", 1)[-1], " ".join(message.split()), asks_dask))


def cause(message: str) -> str:
    """The first cause of CAUSES that a message names."""
    return next((name for name, pattern in CAUSES if pattern.search(message)), "other")


def results_of(name: str, chosen: str | None) -> Results:
    """Run a file of xarray's tests."""
    results = Results()
    args = ["--pyargs", f"xarray.tests.{name}", "-q", "--tb=native", "--timeout=120", "-c", os.devnull]
    args += ["--confcutdir", os.path.dirname(xarray.__file__)]  # no conftest.py of a folder around the environment
    args += ["-p", "no:cacheprovider", "-p", "no:warnings", *(["-k", chosen] if chosen else [])]
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        code = pytest.main(args, plugins=[results])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {code!r} in {name}; run it alone, with pytest's output")
    return results


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("files", nargs="*", default=list(FILES))
    ask.add_argument("--manager", default="jmars", choices=["jmars", "dask"])
    ask.add_argument("-k", default=None, help="names of tests, in place of those of FILES")
    ask.add_argument("--show", action="store_true", help="each failure")
    given = ask.parse_args()
    total: Counter[str] = Counter()
    failures: dict[str, list[tuple[str, str]]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(stack.enter_context(tempfile.TemporaryDirectory())))  # no conftest of ours
        if given.manager == "jmars":
            import jmars

            install(stack.enter_context(jmars.Cluster(n_workers=1)))
        for name in given.files:
            results = results_of(name, given.k or FILES.get(name, PARTS))
            total += results.counts
            for test, message, asks_dask in results.failures:
                failures[PROTOCOL if asks_dask else cause(message)].append((f"{name}::{test}", message))
            print(f"{name:24}", dict(results.counts), flush=True)
    for name, found in sorted(failures.items(), key=lambda one: -len(one[1])):
        print(f"{len(found):5}  {name}")
        for test, message in found if given.show else ():
            print(f"         {test}: {message[:200]}")
    run = total["passed"] + total["failed"]
    others = run - len(failures[PROTOCOL])
    print(f"{total['passed']} of {run} pass; of those that do not test Dask's own protocol "
          f"{total['passed'] / max(others, 1):.1%}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
