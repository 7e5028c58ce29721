"""Hosts with different CPUs compute the same bits: those with more features start again without these."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import jmars
import jmars.tensor as mt
from jmars.deploy.host_facts import HostFacts, own_facts
from jmars.deploy.hosts_host import HOSTS_SECONDS
from jmars.deploy.launch import ANSWER_SECONDS
from jmars.deploy.launch_ssh import LOGIN_SECONDS
from jmars.deploy.roster import AGAIN_SECONDS, CommonBits
from jmars.errors import ClusterStartError

NEW = replace(own_facts(), machine="x86_64", dispatched=("AVX2", "AVX512_SKX"), features=("AVX2", "AVX512_SKX"))
OLD = replace(NEW, dispatched=("AVX2",), features=("AVX2",))


def _bits(facts: HostFacts, is_wanted: bool = True) -> CommonBits:
    here = [SimpleNamespace(name="host-1", number=1)]
    roster: Any = SimpleNamespace(hosts=SimpleNamespace(here=here), facts={1: {"host": facts.to_wire()}})
    return CommonBits(roster, is_wanted)


def test_a_host_with_more_features_is_told_once_how_to_start_again() -> None:
    assert _bits(NEW).environment("host-2", NEW) == {}
    bits = _bits(OLD)
    assert bits.environment("host-2", NEW) == {"NPY_DISABLE_CPU_FEATURES": "AVX512_SKX"}
    with pytest.raises(ClusterStartError, match="even with NPY_DISABLE_CPU_FEATURES='AVX512_SKX'"):
        bits.environment("host-2", NEW)


def test_a_late_host_with_fewer_features_is_refused() -> None:
    bits = _bits(NEW)
    assert bits.environment("host-2", OLD) == {}  # the other one starts again, before any work
    bits._are_fixed = True
    with pytest.raises(ClusterStartError, match="older CPU than the hosts that are here"):
        bits.environment("host-2", OLD)
    assert _bits(NEW, is_wanted=False).environment("host-2", OLD) == {}


@pytest.mark.long
@pytest.mark.parametrize("order", ["first", "last"])
def test_hosts_of_a_batch_start_again_and_agree(order: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two hosts has a CPU without the newest features, as its environment plays."""
    beyond = own_facts().dispatched[-1:]
    if not beyond:
        pytest.skip("NumPy uses no features beyond its baseline here")
    monkeypatch.setenv("HOME", str(tmp_path))
    old = f'NPY_DISABLE_CPU_FEATURES="{beyond[0]}" "$0" "$@"'
    script = f'{old} & sleep 1; "$0" "$@"; wait' if order == "first" else f'"$0" "$@" & sleep 1; {old}; wait'
    with jmars.Cluster.batch(["sh", "-c", script], hosts=2, n_workers=1, memory_limit="256MiB") as cluster:
        assert cluster.n_workers == 2
        x = mt.random.rand(600, 600, chunk_size=100).execute()
        for worker in cluster.info()["workers"]:
            environment = Path(f"/proc/{worker['pid']}/environ").read_bytes()
            assert f"NPY_DISABLE_CPU_FEATURES={beyond[0]}".encode() in environment
        np.testing.assert_allclose((x @ x.T).execute().fetch(), x.fetch() @ x.fetch().T)
    assert os.listdir(tmp_path / ".cache/jmars/tickets") == []


def test_a_kernel_waits_for_its_hosts_as_long_as_they_may_take() -> None:
    assert HOSTS_SECONDS > LOGIN_SECONDS + ANSWER_SECONDS + AGAIN_SECONDS
