"""Every function of the public table holds the memory limit with arrays of twice the limit, or is listed by name."""

from __future__ import annotations

from functools import reduce
from types import CodeType

import numpy as np
import pytest

from jmars.client import Cluster
from tests.cluster.large_calls import CALLS, CLIENT, LIMIT, MOST, TIMES, Inputs, run
from tests.tensor.table import BY_PROPERTY, ROWS, elementwise

# Calls that are refused with a MemoryLimitError; the list may only shrink.
REFUSED = {
    "unique rows": "rows are brought into a single chunk",
    "interp in a large array": "data points are brought into a single chunk",
    "quantile with weights": "brings the axis into a single chunk",
}
# Calls whose memory passes the limit; the list may only shrink.
PASSES = {
    "tril_indices_from": "NumPy makes the positions, in the client",
    "triu_indices_from": "NumPy makes the positions, in the client",
}
# Functions that compute no chunks, read or write files, or make NumPy's arrays in the client.
WITHOUT_CALL = """ndim shape size iscomplexobj isscalar isrealobj result_type common_type can_cast array2string
    array_str array_repr shares_memory may_share_memory from_dlpack ndenumerate isfortran load save savez
    savez_compressed savetxt fromfile asarray asanyarray array ascontiguousarray asfortranarray require
    linalg.tensorinv linalg.tensorsolve linalg.eig""".split()  # noqa: SIM905


@pytest.mark.long(beyond=3)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CALLS)
def test_call_beyond_memory_holds_the_limit(name: str) -> None:
    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        peak, _, error = run(name, Inputs(int(TIMES * LIMIT), LIMIT // 32), cluster)
    holds = peak.cluster <= MOST * LIMIT and peak.client <= CLIENT * LIMIT
    if name in PASSES:
        assert not error, "what is refused holds the limit: put it on the other list"
        return
    assert holds, f"{peak.cluster / LIMIT:.2f} of the limit, client {peak.client / LIMIT:.2f}: {peak.processes}"
    assert error.startswith("MemoryLimitError" if name in REFUSED else "") and (name in REFUSED) == bool(error), error


def _names(code: CodeType) -> set[str]:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def test_each_function_with_a_rule_of_its_own_has_a_call() -> None:
    used = set().union(*(_names(call.__code__) for call in CALLS.values()))
    alike = {*elementwise.EXACT, *elementwise.CLOSE}  # one rule for all: chunk by chunk
    wanted = {name for name in [*ROWS, *BY_PROPERTY] if not isinstance(reduce(getattr, name.split("."), np), np.ufunc)}
    assert sorted(name for name in wanted - alike - set(WITHOUT_CALL) if name.split(".")[-1] not in used) == []
    assert {*REFUSED, *PASSES} <= {*CALLS}
