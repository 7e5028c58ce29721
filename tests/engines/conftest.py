"""A Dask cluster of two worker processes, for the tests of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


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
