"""Tensors pickle as NumPy's values."""

from __future__ import annotations

import copy
import pickle

import cloudpickle
import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config
from jmars.errors import MemoryLimitError, UnsupportedError
from jmars.tensor.engine import with_placeholders
from jmars.tensor.tensor import pickled_as_graphs


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", ["f8", "?", "M8[s]", "U3", "i4,f8"])
def test_an_array_pickles_as_its_value(protocol, kind):
    a = np.arange(6).astype("i8" if "," in kind else kind).reshape(2, 3) if "," not in kind else np.zeros((2, 3), kind)
    found = pickle.loads(pickle.dumps(mt.asarray(a, chunk_size=2), protocol))
    assert type(found) is np.ndarray and found.dtype == a.dtype and found.tolist() == a.tolist()
    found[0] = found[1]  # an array of its own


def test_an_element_pickles_as_numpys_scalar():
    found = pickle.loads(pickle.dumps(mt.arange(3.0).sum()))
    assert type(found) is np.float64 and found == 3
    assert cloudpickle.loads(cloudpickle.dumps({"a": [mt.arange(2)]}))["a"][0].tolist() == [0, 1]


def test_a_masked_array_pickles_with_its_mask():
    x = mt.ma.masked_equal(mt.asarray([1, -9, 3]), -9)
    found = pickle.loads(pickle.dumps(x))
    assert type(found) is np.ma.MaskedArray and found.tolist() == [1, None, 3]
    assert pickle.loads(pickle.dumps(x[1])) is np.ma.masked and pickle.loads(pickle.dumps(x[0])) == 1


def test_a_copy_stays_a_tensor():
    x = mt.arange(3)
    assert isinstance(copy.deepcopy(x), mt.Tensor) and isinstance(copy.copy(x), mt.Tensor)


def test_a_large_one_is_told_and_beyond_the_limit_refused():
    x = mt.ones(1000)
    with config.using(array_warning=100), pytest.warns(UserWarning, match="takes a tensor of shape"):
        pickle.dumps(x)
    with config.using(array_limit=100), pytest.raises(MemoryLimitError, match=r"config\.array_limit"):
        pickle.dumps(x)


def test_where_no_value_can_be_computed_it_is_refused():
    with with_placeholders(), pytest.raises(UnsupportedError, match="pickles as its value"):
        pickle.dumps(mt.ones(3))


def test_tensors_pickle_as_graphs_where_asked():
    x = mt.asarray(np.arange(6.0), chunk_size=4)
    x[1] = 7
    with pickled_as_graphs():
        blob = pickle.dumps([x[::-1].reshape(2, 3) + 1, 5])
    found, five = pickle.loads(blob)
    assert type(found) is mt.Tensor and five == 5 and not found.data.computed
    assert found.fetch().tolist() == [[6, 5, 4], [3, 8, 1]]
