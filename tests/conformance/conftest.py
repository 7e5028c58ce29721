"""Runs the tests of NumPy's with an engine in this process; those of `failing.txt` must fail."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from jmars.client import Cluster
from tests.conformance.halves import in_halves
from tests.conformance.lists import EXCLUDED, FAILING, OUTCOMES, name_of, read, reason_of
from tests.conformance.names import entered
from tests.conformance.upstream import MATRIX, OWN

SAMPLE = 120  # the short run has one of so many tests
MARKERS = ["leaks_references", "thread_unsafe", "parallel_threads(n)", "iterations(n)", "valgrind_error", "slow_pypy"]


def pytest_configure(config: pytest.Config) -> None:
    """NumPy's markers."""
    for name in MARKERS:
        config.addinivalue_line("markers", f"{name}: of NumPy's")
    os.environ.setdefault("NPY_AVAILABLE_MEM", "1GB")  # leaves out tests that take more


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks: what is excluded, what fails, and what is not in the sample."""
    failing, excluded = read(FAILING), read(EXCLUDED)
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker(pytest.mark.filterwarnings(f"ignore:{MATRIX}"))
        for mark in item.iter_markers("xfail"):
            mark.kwargs.setdefault("strict", False)  # as in NumPy's settings
        name = name_of(item.nodeid)
        if zlib.crc32(name.encode()) % SAMPLE:
            item.add_marker(pytest.mark.long)
        if (reason := reason_of(name, excluded)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif (reason := reason_of(name, failing)) is not None and not os.environ.get(OWN):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


_outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the outcome of each test, where it is asked for."""
    if OUTCOMES in os.environ and (report.when == "call" or not report.passed):
        outcome = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        if report.failed and str(report.longrepr).startswith("[XPASS(strict)]"):
            outcome = "xpassed"
        if _outcomes.get(name_of(report.nodeid)) != "failed":
            _outcomes[name_of(report.nodeid)] = outcome


def pytest_sessionfinish() -> None:
    """Write the outcomes."""
    if OUTCOMES in os.environ:
        Path(os.environ[OUTCOMES]).write_text(json.dumps(_outcomes))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Arguments of a parametrized test were made with NumPy when it was collected."""
    if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not os.environ.get(OWN):
        item.funcargs |= {name: entered(item.funcargs[name]) for name in item.callspec.params if name in item.funcargs}
    return (yield)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster | None]:
    """The cluster of `--cluster`."""
    if not (n_workers := request.config.getoption("--cluster")):
        yield None
        return
    with Cluster(n_workers=n_workers, memory_limit="2GiB") as made:
        yield made


@pytest.fixture(autouse=True)
def engine(cluster: Cluster | None) -> Iterator[object]:
    with in_halves(cluster is not None) as here:
        yield here
