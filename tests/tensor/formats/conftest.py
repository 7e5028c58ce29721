"""Zarr's threads of the test process end with each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def lock_of_blosc(request: pytest.FixtureRequest) -> None:
    """Blosc's lock lasts as long as the process."""
    pytest.importorskip("numcodecs.blosc").get_mutex()
    if (check := request.config.pluginmanager.get_plugin("jmars-leak-check")) is not None:
        check.accept()


@pytest.fixture(autouse=True)
def threads_of_zarr() -> Iterator[None]:
    yield
    if "zarr" in sys.modules:
        sys.modules["zarr.core.sync"].cleanup_resources()
