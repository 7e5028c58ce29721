"""Fixtures of the contract suite: a kind of running operands, and its cluster, shared by all tests that use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jmars.client import Cluster
from jmars.client.cluster_registry import make_default
from tests.census import Census
from tests.contract.engine.gate import Gate
from tests.contract.engine.kinds import CANNOT, KINDS, Kind, Own

INSIDE = "test_nothing_is_left_after_close", "test_cancel_ends_a_running_kernel"


def pytest_itemcollected(item: pytest.Item) -> None:
    """The short run takes programs on a real engine, where the stand-in on threads has the same port and task.

    Of hosts inside an engine it takes what differs from hosts elsewhere: how they start, and what they leave.
    """
    call, name = getattr(item, "callspec", None), getattr(item, "originalname", "")
    if call is None:
        return
    is_again = call.params.get("kind") == "threads" and name == "test_a_program_has_the_same_bits"
    is_own = call.params.get("kind") == "own"  # hosts run the same processes
    is_slow = name == "test_a_worker_killed_in_a_work_costs_no_value" and call.id != "dask-sort"
    is_inside = call.params.get("kind") == "dask-inside" and name not in INSIDE
    if is_again or is_own or is_slow or is_inside:
        item.add_marker(pytest.mark.long)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of what a kind cannot promise are expected to fail."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        reason = CANNOT.get((params.get("kind", ""), getattr(item, "originalname", "")))
        if reason and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xfail(strict=True, reason=reason))


@pytest.fixture(scope="module")
def wanted() -> Iterator[Cluster]:
    """The cluster whose results all kinds must have; open all the time, so it owns the thread of all connections."""
    with Cluster(n_workers=1, memory_limit="512MiB") as cluster:
        yield cluster


@pytest.fixture(scope="package")
def dask_kind() -> Iterator[Kind]:
    """One Dask for all files that end no worker of it: to start it and to end it takes four seconds of CPU."""
    with KINDS["dask"]() as made:
        yield made


@pytest.fixture(scope="package")
def dask_inside_kind() -> Iterator[Kind]:
    """The same for hosts inside."""
    with KINDS["dask-inside"]() as made:
        yield made


SHARED = {"dask": "dask_kind", "dask-inside": "dask_inside_kind"}


@pytest.fixture(scope="module", params=KINDS)
def kind(wanted: Cluster, request: pytest.FixtureRequest) -> Iterator[Kind]:
    if request.param in SHARED and not getattr(request.module, "ENDS_WORKERS", False):
        yield request.getfixturevalue(SHARED[request.param])
    else:
        with KINDS[request.param]() as made:
            yield made


@pytest.fixture(scope="module")
def shared(kind: Kind) -> Iterator[Cluster]:
    with kind.cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The shared cluster, as the default cluster."""
    make_default(shared)
    yield shared
    holds, now = _accounts(request, "shared")  # connections and semaphores of a new worker
    holds.threads |= now.threads
    holds.descriptors |= now.descriptors
    holds.shared |= now.shared


@pytest.fixture
def new_workers(kind: Kind, request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets a test end workers: semaphores of the next ones belong to the engine."""
    yield
    holds, now = _accounts(request, "kind")
    holds.shared |= now.shared


def _accounts(request: pytest.FixtureRequest, fixture: str) -> tuple[Census, Census]:
    """What a fixture holds, and what is there now; nothing where no engine opened it, or without the leak check."""
    check: Any = request.config.pluginmanager.get_plugin("jmars-leak-check")
    if check is None or isinstance(request.getfixturevalue("kind"), Own):
        return Census(), Census()
    return check.shared[id(request._get_active_fixturedef(fixture))].holds, Census.take(check.finder)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Holds users' functions until the test opens it, or ends."""
    made = Gate(str(tmp_path))
    yield made
    made.open()
