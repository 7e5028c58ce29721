"""The head of several hosts decides who may join late."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from jmars.deploy.host_facts import HostFacts, own_facts
from jmars.deploy.hosts_head import HostsHead
from jmars.errors import ClusterStartError


def _head(facts: HostFacts, same_bits: bool = True) -> Any:
    head = object.__new__(HostsHead)
    head.orders = {"same_bits": same_bits}
    head.hosts = SimpleNamespace(here=[SimpleNamespace(name="host-1", number=1)])  # type: ignore[assignment]
    head.roster = SimpleNamespace(facts={1: {"host": facts.to_wire()}})  # type: ignore[assignment]
    return head


def test_a_late_host_must_compute_the_same_bits() -> None:
    new = replace(own_facts(), machine="x86_64", dispatched=("AVX2", "AVX512_SKX"), features=("AVX2", "AVX512_SKX"))
    old = replace(new, dispatched=("AVX2",), features=("AVX2",))
    _head(new)._approve("host-2", new)
    with pytest.raises(ClusterStartError, match="NPY_DISABLE_CPU_FEATURES='AVX512_SKX'"):
        _head(old)._approve("host-2", new)
    with pytest.raises(ClusterStartError, match="older CPU than the hosts that are here"):
        _head(new)._approve("host-2", old)
    _head(new, same_bits=False)._approve("host-2", old)
