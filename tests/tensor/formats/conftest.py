"""Zarr's threads of the test process end with each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("numcodecs.blosc").get_mutex()  # a lock that lasts as long as the process


@pytest.fixture(autouse=True)
def threads_of_zarr() -> Iterator[None]:
    yield
    if "zarr" in sys.modules:
        sys.modules["zarr.core.sync"].cleanup_resources()
