"""Each value of each switch on each kind of cluster: the run obeys it, or a SettingError says where it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config
from jmars.errors import JmarsError, SettingError
from jmars.model.events import GRAPH_BUILT, OPERANDS_TIMED
from jmars.switches import SWITCHES

X = np.random.default_rng(0).random((300, 200))

# values that are refused, by switch
OURS: dict[str, set[Any]] = {"gpu": {"only"}}
ENGINES = OURS | {"dispatch": {"late"}, "ephemeral": {True}, "assigner": set(SWITCHES["assigner"][1:])}
REFUSED = dict.fromkeys(("own", "hosts", "dask-inside", "ray-inside"), OURS)


def program() -> Any:
    x = mt.asarray(X, chunk_size=100)
    return (mt.sqrt(x * x + 1) @ x.T).sum(axis=0) + (x * 2 - 1).mean()


def events(job: Any, kind: str) -> list[Any]:
    return [one[4] for one in job.events() if one[2] == kind]


EXPECTED = (np.sqrt(X * X + 1) @ X.T).sum(axis=0) + (X * 2 - 1).mean()


@pytest.mark.long(beyond=60)
@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_obeyed_or_refused(cluster, name, request):
    refused = REFUSED.get(request.node.callspec.params["kind"], ENGINES).get(name, ())
    for value in SWITCHES[name] if name not in ("shards", "retries") else (SWITCHES[name][0], 2, SWITCHES[name][-1]):
        with config.using(task=config.task | {name: value}):
            job = cluster.submit(program())
        if value in refused:
            error = JmarsError if name == "gpu" else SettingError
            with pytest.raises(error, match=r"works on|GPU"):
                job.result(60)
            continue
        np.testing.assert_allclose(job.result(60), EXPECTED, rtol=1e-12)
        seen = SEEN.get(name)
        if seen is not None:
            seen(job, value)


def order(job: Any, value: str) -> None:
    (built,) = events(job, GRAPH_BUILT)
    told = built["predicted"]
    if told is not None and value != "auto":
        assert told["chosen"].split(", ")[-1] == value


def kernels(job: Any, value: str) -> None:
    ran = {name for told in events(job, OPERANDS_TIMED) for _, name in told["backends"]}
    if ran:
        assert ("numexpr" in ran) == (value == "numexpr")


def fuse_enabled(job: Any, value: bool) -> None:
    assert (job.describe()["operands"] > 40) != value


SEEN: dict[str, Callable[[Any, Any], None]] = {"order": order, "kernels": kernels, "fuse_enabled": fuse_enabled}
