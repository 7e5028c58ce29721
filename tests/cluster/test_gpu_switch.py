"""The switch `gpu` of a run on a cluster without a GPU: an error, a warning, or nothing."""

from __future__ import annotations

import warnings

import pytest

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.errors import SettingError, UnsupportedError


def test_without_a_gpu(cluster: jmars.Cluster) -> None:
    before = config.task["gpu"]
    with pytest.raises(UnsupportedError, match="gpu is only, and no worker of the cluster is a GPU"):
        jmars.execute(mt.ones(8, chunk_size=4) + 1, gpu="only")
    with pytest.warns(RuntimeWarning, match="no worker of the cluster is a GPU") as seen:
        preferred = jmars.execute(mt.ones(8, chunk_size=4) + 1, gpu="prefer")
    assert seen[0].filename == __file__ and preferred.fetch().tolist() == [2.0] * 8
    with warnings.catch_warnings(action="error"):
        for gpu in ("auto", "off", None):
            assert jmars.execute(mt.ones(8, chunk_size=4) * 3, gpu=gpu).fetch().tolist() == [3.0] * 8
    with pytest.raises(UnsupportedError, match="ones is annotated with gpu=True"):
        jmars.execute(mt.ones(5, gpu=True))
    with pytest.raises(SettingError, match="auto, prefer, only, off"):
        jmars.execute(mt.ones(5), gpu="always")
    assert config.task["gpu"] == before
    with pytest.raises(UnsupportedError, match="gpu is only"):
        jmars.client.session.Session(cluster, gpu="only").run(mt.ones(6) + 1)
