"""Forty programs have the same bits on every kind, and NumPy's where jmars promises those."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.client.cluster_registry import make_default
from tests.contract.engine.programs import CHUNKED, EXACT

PROGRAMS = EXACT | CHUNKED


def values_of(name: str, cluster: Cluster) -> list[Any]:
    """Results of a program on a cluster; all that is lazy is one job."""
    make_default(cluster)
    made = PROGRAMS[name](mt, lambda values, chunk: mt.asarray(values, chunk_size=chunk))
    lazy = [one for one in made if hasattr(one, "fetch")]
    values = jmars.Session(cluster).fetch(*lazy)
    there = iter(values if len(lazy) > 1 else [values])
    return [next(there) if hasattr(one, "fetch") else one for one in made]


@pytest.fixture(scope="module")
def reference(wanted: Cluster) -> Any:
    """Values of a program on a cluster of one worker."""
    return cache(lambda name: values_of(name, wanted))


def assert_same_bits(value: Any, wanted: Any) -> None:
    if isinstance(wanted, np.ma.MaskedArray):
        assert isinstance(value, np.ma.MaskedArray)
        np.testing.assert_array_equal(np.ma.getmaskarray(value), np.ma.getmaskarray(wanted))
        assert_same_bits(value.filled(), wanted.filled())
    elif isinstance(wanted, np.ndarray | np.generic):
        value, wanted = np.asarray(value), np.asarray(wanted)
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.char in "gG":  # six bytes of each are padding
            np.testing.assert_array_equal(value, wanted)
        else:
            assert value.tobytes() == wanted.tobytes()
    else:
        assert value == wanted


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_same_bits(name, reference, cluster):
    for value, wanted in zip(values_of(name, cluster), reference(name), strict=True):
        assert_same_bits(value, wanted)


@pytest.mark.parametrize("name", EXACT)
def test_the_bits_are_those_of_numpy(name, reference):
    for value, wanted in zip(reference(name), EXACT[name](np, lambda values, chunk: values), strict=True):
        assert_same_bits(value, wanted)
