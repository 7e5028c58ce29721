"""The array API standard: its names, and where it differs from NumPy."""

import functools
import itertools
from contextlib import suppress

import numpy as np
import pytest

import jmars.array_api as xp
import jmars.tensor as mt
from jmars.errors import ArrayChangedError, UnsupportedError
from jmars.tensor.buffers import SmallValues
from jmars.tensor.from_array import by_standard, libraries
from jmars.tensor.small_values import small_values


def test_a_tensor_tells_its_namespace():
    assert mt.ones(3).__array_namespace__() is xp
    assert mt.ones(3).__array_namespace__(api_version="2023.12") is xp
    assert mt.ones(3).device == "cpu"
    with pytest.raises(ValueError, match=r"2025\.12"):
        mt.ones(3).__array_namespace__(api_version="1999.12")


def test_every_name_is_there():
    names = [name for name in dir(xp) if not name.startswith("_")]
    assert all(getattr(xp, name) is not None or name == "newaxis" for name in names)
    assert set(names) <= set(dir(np)), set(names) - set(dir(np))
    assert xp.einsum is mt.einsum and "einsum" not in names  # xarray looks for it in the namespace of an array
    assert xp.float16 is np.float16 and "float16" not in names  # libraries ask for it by `hasattr`
    with pytest.raises(AttributeError, match=r"jmars\.tensor"):
        _ = xp.no_such_name


def test_the_namespace_is_described_as_numpys():
    info, theirs = xp.__array_namespace_info__(), np.__array_namespace_info__()
    assert info.devices() == tuple(theirs.devices())
    assert info.dtypes() == theirs.dtypes() and info.capabilities() == theirs.capabilities()
    assert xp.__array_api_version__ == "2025.12"


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sorting_may_go_down_and_keeps_the_order_of_equals(cluster, descending, axis):
    values = np.random.default_rng(0).integers(0, 4, (7, 5))
    x = xp.asarray(values, chunk_size=3)
    sign = -1 if descending else 1
    np.testing.assert_array_equal(xp.sort(x, axis=axis, descending=descending), sign * np.sort(sign * values, axis))
    order = np.argsort(sign * values, axis, stable=True)
    np.testing.assert_array_equal(xp.argsort(x, axis=axis, descending=descending), order)


def test_tuples_where_numpy_gave_lists(cluster):
    assert [g.shape for g in xp.meshgrid(xp.arange(3), xp.arange(2))] == [(2, 3), (2, 3)]
    assert type(xp.broadcast_arrays(xp.ones(3), xp.ones(1))) is type(xp.meshgrid(xp.ones(3))) is tuple
    np.testing.assert_array_equal(xp.clip(xp.arange(5), min=1, max=3), [1, 1, 2, 3, 3])


def test_eigenvalues_are_complex(cluster):
    x = xp.asarray([[2.0, 1.0], [1.0, 3.0]], dtype=xp.float32)
    assert xp.linalg.eigvals(x).dtype == np.complex64 and mt.linalg.eigvals(x).dtype == np.float32
    values, vectors = xp.linalg.eig(x)
    assert values.dtype == vectors.dtype == np.complex64
    np.testing.assert_allclose((x @ vectors).fetch(), (vectors * values).fetch(), atol=1e-6)
    np.testing.assert_array_equal(xp.linalg.eig(x).eigenvalues, values)
    assert xp.linalg.svd is mt.linalg.svd


def test_libraries_may_write_to_results_without_axes(cluster, tmp_path, monkeypatch):
    code = "found = x.mean(); found[()] = 7.0; other = found + 1"
    monkeypatch.syspath_prepend(tmp_path / "dist-packages")  # as of the user, or of Debian
    for folder, name in itertools.product([*libraries(), tmp_path / "dist-packages", tmp_path], ("someone", "numpy")):
        names = {"x": mt.ones(5), "__name__": f"{name}.module"}
        run = compile(code, f"{folder}/{name}/module.py", "exec")
        if name == "numpy" or folder == tmp_path:
            with pytest.raises(TypeError, match="does not support item assignment"):
                exec(run, names)
        else:
            exec(run, names)
            assert (float(names["found"]), float(names["other"])) == (7.0, 8.0)


def test_other_libraries_take_and_give_arrays(cluster):
    x = xp.arange(6, chunk_size=4)
    np.testing.assert_array_equal(np.from_dlpack(x), np.arange(6))
    np.testing.assert_array_equal(xp.from_dlpack(np.arange(6)), np.arange(6))
    assert x.__dlpack_device__() == np.arange(6).__dlpack_device__()
    with pytest.raises(ValueError, match="cpu"):
        x.to_device("gpu")
    with pytest.raises(ValueError, match="cpu"):
        xp.zeros(3, device="gpu")


def test_frequencies_have_the_dtype_that_is_asked_for(cluster):
    for name in ("fftfreq", "rfftfreq"):
        found = getattr(xp.fft, name)(7, d=0.5, dtype=xp.float32)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, getattr(np.fft, name)(7, d=0.5).astype(np.float32))


