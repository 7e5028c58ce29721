"""`map_blocks` calls the user's function with blocks and holds it to what was promised."""

from __future__ import annotations

import subprocess
import sys

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import ChunkSizeError, UnsupportedError
from jmars.tensor.engine import with_placeholders
from jmars.tensor.ops.map_blocks import pickled, unpickled
from tests.tensor.cut import cut_arrays, same


@given(st.data())
def test_a_function_of_elements(data):
    array, x = data.draw(cut_arrays())
    same(x.map_blocks(lambda block: block * 2 + 1), array * 2 + 1)
    same(mt.map_blocks(np.sqrt, x), np.sqrt(array))
    same(mt.map_blocks(np.add, x, np.float64(2.5)), array + 2.5)


def test_code_keeps_its_file():
    """cloudpickle 3.1.3 gives all code one name."""

    def outer():
        return lambda: 1

    sent = unpickled(pickled(outer))
    assert sent.__code__.co_filename == sent().__code__.co_filename == __file__


def test_inputs_that_broadcast_are_cut_alike():
    x, y = mt.ones((4, 6), chunk_size=(3, 4)), mt.arange(6, chunk_size=5)
    z = mt.map_blocks(lambda a, b, c: a + b * c, x, y, mt.arange(4).reshape(4, 1))
    assert z.chunks == ((3, 1), (4, 1, 1))
    same(z, 1.0 + np.arange(6) * np.arange(4)[:, None])


def test_one_tensor_twice_is_handed_twice():
    x = mt.arange(6, chunk_size=4)
    same(mt.map_blocks(lambda a, b: a * b, x, x), np.arange(6) ** 2)


def test_numbers_and_keywords_are_handed_on():
    x = mt.arange(6.0, chunk_size=4)
    same(mt.map_blocks(lambda a, low, *, high: np.clip(a, low, high), x, 1, high=3), np.clip(np.arange(6.0), 1, 3))


def test_other_shapes_are_promised():
    x = mt.arange(24.0, chunk_size=(4, 3)[0]).reshape(6, 4).rechunk((4, 3))
    sums = x.map_blocks(lambda block: block.sum(axis=1, keepdims=True), chunks=((4, 2), 1))
    assert sums.chunks == ((4, 2), (1, 1))
    assert float(sums.sum()) == np.arange(24).sum()
    counts = x.map_blocks(lambda block: np.array([[block.size]]), chunks=1)
    assert counts.fetch().tolist() == [[12, 4], [6, 2]]
    with pytest.raises(ChunkSizeError, match="does not fit the blocks"):
        x.map_blocks(lambda block: block, chunks=((4, 1, 1), 1))
    with pytest.raises(ChunkSizeError):
        x.map_blocks(lambda block: block, chunks=(3,))


def test_the_place_of_a_block():
    x = mt.zeros((4, 6), chunk_size=(2, 4))
    places = x.map_blocks(lambda block, block_id: block + 10 * block_id[0] + block_id[1])
    assert places.fetch()[:, [0, 5]].tolist() == [[0, 1], [0, 1], [10, 11], [10, 11]]
    with pytest.raises(UnsupportedError, match="block_id"):
        x.map_blocks(lambda block, block_info: block)


def test_a_function_that_fails_on_one_element_needs_a_dtype():
    x = mt.arange(6.0, chunk_size=3)

    def second(block):
        return block - block[1]

    with pytest.raises(ValueError, match=r"second .* raised IndexError.*dtype="):
        x.map_blocks(second)
    same(x.map_blocks(second, dtype=float), [-1.0, 0.0, 1.0] * 2)


