"""A large tensor that a library takes as a NumPy array is announced once for a line, and refused beyond a limit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import Config, config
from jmars.errors import MemoryLimitError, SettingError

linalg = pytest.importorskip("scipy.linalg", reason="SciPy is not installed (extra jmars[notebooks])")


def test_a_library_that_takes_a_large_tensor_is_named_with_the_bytes() -> None:
    x = mt.ones((64, 64))
    with config.using(array_warning=2**12), pytest.warns(UserWarning, match="brought into") as seen:
        linalg.norm(x)
    assert len(seen) == 1 and seen[0].filename == __file__
    text = str(seen[0].message)
    assert text.startswith("scipy takes a tensor of shape (64, 64) and dtype float64 as a NumPy array: 32.0 KiB")


def test_the_warning_comes_once_for_a_line() -> None:
    x = mt.ones((64, 64))
    with config.using(array_warning=2**12), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            np.asarray(x)
    assert [str(one.message)[:24] for one in seen] == ["this line takes a tensor"]


def test_small_arrays_and_fetch_say_nothing() -> None:
    x = mt.ones((64, 64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.asarray(x)
        with config.using(array_warning=2**12, array_limit=2**12):
            np.asarray(x[0])
            x.fetch()
            x.tobytes()


def test_beyond_the_limit_the_array_is_refused_before_anything_runs(engine) -> None:
    x = mt.ones((64, 64))
    with config.using(array_limit=2**14), pytest.raises(MemoryLimitError, match=r"config.array_limit is 16.0 KiB"):
        linalg.norm(x)
    engine.limit = 2**15  # bytes that are free
    with config.using(array_warning=2**10), pytest.raises(MemoryLimitError, match=r"half of the free memory is 16.0"):
        np.asarray(x)
    assert not engine.held(x.data)


def test_the_environment_sets_both(monkeypatch) -> None:
    monkeypatch.setenv("JMARS_ARRAY_WARNING", "1GiB")
    monkeypatch.setenv("JMARS_ARRAY_LIMIT", "4GiB")
    assert (Config().array_warning, Config().array_limit) == (2**30, 2**32)
    monkeypatch.setenv("JMARS_ARRAY_LIMIT", "much")
    with pytest.raises(SettingError, match="JMARS_ARRAY_LIMIT: 'much' is not a size"):
        Config()
