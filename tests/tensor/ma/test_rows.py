"""Functions of numpy.ma that need no drawn arguments: one row each; and that every function has its comparison."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from jmars.tensor.ma.handle import MaskedTensor
from tests.tensor.ma.compare import ma, same

A = np.ma.array(np.arange(6).reshape(2, 3) - 2, mask=[[0, 1, 0], [0, 0, 1]])
# what the tests above do not draw arguments for: each with numpy.ma as `m`, and with ours
OTHERS = {
    "angle": lambda m, x: m.angle(x), "around": lambda m, x: m.around(x, 1), "round_": lambda m, x: m.round_(x, -1),
    "abs": lambda m, x: m.abs(x), "true_divide": lambda m, x: m.true_divide(x, 2), "mod": lambda m, x: m.mod(x, 2),
    "bitwise_and": lambda m, x: m.bitwise_and(x, 3), "bitwise_or": lambda m, x: m.bitwise_or(x, 3),
    "bitwise_xor": lambda m, x: m.bitwise_xor(x, x), "left_shift": lambda m, x: m.left_shift(abs(x), 1),
    "right_shift": lambda m, x: m.right_shift(x, 1), "alltrue": lambda m, x: m.alltrue(x),
    "sometrue": lambda m, x: m.sometrue(x, 1), "amax": lambda m, x: m.amax(x, 0), "amin": lambda m, x: m.amin(x, 0),
    "product": lambda m, x: m.product(x, 1), "anomalies": lambda m, x: m.anomalies(x, 1),
    "argsort": lambda m, x: m.argsort(m.ravel(x), kind="stable"), "copy": lambda m, x: m.copy(x),
    "atleast_1d": lambda m, x: m.atleast_1d(x), "atleast_2d": lambda m, x: m.atleast_2d(x[0]),
    "diag": lambda m, x: m.diag(x), "diagflat": lambda m, x: m.diagflat(x), "row_stack": lambda m, x: m.vstack([x, x]),
    "hsplit": lambda m, x: m.hsplit(x, 3)[1], "array": lambda m, x: m.array(x, "f4", ndmin=3, fill_value=3),
    "masked_array": lambda m, x: m.masked_array([1, 2, 3], [True, False, False], fill_value=9),
    "MaskedArray": lambda m, x: m.MaskedArray([1.5, 2.5], hard_mask=True), "asarray": lambda m, x: m.asarray(x),
    "asanyarray": lambda m, x: m.asanyarray([1, 2]), "getdata": lambda m, x: m.getdata(x),
    "getmask": lambda m, x: m.getmask(x), "make_mask": lambda m, x: m.make_mask([1, 0]),
    "make_mask_none": lambda m, x: m.make_mask_none((2, 3)), "mask_or": lambda m, x: m.mask_or(x.mask, ~x.mask),
    "masked_all": lambda m, x: m.masked_all((2, 3), "i4"), "masked_all_like": lambda m, x: m.masked_all_like(x),
    "arange": lambda m, x: m.arange(5, fill_value=3), "zeros": lambda m, x: m.zeros((2, 2)),
    "ones": lambda m, x: m.ones(3, "i2"), "identity": lambda m, x: m.identity(3),
    "indices": lambda m, x: m.indices((2, 3)),
    "zeros_like": lambda m, x: m.zeros_like(x), "ones_like": lambda m, x: m.ones_like(x),
    "fromfunction": lambda m, x: m.fromfunction(lambda i, j: i + j, (2, 3)),
    "frombuffer": lambda m, x: m.frombuffer(b"abc", "u1"), "innerproduct": lambda m, x: m.innerproduct(x, x),
    "outerproduct": lambda m, x: m.outerproduct(x, x), "harden_mask": lambda m, x: m.harden_mask(x.copy()),
    "soften_mask": lambda m, x: m.soften_mask(x.copy()), "empty_like": lambda m, x: m.empty_like(x) * 0,
    "empty": lambda m, x: m.empty((2, 2)) * 0,
}  # fmt: skip
ASKED = {
    "shape": lambda m, x: m.shape(x), "ndim": lambda m, x: m.ndim(x), "size": lambda m, x: m.size(x, 0),
    "isMaskedArray": lambda m, x: m.isMaskedArray(x), "isMA": lambda m, x: m.isMA([1]),
    "isarray": lambda m, x: m.isarray(x), "is_mask": lambda m, x: m.is_mask(x.mask),
    "is_masked": lambda m, x: bool(m.is_masked(x)), "default_fill_value": lambda m, x: m.default_fill_value(x),
    "minimum_fill_value": lambda m, x: m.minimum_fill_value(x),
    "common_fill_value": lambda m, x: m.common_fill_value(x, x),
    "maximum_fill_value": lambda m, x: m.maximum_fill_value(x),
    "make_mask_descr": lambda m, x: m.make_mask_descr(x.dtype),
    "set_fill_value": lambda m, x: (m.set_fill_value(y := x.copy(), 5), y.fill_value),
    "notmasked_edges": lambda m, x: [one.tolist() for one in m.notmasked_edges(x[0])],
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_functions(name):
    x = ma.array(A, chunks=((1, 1), (2, 1)))
    ours, theirs = OTHERS[name](ma, x), OTHERS[name](np.ma, A)
    same(ours, np.ma.array(theirs) if isinstance(ours, MaskedTensor) else theirs, 1e-9)


@pytest.mark.parametrize("name", ASKED)
def test_what_is_known_without_running(name):
    assert ASKED[name](ma, ma.array(A, chunk_size=2)) == ASKED[name](np.ma, A)


def test_every_function_that_there_is_is_compared_here():
    words = set(re.findall(r"\w+", "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))))
    there = {name for name in np.ma.__all__ if callable(getattr(np.ma, name)) and hasattr(ma, name)}
    tried = {f"masked_{name}" for name in ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")}
    assert there - words - tried - {"MaskType", "MAError", "bool_"} == set()