def test_a_library_that_a_function_lacks_is_named():
    def push(block):
        import a_missing_library

        return a_missing_library.push(block)

    with pytest.raises(ModuleNotFoundError, match="a_missing_library") as raised:
        mt.arange(6.0).map_blocks(push)
    note = "push needs a_missing_library; install it here and on every host, or {} if only the hosts have {}"
    assert raised.value.__notes__ == [note.format("give dtype=", "a_missing_library")]
    for apply, advice in (
        (mt.vectorize(push), "give the dtypes of its results, otypes="),
        (lambda x: mt.apply_gufunc(push, "()->()", x), "give output_dtypes= and output_sizes=, or otypes="),
        (lambda x: mt.apply_along_axis(push, 0, x), "give apply_along_axis dtype= and shape="),
    ):
        with pytest.raises(ModuleNotFoundError, match="a_missing_library") as raised:
            apply(mt.arange(6.0))
        assert raised.value.__notes__[-1] == note.format(advice, "a_missing_library")
        with with_placeholders(), pytest.raises(ModuleNotFoundError, match="a_missing_library"):
            apply(mt.arange(6.0))


def test_a_name_that_a_library_lacks_is_no_missing_library():
    def push(block):
        from numpy import no_such_name

        return no_such_name(block)

    x = mt.arange(6.0)
    with pytest.raises(ValueError, match=r"raised ImportError: cannot import name 'no_such_name'.*give the dtype"):
        x.map_blocks(push)
    with pytest.raises(ValueError, match=r"raised ImportError: cannot import name 'no_such_name'.*output_dtypes="):
        mt.apply_gufunc(push, "()->()", x)
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'") as raised:
        mt.vectorize(push)(x)
    assert not hasattr(raised.value, "__notes__") or "install" not in "".join(raised.value.__notes__)


def test_what_breaks_the_promise_is_named():
    x = mt.arange(6.0, chunk_size=4)

    def halves(block):
        return block[::2]

    with pytest.raises(ValueError, match=r"halves gave an array of shape \(2,\) .* \(4,\) was promised"):
        x.map_blocks(halves).fetch()
    with pytest.raises(TypeError, match="gave <U3 and int32 was promised; cast the result"):
        x.map_blocks(lambda block: np.array(["two"] * len(block)), dtype="i4").fetch()
    with pytest.raises(TypeError, match=r"gave float64 and int32 was promised.*dtype='float64'"):
        x.map_blocks(lambda block: block, dtype="i4").fetch()
    with pytest.raises(UnsupportedError):
        x.map_blocks(lambda block: np.array([object()] * len(block)))
    with pytest.raises(TypeError, match="cannot be called"):
        mt.map_blocks(x, x)
    with pytest.raises(TypeError, match="needs a tensor"):
        mt.map_blocks(np.sqrt, 3)


def test_the_function_travels_as_bytes():
    op = mt.arange(3).map_blocks(lambda block: block, name="mine").data.op
    assert op.label == "mine" and op.token() is None
    assert isinstance(op.blob, bytes)
    assert cloudpickle.loads(op.blob)[0](5) == 5


def test_functions_of_the_user_are_found_in_all_arguments():
    x, own = mt.ones(4), cloudpickle.loads(cloudpickle.dumps(lambda line: line))
    for function, args, kwargs in [
        (np.apply_along_axis, (own, 0, x), {}),
        (np.piecewise, (x, x > 0), {"funclist": [own, 1]}),
        (np.unwrap, (x,), {"discont": {"a": (own,)}}),
        (own, (x,), {}),
    ]:
        assert not mt.map_blocks(function, *args, dtype=float, **kwargs).data.op.is_library
    assert mt.map_blocks(np.apply_along_axis, np.cumsum, 0, x, dtype=float).data.op.is_library
    assert mt.map_blocks(np.piecewise, x, x > 0, funclist=[np.sin, 1], dtype=float).data.op.is_library


def test_what_functions_hold_is_freed_while_python_runs():
    program = """
import sys
from jmars.tensor.ops.map_blocks import pickled, unpickled

class Reader:  # an open HDF5 file, which HDF5 would close later by functions of Python, and crash
    def __del__(self):
        print(sys.is_finalizing())

unpickled(pickled(Reader))()
unpickled(pickled(Reader()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n" * 3), done.stderr
