"""NumPy's modules with the functions of jmars: what stays NumPy's own, and with which arguments."""

from __future__ import annotations

import io
import pickle
import warnings

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config
from jmars.errors import UnsupportedError
from jmars.tensor.numpy_modules import NumPyModule


def test_constants_and_classes_are_numpys():
    for name in ("__version__", "float128", "complex256", "object_", "ufunc", "memmap", "busdaycalendar", "recarray"):
        assert getattr(mt, name) is getattr(np, name), name
    assert mt.typing.NDArray is np.typing.NDArray and mt.dtypes is np.dtypes
    assert mt.lib.NumpyVersion is np.lib.NumpyVersion
    assert mt.lib.stride_tricks.sliding_window_view(mt.arange(5), 2).fetch().sum() == 16


@pytest.mark.parametrize("name", ["matrix", "asmatrix", "bmat", "nested_iters"])
def test_what_has_no_version_is_refused(name):
    with pytest.raises(UnsupportedError, match=rf"np\.{name} is not in jmars"):
        NumPyModule.of("numpy").look_up(name)


def test_as_strided_is_refused_with_the_name_of_windows():
    with pytest.raises(UnsupportedError, match="sliding_window_view"):
        mt.lib.stride_tricks.as_strided(mt.ones(3))


def test_a_module_pickles_as_numpys():
    assert pickle.loads(pickle.dumps(mt.lib.format)) is np.lib.format


def test_tests_take_the_values_of_tensors():
    x = mt.arange(6.0, chunk_size=2)
    for test in (mt.testing.assert_equal, mt.testing.assert_array_equal, mt.testing.assert_almost_equal):
        test(x, np.arange(6.0))
        test([x, {"a": x.sum()}], [np.arange(6.0), {"a": 15.0}]) if test is mt.testing.assert_equal else None
        with pytest.raises(AssertionError, match="Mismatched elements: 6 / 6"):
            test(x, np.arange(6.0) + 1)
    mt.testing.assert_array_less(x, x + 1)
    mt.testing.assert_array_max_ulp(x, x)


def test_a_function_in_a_test_gets_the_tensor_itself():
    seen = []

    def fails(x):
        seen.append(x)
        raise ValueError

    x = mt.ones(3)
    mt.testing.assert_raises(ValueError, fails, x)
    assert seen == [x] or seen[0] is x


def test_functions_of_few_elements_take_tensors():
    c = mt.asarray([1.0, -3, 2])
    assert mt.roots(c).tolist() == np.roots(c).tolist() == [2, 1]
    assert mt.polymul(c, [1, 1]).tolist() == [1, -2, -1, 2]
    assert mt.polynomial.chebyshev.chebadd(c, [1]).tolist() == [2, -3, 2]
    file = io.BytesIO()
    mt.lib.format.write_array(file, c)
    file.seek(0)
    assert mt.lib.format.read_array(file).tolist() == [1, -3, 2]
    assert mt.rec.fromarrays([c, mt.arange(3)], names="a,b").b.tolist() == [0, 1, 2]


def test_a_large_tensor_is_told():
    with config.using(array_warning=100), pytest.warns(UserWarning, match="takes a tensor of shape"):
        mt.testing.assert_equal(mt.ones(100), np.ones(100))


def test_a_small_one_is_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mt.testing.assert_equal(mt.ones(100), np.ones(100))


def test_a_name_is_looked_up_once(monkeypatch) -> None:
    module = NumPyModule("numpy.linalg")
    assert module.norm is NumPyModule.of("numpy.linalg").norm
    monkeypatch.setattr(NumPyModule, "look_up", None)
    assert module.norm is module.norm
    with pytest.raises(TypeError):
        _ = module.inv
