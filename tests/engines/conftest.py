"""For the tests of a module: costs of its own, and a Dask cluster of two worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def _costs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Costs that other modules measured divide no job into groups here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JMARS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[[object], str]]:
    from tests.engines.dask_groups import cluster_process

    with cluster_process(2) as ask:
        ask("")  # waits until the cluster is there
        yield ask


@pytest.fixture
def client(ask: Callable[[object], str]) -> Iterator[Any]:
    from distributed import Client

    with Client(ask(""), set_as_default=False) as client:
        yield client