def test_a_copy_is_another_array(cluster):
    x = xp.ones(3)
    y = xp.asarray(x, copy=True)
    y += 1
    np.testing.assert_array_equal(x, np.ones(3))


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_one_bool_as_an_index_is_all_or_nothing(cluster, truth, shape):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    for index in (truth, np.bool_(truth), np.asarray(truth), mt.asarray(1) > (0 if truth else 1)):
        x = mt.asarray(values, chunk_size=2)
        plain = bool(index)
        np.testing.assert_array_equal(x[index], values[plain])
        expected, written = values.copy(), x.copy()
        expected[plain] = 7
        written[index] = 7
        np.testing.assert_array_equal(written, expected)


@pytest.mark.parametrize("name", ["all", "argmax", "max", "mean", "std", "sum"])
def test_reductions_are_arrays_where_small_values_are_numpys(engine, name):
    with small_values():
        SmallValues.choose(2**20)
        x = mt.asarray(np.arange(5.0))
        found, plain = getattr(xp, name)(x, axis=0), getattr(mt, name)(x)
        SmallValues.choose(0)
    assert isinstance(found, mt.Tensor) and isinstance(plain, np.generic)
    assert found.dtype == plain.dtype and found.fetch() == plain


def test_what_a_library_writes_and_hands_back_is_in_the_tensor():
    """As SciPy's functions do with `output=x`."""
    x = xp.zeros((4, 3))
    assert x.__array_namespace__() is xp
    part, lost = x[1:3], np.asarray(x[0])
    written = np.asarray(part)
    x[0] = 2  # another part
    written[:] = 7
    assert xp.asarray(written) is part and xp.asarray(written) is part
    assert x.fetch().tolist() == [[2, 2, 2], [7, 7, 7], [7, 7, 7], [0, 0, 0]]
    unchanged = np.asarray(x)
    x[0] = 1
    assert xp.asarray(unchanged) is x
    assert xp.asarray(lost) is not x  # of a part that has no name any more
    own = np.array(x)
    own[:] = 5
    assert xp.asarray(own) is not x and x.fetch()[0].tolist() == [1, 1, 1]
    unchanged[0] = 3
    with pytest.raises(ArrayChangedError, match="both writes"):
        xp.asarray(unchanged)


def test_what_is_handed_back_in_another_shape_is_in_the_tensor():
    x = xp.zeros((4, 3))
    assert x.__array_namespace__() is xp
    given = np.asarray(x)
    given.reshape(2, 6)[0, 5] = 7
    flat = xp.asarray(given.reshape(12))
    assert x.fetch()[1, 2] == 7 and flat.fetch()[5] == 7
    flat[0] = 1  # as NumPy's view
    assert x.fetch()[0, 0] == 1
    given = np.asarray(x)
    turned = given.T
    turned[2] = 5
    assert xp.asarray(turned[2:]).fetch().tolist() == [[5, 5, 5, 5]] and x.fetch()[:, 2].tolist() == [5, 5, 5, 5]
    with suppress(UnsupportedError):  # where jmars.tensor.ma is imported, the values without the mask, as of NumPy
        assert xp.asarray(np.ma.masked_array(given, given == 5)) is not x


def test_a_view_that_is_handed_back_keeps_the_noted_array():
    assert xp.zeros(1).__array_namespace__() is xp
    whole = xp.ones((4, 6))
    for x in (xp.arange(6.0) * 1, whole[1:3], whole.T, xp.arange(6.0), xp.zeros(())):
        flat = np.asarray(x).reshape(-1)
        flat[0] = 77
        assert xp.asarray(flat).fetch()[0] == x.fetch().reshape(-1)[0] == 77
    scalar = xp.asarray(5.0) * 1  # in NumPy no array
    copied = np.asarray(scalar)
    copied[...] = 6
    assert xp.asarray(copied) == 6 and scalar == 5


def test_only_rows_near_a_view_that_is_handed_back_are_compared():
    x = xp.zeros((3, 2**20))
    assert x.__array_namespace__() is xp
    given = np.asarray(x)
    given[0, 1], given[2, 2] = 1, 2
    xp.asarray(given[0])
    assert x[:, :3].fetch().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    x[1, 0] = 7
    assert xp.asarray(given) is x
    assert x[:, :3].fetch().tolist() == [[0, 1, 0], [7, 0, 0], [0, 0, 2]]


def test_arrays_are_noted_for_packages_that_asked_for_the_namespace(request):
    request.addfinalizer(functools.partial(by_standard.update, set(by_standard)))
    by_standard.clear()
    x = xp.zeros(4)
    plain = np.asarray(x)
    assert xp.asarray(plain) is not x
    assert x.__array_namespace__() is xp
    noted = np.asarray(x)
    assert xp.asarray(noted) is x
