"""Every function of the public table holds the memory limit with arrays of twice the limit, or is listed by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from types import CodeType
from typing import Any

import numpy as np
import pytest

from jmars.client import Cluster
from tests.cluster.large_calls import CALLS, CLIENT, LIMIT, MOST, TIMES, Inputs, run
from tests.tensor.table import BY_PROPERTY, ROWS, elementwise

# Calls that are refused with a MemoryLimitError; the list may only shrink.
REFUSED = {
    "x[argsort]": "argsort brings the axis into a single chunk",
    "argsort": "brings the axis into a single chunk",
    "unique of distinct elements": "distinct elements are a single chunk",
    "unique of distinct elements with counts": "distinct elements are a single chunk",
    "unique of distinct elements with inverse": "distinct elements are a single chunk",
    "union1d of distinct elements": "distinct elements are a single chunk",
    "unique rows": "rows are brought into a single chunk",
    "isin a large array": "distinct elements are a single chunk",
    "searchsorted in a large array": "the sorted array is brought into a single chunk",
    "interp in a large array": "data points are brought into a single chunk",
    "bincount of positions": "each chunk counts all numbers",
    "argpartition": "brings the axis into a single chunk",
    "lexsort": "brings the axis into a single chunk",
    "quantile with weights": "brings the axis into a single chunk",
}
# Calls whose memory passes the limit; the list may only shrink.
PASSES = {"choice with p": "probabilities are computed at once, in the client"}
# Functions that compute no chunks, read or write files, or compute at once by their meaning.
WITHOUT_CALL = """ndim shape size iscomplexobj isscalar isrealobj result_type common_type can_cast array2string
    array_str array_repr shares_memory may_share_memory from_dlpack ndenumerate isfortran load save savez
    savez_compressed savetxt fromfile linalg.tensorinv linalg.tensorsolve linalg.eig""".split()  # noqa: SIM905


class Small:
    """A cluster with arrays beyond its limit; the next is started where a call left it in doubt."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    def run(self, name: str) -> Any:
        if self._cluster is None:
            self._cluster, self.inputs = (
                Cluster(n_workers=2, memory_limit=LIMIT),
                Inputs(int(TIMES * LIMIT), LIMIT // 32),
            )
        return run(name, self.inputs, self._cluster)

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    made = Small()
    yield made
    made.close()


@pytest.mark.long(beyond=3)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CALLS)
def test_call_beyond_memory_holds_the_limit(small: Small, name: str) -> None:
    peak, _, error = small.run(name)
    holds = peak.cluster <= MOST * LIMIT and peak.client <= CLIENT * LIMIT
    if not holds or error:
        small.close()
    if name in PASSES:
        assert not holds, f"{name} holds the limit: take it off the list"
        return
    assert holds, f"{peak.cluster / LIMIT:.2f} of the limit, client {peak.client / LIMIT:.2f}: {peak.processes}"
    if name in REFUSED:
        assert error.startswith("MemoryLimitError"), f"{name} runs: take it off the list"
    else:
        assert not error


def _names(code: CodeType) -> set[str]:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def test_each_function_with_a_rule_of_its_own_has_a_call() -> None:
    used = set().union(*(_names(call.__code__) for call in CALLS.values()))
    alike = {*elementwise.EXACT, *elementwise.CLOSE}  # one rule for all: chunk by chunk
    wanted = {name for name in [*ROWS, *BY_PROPERTY] if not isinstance(reduce(getattr, name.split("."), np), np.ufunc)}
    assert sorted(name for name in wanted - alike - set(WITHOUT_CALL) if name.split(".")[-1] not in used) == []
    assert {*REFUSED, *PASSES} <= {*CALLS}
