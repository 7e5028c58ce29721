"""Each test of this folder runs over TLS and, where ucxx is installed, over UCX by TCP and by shared memory."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.contract.transport.carriers import moving_by

TRANSPORTS = ["tls", "ucx-tcp", "ucx-memory"] if find_spec("ucxx") else ["tls"]


@pytest.fixture(scope="module", autouse=True, params=TRANSPORTS)
def transport(request):
    """Hosts that are started now move parts in this way."""
    with moving_by(request.param):
        yield request.param
