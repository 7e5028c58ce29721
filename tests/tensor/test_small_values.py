"""Small values of a cell: programs leave the values, errors and warnings that NumPy leaves."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.buffers import SmallValues
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.small_parts import _taken_elements, rows
from jmars.tensor.small_values import _MOST, SMALL, small_values
from tests.cases import needs_numpy

PROGRAMS = {  # each leaves its values in `r`; F, U, G, R and L are arrays of the user
    "arrays in Fortran order": "y = F + 1\nr = y.ravel('K'), F.ravel('K'), F.flatten('A')",
    "a write to an array in Fortran order": "F[0] = 5\nr = F.ravel('K'), (F + 1).ravel('K'), F",
    "axes in another order": "P = F.T[None].copy('K')\nr = P.ravel('K'), (P + 1).ravel('K'), P[0].ravel('K')",
    "a part whose whole is gone": "y = np.arange(6.)[::2]\nz = y.ravel()\nz[0] = 9\nr = y, z, y.flags.c_contiguous",
    "a user's array with gaps": "y = G.ravel()\ny[0] = 9\nG[1] = 5\nr = y, G, G.ravel(), G.flags.c_contiguous",
    "a user's reversed array": "y = R.ravel()\ny[0] = 9\nz = R[::-1].ravel()\nz[0] = 7\nr = y, z, R",
    "a write to a reversed array": "R[0] = 5\nz = R.reshape(2, 3)\nz[0, 1] = 8\ny = R.ravel()\ny[2] = 1\nr = y, z, R",
    "a user's column of a table": "y = L.ravel()\ny[0] = 9\nL[1] = 5\nr = y, L, L + 1",
    "an out in a tuple": "r, x = [], U\ntry: np.round(x, out=(x,))\nexcept TypeError: r = [np.negative(x, out=(x,))]",
    "two outs that are None": "try: r = np.frexp(2.0, out=None)\nexcept TypeError: r = 'refused'",
    "an argument by its name": "x = np.ones((2, 3))\ny = np.ravel(a=x)\ny[0] = 9\nr = x, y",
    "axes by their names": "x = np.ones((2, 3))\ny = np.swapaxes(x, axis1=0, axis2=1)\ny[0] = 9\nr = x, y",
    "edges of a histogram": "z = U[:]\nh, b = np.histogram([0.5], bins=U)\nb[0] = -1\nr = U, z, b, h",
    "edges in a list": "h, b, c = np.histogram2d([0.5], [0.5], bins=[U, U])\nb[0] = -1\nr = U, b, c, h",
    "an index of NumPy": "x = np.zeros((2, 3))\ny = x[np.uint8(1)]\ny += 1\nx[1, 0] = 5\nr = x, y",
    "indices of NumPy": "x = np.zeros((2, 3))\ny = x[np.int8(1), 1:]\ny[0] = 1\nr = x, y",
    "a broadcast number": "y = np.broadcast_to(5.0, (3,))\ny[0] = 1",
    "a broadcast list": "y = np.broadcast_to([1.0, 2.0], (3, 2))\ny[0] = 1",
    "the diagonal of lists": "y = np.diagonal([[1, 2], [3, 4]])\ny[0] = 1",
    "a write of NaN to integers": "x = np.zeros(3, int)\nx[:2] = np.array([np.nan, 1.0])\nr = x[1:]",
    "a write of complex numbers": "x = np.zeros(3)\nx[:2] = np.array([1j, 1.0])\nr = x",
    "a write to no elements": "v = U[0:0]\nv[:] = 5\nv += 1\nU[0] = 3\nr = U, v",
    "divmod": "x = np.arange(4)\nq, m = divmod(x, 3)\nn, o = divmod(9, x[1:])\nq[0] = 5\nr = q, m, n, o",
    "a write to an argument of two MiB": "x = np.arange(300_000.)\nnp.negative(x, x)\nnp.add(x, 1, x)\nr = x[:9],",
    "a take of positions into an argument": (
        "x = np.arange(300_000)\ni = np.roll(x, 1)\nnp.take(x.copy(), i, None, x)\nr = x[:9], x[-1]"
    ),
    "a view and a write to its whole": "x = np.arange(6.)\ny = x.reshape(2, 3).T[1:]\nx.fill(5)\nx[1] = 4\nr = x, y",
    "writes to parts": (
        "x = np.arange(8.)\na, b = np.split(x, 2)\na += 1\nx[5] = 9\nc, d, e = np.array_split(a, 3)\nc[0] = 7\n"
        "r = x, a, b, c, d, e, b.base is x, b.flags.owndata"
    ),
    "parts at positions": (
        "x = np.arange(9)\nk = np.array([2, 5])\na, b, c = np.split(x, k)\nk[0] = 4\nx *= 2\nb[0] = 5\n"
        "y = np.split(x, x[:1])\nr = a, b, c, x, len(y), y[1]"
    ),
    "rows and columns": (
        "x = np.arange(12.).reshape(3, 4)\na, b = np.hsplit(x, 2)\nc = np.vsplit(x, [1, 1])\nb[0] = 0\n"
        "u, v, w = np.unstack(x)\nv += 1\nz = np.rot90(x)\nz[0] = 8\nr = x, a, b, *c, u, v, w, z, z + a[0, 0]"
    ),
    "a part that meets a large array": (
        "x = np.arange(8.)\na, b = np.split(x, 2)\nb[0] = 3\nz = np.ones(10**6).reshape(-1, 4)\n"
        "y = (z + b).sum(axis=0)\nb[1] = 7\nr = y, x, a"
    ),
    "a diagonal": "M = np.arange(9.).reshape(3, 3)\nd = np.diag(M, 1)\nM[0, 1] = 7\nr = d, d.flags.writeable, d + 1",
    "a write to a diagonal": "M = np.ones((3, 3))\nnp.diag(M)[0] = 5",
    "a write through views": "x = np.arange(6)\nx.reshape([2, 3]).swapaxes(0, 1)[1] += 10\nr = x,",
    "a shape that changes later": "s = [2, 3]\nx = np.arange(6)\ny = np.reshape(x, s)\ns[0] = 3\nx.fill(2)\nr = y, x",
    "an array that a function returns": "x = np.ones(3)\ny = np.atleast_1d(x)\ny += 1\nz = x.squeeze()\nz *= 2\nr = x,",
    "integers that become floats": "x = np.arange(3)\ntry:\n    x /= 0\nexcept TypeError:\n    x += 5\nr = x,",
    "a warning of a write": "x = np.arange(1., 4.)\nx /= 0\nr = x,",
    "an operation with itself": "x = np.arange(4)\nx[1:] += x[:-1]\nx -= x[::-1]\nr = x,",
    "a view of a view whose whole is gone": (
        "x = np.arange(6.).reshape(2, 3)\ny = np.squeeze(x.T[:, 1:])\nz = x.T.ravel()[1:]\nx = x + 1\nr = x, y, z"
    ),
    "a write that warns of its own parts": (
        "x = np.arange(4).reshape(2, 2)\nx[:] = [x[1], np.array([np.nan, 2])]\ny = np.arange(3)\n"
        "y[y] = np.array([np.nan, 1, 2])\nr = x, y"
    ),
    "text": "s = np.array(['a ', 'Bc'])\nt = np.char.add('x', np.char.strip(s))\nr = t, np.strings.find(t, 'B')",
    "text of a case and a width": "r = np.strings.upper(np.array(['a'])), np.char.zfill(np.array(['7']), 3)",
    "records by a mask": (
        "x = np.zeros(4, 'i4, U3')\nx['f0'] = [1, 2, 1, 3]\ny = x[x['f0'] == 1]\ny['f0'] = 9\n"
        "z = x[np.array([3, 0])]\nx[1:3]['f1'] = 'abc'\nr = x, y, z"
    ),
    "functions by conditions": (
        "x = np.arange(-3., 4.)\nseen = []\n"
        "def f(v, k):\n    seen.append(v.size)\n    v += k\n    return np.sqrt(v) * v.max()\n"
        "y = np.piecewise(x, [x < -1, x > 9, x > 0], [lambda v, k: -v, f, f, 7], 2)\ny[0] = 5\nr = x, y, seen"
    ),
    "a function that warns": "x = np.array([0., 1.])\nr = [np.piecewise(x, [x < 1], [lambda v: 1 / v, 0])]",
    "a function that raises": "x = np.ones(3)\ndef f(v): raise ValueError(v.sum())\nnp.piecewise(x, x > 0, [f, 0])",
    "a draw into an array": "x = np.zeros(3)\ny = np.random.default_rng(0).random(None, float, x)\nr = x, y",
}


def left_by(text, numpy, enter):
    """Values, the error and the warnings of a program."""
    arrays = {
        "F": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "U": np.arange(5.0),
        "G": np.arange(12.0)[::2],
        "R": np.arange(6.0)[::-1],
        "L": np.arange(900.0).reshape(9, 100)[:, 3],
    }
    names = {"np": numpy, **{name: enter(array) for name, array in arrays.items()}}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            exec(text, names)
        except ValueError as error:
            return str(error)
    found = [one.fetch() if isinstance(one, mt.Tensor) else np.asarray(one) for one in names["r"]]
    return [(one.tolist(), one.dtype) for one in found], {str(one.message) for one in seen}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_leaves_what_numpy_leaves(engine, text):
    expected = left_by(text, np, lambda array: array)
    with small_values():
        assert left_by(text, mt, mt.asarray) == expected


@pytest.mark.parametrize("text", ["x[1:]", "np.flip(x)[1:]", "x[::-1][:-1].reshape(-1)"])
def test_a_loop_of_views_keeps_few_steps_and_leaves_the_first_array(engine, text):
    start = np.arange(3000)
    theirs, kept, deepest = start, [], 0
    with small_values():
        x = whole = mt.arange(3000)
        for k in range(2500):
            x, theirs = eval(text, {"np": mt, "x": x}), eval(text, {"np": np, "x": theirs})
            if k == 0:
                kept.append((x[:3], theirs[:3]))
            if k == 50:
                del whole, kept[:]
            deepest = max(deepest, x._place.depth if k > 80 else 0)
            x[0] = theirs[0] = -k
    assert x.tolist() == theirs.tolist() and deepest < 25


@pytest.mark.parametrize("text", ["x[1:]", "x[::-1][1:]", "x[:-1:1]", "x[-2::-1]", "x[3:3]"])
def test_a_loop_of_slices_shares_memory_with_the_first_array(engine, text):
    theirs = start = np.arange(1200).reshape(600, 2)
    with small_values():
        x = whole = mt.array(start)
        for k in range(1100):
            x, theirs = eval(text, {"x": x}), eval(text, {"x": theirs})
            if len(theirs):
                x[0] = theirs[0] = -k
        assert x._place.depth < 25 and x.shape == theirs.shape
        whole[300:] += 1
        start[300:] += 1
    assert whole.tolist() == start.tolist() and x.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "x.T",
        "x.reshape(-1)",
        "np.moveaxis(x, 0, 1)",
        "x.ravel()[2:]",
        "np.flip(x)[0]",
        "np.hsplit(x, 2)[1]",
        "np.rot90(x)",
    ],
)
def test_a_view_makes_no_node(engine, monkeypatch, text):
    with small_values():
        x = mt.ones((3, 4))
        monkeypatch.setattr("jmars.tensor.buffers.new_data", None)
        y = eval(text, {"x": x, "np": mt})
        y *= 2
        assert x.sum() == 12 + y.size


def test_a_diagonal_makes_no_node(engine, monkeypatch):
    with small_values():
        x = mt.ones((3, 4))
        monkeypatch.setattr("jmars.tensor.buffers.new_data", None)
        assert (np.diag(x).sum(), x.diagonal(1).sum()) == (3, 3)


@pytest.mark.parametrize("numpy", [np, mt])
def test_a_function_applied_at_positions_makes_no_node(engine, monkeypatch, numpy):
    rng = np.random.default_rng(0)
    k, expected = rng.integers(0, 6, (2, 50)), np.zeros((6, 6))
    np.add.at(expected, (k[0], k[1]), 1)
    np.negative.at(expected, 2)
    np.divide.at(expected[:, 1], [0, 0], np.array([2.0, 4.0]))
    with small_values():
        x, i = mt.zeros((6, 6)), mt.array(k)
        monkeypatch.setattr("jmars.tensor.buffers.new_data", None)
        numpy.add.at(x, (i[0], k[1]), 1)
        numpy.negative.at(x, 2)
        numpy.divide.at(x[:, 1], [0, 0], mt.array([2.0, 4.0]))
        assert x.tolist() == expected.tolist()
        with pytest.raises(IndexError, match="out of bounds"):
            numpy.add.at(x, 6, 1)
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            numpy.divide.at(x, (0, 1), 0.0)


@pytest.mark.parametrize(
    "text",
    [
        "np.fill_diagonal(x, [1, 2])",
        "np.fill_diagonal(x.T, -1, wrap=True)",
        "np.place(x, x > 5, [1, 2])",
        "np.put(x[1:], [0, -1], [7, 8])",
        "x.put(7, 9, mode='wrap')",
        "np.putmask(x, x > 3, x * 2)",
        "np.copyto(x[:, 1:], x[:, :-1], where=[True, False, True])",
        "np.put_along_axis(x, x.argmax(axis=1)[:, None].astype(int), 0, axis=1)",
        "x[::2].fill(3)",
        "np.random.default_rng(3).shuffle(x)",
        "np.random.default_rng(3).shuffle(x, axis=1)",
        "np.random.RandomState(3).shuffle(x)",
        "np.copyto(x, 'a')",
        "np.put(x, 99, 1)",
        "np.place(x, x > 5, [])",
    ],
)
def test_a_function_that_writes_to_an_argument_makes_no_node(engine, monkeypatch, text):
    def make_node(*_):
        raise AssertionError

    def write(np, x):
        with contextlib.suppress(TypeError, IndexError, ValueError):
            exec(text, {"np": np, "x": x})

    expected = np.arange(12.0).reshape(3, 4)
    write(np, expected)
    with small_values():
        x = mt.arange(12.0).reshape(3, 4)
        monkeypatch.setattr("jmars.tensor.operand.TensorData", make_node)
        write(mt, x)
        assert x._place.memory.tolist() == expected.tolist()


@pytest.mark.parametrize("index", [slice(None, None, 5), slice(1, 9), [1, 2]])
def test_a_write_to_the_flat_elements_leaves_them_here(engine, index):
    expected = np.arange(12.0).reshape(3, 4)
    expected.T.flat[index] = [-1, -2]
    with small_values():
        x = mt.arange(12.0).reshape(3, 4)
        x.T.flat[index] = [-1, -2]
        assert x._place.memory.tolist() == expected.tolist()


def test_the_text_of_many_elements_makes_no_node(engine, monkeypatch):
    with small_values():
        x = mt.arange(3000.0).reshape(50, 60)
        y = x.T
        monkeypatch.setattr("jmars.tensor.operand.TensorData", None)
        expected = np.arange(3000.0).reshape(50, 60)
        assert (str(x), repr(x), f"{y}") == (str(expected), repr(expected), f"{expected.T}")
        assert np.shares_memory(x, y) and not np.shares_memory(x[0], y[:, 1])


@pytest.mark.parametrize("text", ["x + v", "v < x", "np.add(x, v)", "np.where(x > 0, v, 1)", "np.hypot(v, x)"])
def test_arrays_that_do_not_broadcast_are_refused_in_numpys_words(engine, text):
    words = []
    for numpy in (np, mt):
        with small_values(), pytest.raises(ValueError, match="broadcast") as refused:
            eval(text, {"np": numpy, "x": numpy.ones((700, 300)), "v": numpy.ones(50_000)})
        words.append(str(refused.value))
    assert words[0] == words[1]


@pytest.mark.parametrize(
    "text", ["np.copyto(dst=x, src=1)", "np.fill_diagonal(a=x, val=[1, 2])", "np.put(a=x, ind=[0, -1], v=x[1, :2])"]
)
def test_an_array_that_is_written_may_be_a_keyword(engine, text):
    expected = np.arange(12.0).reshape(3, 4)
    exec(text, {"np": np, "x": expected})
    with small_values():
        x = mt.arange(12.0).reshape(3, 4)
        exec(text, {"np": mt, "x": x})
        assert x.tolist() == expected.tolist()


def test_a_compiled_ufunc_of_another_library_makes_no_node(engine, monkeypatch):
    special = pytest.importorskip("scipy.special")
    with small_values():
        x, large = mt.linspace(0, 1, 5), mt.ones(10**6)
        assert special.erf(large).data is not None
        monkeypatch.setattr("jmars.tensor.operand.TensorData", None)
        assert special.erf(x).tolist() == special.erf(np.linspace(0, 1, 5)).tolist()
        assert type(special.gammaln(x[2])) is np.float64


@pytest.mark.parametrize("text", ["char.add('x', s)", "strings.find(s, 'b')", "char.zfill(s, 9)", "char.split(s)"])
def test_functions_of_text_make_no_node(engine, monkeypatch, text):
    with small_values():
        s = mt.array(["a", "bc"] * 2000)
        monkeypatch.setattr("jmars.tensor.buffers.new_data", None)
        assert len(eval(f"mt.{text}", {"mt": mt, "s": s})) == 4000


@pytest.mark.parametrize(
    "text", ["normal(size=9)", "rand(3)", "randint(0, 9, 5)", "standard_normal((2, 2))", "choice(7, 3)"]
)
def test_draws_of_a_module_function_make_no_node(engine, monkeypatch, text):
    np.random.seed(5)
    expected = eval(f"np.random.{text}")
    with small_values():
        mt.random.seed(5)
        monkeypatch.setattr("jmars.tensor.operand.TensorData", None)
        assert eval(f"mt.random.{text}").tolist() == expected.tolist()


def test_a_fit_of_a_polynomial_makes_no_node(engine, monkeypatch):
    x = np.linspace(0, 3, 50)
    expected = np.polynomial.Polynomial.fit(x, x**3, 2)
    with small_values():
        xs, ys = mt.array(x), mt.array(x**3)
        monkeypatch.setattr("jmars.tensor.operand.TensorData", None)
        found = mt.polynomial.Polynomial.fit(xs, ys, 2)
        assert type(found) is mt.polynomial.Polynomial
        assert found.coef.tolist() == expected.coef.tolist() and found.domain.tolist() == expected.domain.tolist()
        assert found(xs).tolist() == expected(x).tolist()


MASKED = """
m.mean() | m.sum() | np.ma.median(m) | m.compressed() | m.filled(0) | m.std() | m.count() | m + 1 | m * m | -m | m > 1
m == m | m[2:] | m.argmax() | m.max() | m.cumsum() | np.ma.sort(m) | np.ma.sqrt(m - 4) | m.anom() | m.nonzero()
m.round(1) | np.ma.unique(m) | np.ma.average(m) | np.ma.corrcoef(m, m) | np.ma.clump_masked(m) | m.copy()
np.ma.masked_greater(x, 3) | np.ma.masked_where(x > 2, x) | np.ma.array([1, 2], mask=[0, 1]) | m[1:2].sum()
np.ma.concatenate([m, m]) | np.ma.where(m > 2, m, 0) | np.sin(m) | np.sum(m) | np.clip(m, 1, 3) | x + m | m // 2
"""
MASKED = [one.strip() for line in MASKED.strip().splitlines() for one in line.split(" | ")]


@pytest.mark.parametrize("text", MASKED)
def test_masked_arrays_make_no_node(engine, monkeypatch, text):
    x = np.arange(12.0)
    m = np.ma.array(x, mask=x % 5 == 1, fill_value=7)
    expected = eval(text, {"np": np, "m": m, "x": x})
    with small_values():
        names = {"np": mt, "m": mt.ma.array(mt.array(x), mask=m.mask, fill_value=7), "x": mt.array(x)}
        monkeypatch.setattr("jmars.tensor.operand.TensorData", None)
        found = eval(text, names)
        monkeypatch.undo()
        found = as_values(found)
    assert type(found) is type(expected)
    for one, other in zip(*([each] if np.ndim(each) < 2 else each for each in (found, expected)), strict=True):
        np.testing.assert_array_equal(np.ma.getmaskarray(one), np.ma.getmaskarray(other))
        np.testing.assert_array_equal(np.ma.filled(one, 0), np.ma.filled(other, 0))
        assert np.ma.getmask(one).shape == np.ma.getmask(other).shape
        assert getattr(one, "fill_value", None) == getattr(other, "fill_value", None)


def test_masked_results_share_no_memory(engine):
    with small_values():
        m = mt.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
        more, part, data = m + 1, m[1:], m.compressed()
        more[0] = np.ma.masked
        part[1] = 9
        data[0] = 5
        assert m.tolist() == [1, None, 9] and more.tolist() == [None, None, 4] and data.tolist() == [5, 3]


def test_large_results_of_masked_arrays_make_nodes(engine):
    with small_values():
        m = mt.ma.array(mt.ones(2000), mask=False)
        assert (m[:, None] + m).data._place._memory is None and mt.ma.outer(m, m).data._place._memory is None


def test_functions_by_conditions_make_no_node(engine, monkeypatch):
    with small_values():
        x = mt.arange(-3.0, 4.0)
        monkeypatch.setattr("jmars.tensor.operand.TensorData", None)
        found = mt.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v**2])
        assert found.tolist() == [3, 2, 1, 0, 1, 4, 9]


def test_text_that_grows_makes_a_node(engine):
    with small_values():
        assert mt.strings.multiply(mt.array(["ab"]), 2_000_000)._place._memory is None
        assert mt.strings.multiply(mt.array(["ab"]), 2)._place._memory is not None


def test_records_by_masks_and_positions_make_no_node(engine):
    with small_values():
        x = mt.zeros(5000, "U12, i4, f8")
        kept = x[x["f1"] == 0][mt.array([3, 4])]
        assert kept._place._memory is not None
        kept["f2"] += 1
        assert kept["f2"].sum() == 2 and x["f2"].sum() == 0


@pytest.mark.parametrize(
    "text", ["eye(2)", "outer([1, 2], [3, 4])", "einsum('i,i->', x, x)", "where(x > 1, x, 0)", "linspace(0, 1, 5)"]
)
def test_a_function_of_a_growing_result_is_called_once(engine, monkeypatch, text):
    with small_values():
        x = mt.arange(20.0)
        monkeypatch.setattr("jmars.tensor.small_values._is_small", None)
        assert eval(f"mt.{text}", {"mt": mt, "x": x}) is not None


# Calls whose results may be much larger than their arguments; x has 1000 elements, M is 40 x 40, A is 30 x 4.
CALLS = """
polyfit(x, x, 3)                       polyfit(x, x, 2, cov=True)             polyval([1, 2.0], x)
histogram_bin_edges(x, 'auto')         histogram_bin_edges(x, 'fd')           histogram_bin_edges(x, 'stone')
histogram(x, 'scott')                  histogram(x, bins=10)                  histogram(x, [1, 3, 9])
histogram2d(x, x, bins=5)              histogram2d(x, x, bins=[3, [1, 9]])     histogramdd(A, bins=3)
corrcoef(x[:-1], x[1:])                corrcoef(A.T)                          cov(x, x)
cov(A, rowvar=False)                   linalg.lstsq(A, x[:30], rcond=None)    linalg.qr(M)
linalg.svd(M)                          linalg.svd(A, full_matrices=False)     linalg.qr(A, 'complete')
bincount(k, weights=x)                 bincount(k, minlength=50)              percentile(x, [5, 95])
nanquantile(M, [0.5, 0.9], axis=0)     pad(x, 2)                              pad(M, [(1, 2), (3, 4)])
fft.fft(x)                             fft.irfft(x, 1200)                     fft.fft2(M, (50, 8))
inner(x, x)                            inner(M, M[:3])                        einsum('ij,jk->ik', M, M)
einsum('ij,ij', M, M)                  einsum('ij->j', M)                     tensordot(M, M, 1)
tensordot(A, A, ((0, 1), (0, 1)))      select([x < 0, x > 5], [x, 2 * x])     take(x, [5, 95, 300])
take(M, [5, 9], axis=1)                take_along_axis(M, M.argsort(1), 1)    linspace(0, 100_000, 50)
geomspace(1, 1000, 50)                 logspace(0, [1, 2], 40)                arange(0, 1, 0.01)
arange(5, 1.5, -0.5)                   cross(x[:999].reshape(-1, 3), [1, 2, 3])
full(5, 10**6)                         full_like(x, 10**6)                    repeat(x, 3)
repeat(x[:3], k[:3])                   tile(A, (2, 3))                        eye(40, 50)
identity(9)                            tri(3, 4)                              tril_indices(5, m=7)
vander(x, 4)                           diag(x[:30], 2)                        diagflat(A, -3)
meshgrid(x[:9], x[:8])                 indices((4, 5))
kron(A, A[:2])                         linalg.multi_dot([M, M, M[0]])         matvec(M, M)
vecmat(M, M)                           vecdot(M[:, None], M)                  isclose(x[:50, None], x[:50])
linalg.solve(M, M)                     unpackbits(k[:9].astype('u1'))         resize(A, (9, 9))
choose(k % 2, [x, 2])                  clip(x[:50, None], 0, x[:50])          hanning(200)
hanning(99.5)                          fft.fftfreq(40, 0.1)                   linalg.outer(x[:9], x[:8])
zeros((4, 5))                          zeros_like(x, shape=(3, 4))            diag_indices(4, 3)
emath.power(x[:50, None], x[:50])      dot(M, x[:40])                         matmul(M[None], M)
"""
CALLS = [one.strip() for line in CALLS.splitlines() for one in line.split("  ") if one.strip()]


def of_calls(numpy):
    rng = np.random.default_rng(0)
    x, k, M, A = (rng.random(1000) + 0.5) * 9, rng.integers(0, 20, 1000), rng.random((40, 40)), rng.random((30, 4))
    if numpy is mt:
        x, k, M, A = map(mt.array, (x, k, M, A))
    return {"np": numpy, "x": x, "k": k, "M": M, "A": A}


@pytest.mark.parametrize("text", CALLS)
def test_a_call_with_a_small_result_makes_no_node(engine, monkeypatch, text):
    expected = eval(f"np.{text}", of_calls(np))
    with small_values():
        names = of_calls(mt)
        monkeypatch.setattr("jmars.tensor.buffers.new_data", None)
        monkeypatch.setattr("jmars.tensor.small_values._is_small", None)  # asked of nodes
        found = eval(f"np.{text}", names)
    several = isinstance(expected, tuple | list)
    for one, other in zip(found if several else [found], expected if several else [expected], strict=True):
        np.testing.assert_array_equal(one._place._memory if isinstance(one, mt.Tensor) else one, other, strict=True)


@pytest.mark.parametrize("text", CALLS)
def test_no_result_is_larger_than_foreseen(text):
    result = eval(f"np.{text}", of_calls(np))
    largest = max(map(np.size, result)) if isinstance(result, tuple | list) else np.size(result)
    assert largest <= foreseen(text, of_calls(np))


def foreseen(text, names):
    name, _, rest = text.partition("(")
    args, options = eval(f"(lambda *args, **options: (args, options))({rest}", names)
    return _MOST[name.removeprefix("linalg.")](*args, **options)


@pytest.mark.parametrize(
    "text",
    [
        "histogram([0.0, 1.0, 1.0, 1.0, 1.0, 1.0 + 1e-9, 1.0 + 2e-9, 1.0 + 3e-9], 'fd')",
        "bincount([10**7])",
        "repeat(np.arange(2), np.array([10**7, 1]))",
        "isclose(x[:, None], x)",
        "vecdot(x[:, None], x[:, None, None])",
        "pad(x, 10**6)",
        "arange(0, 1, 1e-7)",
        "corrcoef(x[:, None], x[:, None])",
        "hanning(1e7)",
        "fft.fft(x, 10**7)",
        "linalg.svd(x[:, None])",
    ],
)
def test_a_call_with_a_large_result_is_not_foreseen_as_small(text):
    assert foreseen(text, {"np": np, "x": np.arange(2000.0)}) > SMALL // 16


def test_values_beyond_the_most_are_nodes(engine, monkeypatch):
    before = SmallValues.bytes  # of other tests
    monkeypatch.setattr("jmars.tensor.buffers.MOST", before + 2**20)
    with small_values():
        x = mt.ones(2**14)
        kept = [x + k for k in range(20)]
        here = sum(one._place._memory is not None for one in kept)
        assert here == 8 and SmallValues.bytes - before == 2**17 * (here + 1)
        assert [float(one[3]) for one in kept] == [k + 1.0 for k in range(20)]


@pytest.mark.parametrize(
    "text", ["np.ones(2**14)", "np.concatenate([x, x])", "np.array([1.0] * 2**14)", "x[[*range(2**14)]]", "np.eye(128)"]
)
def test_each_way_to_make_a_value_counts_for_the_most(engine, monkeypatch, text):
    before = SmallValues.bytes
    monkeypatch.setattr("jmars.tensor.buffers.MOST", before + 2**20)
    with small_values():
        x = mt.ones(2**14)
        kept = [eval(text, {"np": mt, "x": x}) for _ in range(20)]
        assert SmallValues.bytes - before <= 2**20 + 2**18
        assert all(float(one.sum()) == float(kept[0].sum()) for one in kept)
        assert mt.ones(9)._place._memory is not None


def test_many_arrays_joined_make_a_node(engine):
    with small_values():
        part = np.ones(2**16)
        for join in (np.stack, np.concatenate, np.vstack):
            name = join.__name__
            assert getattr(mt, name)([part] * 9)._place._memory is None
            assert getattr(mt, name)([part] * 8)._place._memory is not None
        assert mt.block([[part] * 5, [part] * 5])._place._memory is None


def test_positions_that_take_much_make_a_node(engine):
    with small_values():
        x, many = mt.ones((3, 50_000)), np.zeros(500, int)
        assert x[many]._place._memory is None and x[many[:4]]._place._memory is not None
        assert x[[0, 1], [2, 3]].tolist() == [1, 1]


def test_positions_of_arrays_of_several_axes_make_no_node(engine):
    with small_values():
        x = mt.ones((2000, 2))
        rows = x[:, 0] > 0
        for part in (x[rows], x[x > 0], x.T[:, rows], x[mt.flatnonzero(rows)], x[rows, None, :]):
            assert part._place._memory is not None


MASK = np.arange(12).reshape(3, 4) % 5 == 1
TAKEN = [
    (MASK,),
    (MASK[:, 0],),
    (slice(None), MASK[0]),
    ([0, 2, 1, 1], ..., [1, 0, 0, 1]),
    (MASK, None),
    (np.array([[0, 1]]), slice(1, 3), 1),
    (True, [1, 2]),
    (slice(None), slice(None), np.array([1, 0, 1])),
    (1, [0, 1], None, [1]),
]


@pytest.mark.parametrize("index", TAKEN)
def test_the_elements_that_an_index_takes_are_foreseen(index):
    x = np.zeros((3, 4, 2))
    assert x[index].size <= _taken_elements(x.shape, index) <= x[index].size * 2


def test_arrays_that_are_no_tensors_stay_writeable_and_apart(engine):
    edges, x = np.arange(3.0), np.arange(3.0)
    with small_values():
        kept = [
            mt.histogram([0.5], bins=edges)[1],
            mt.histogram2d([0.5], [0.5], bins=[edges, edges])[1],
            mt.asarray(a=x),
        ]
    edges[0] = x[0] = -1
    assert [one.tolist() for one in kept] == [[0, 1, 2]] * 3


def test_threads_write_to_one_array(engine):
    interval = sys.getswitchinterval()
    with small_values():
        x = mt.zeros(4000)

        def put(first):
            for i in range(first, 4000, 4):
                x[i] = i

        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(put, range(4)))
        finally:
            sys.setswitchinterval(interval)
    assert x.tolist() == list(range(4000))


def test_threads_write_to_elements_while_nodes_are_made(engine):
    interval = sys.getswitchinterval()
    with small_values():
        x, large = mt.zeros(4), mt.arange(100, chunk_size=10)

        def add(k):
            y, j = (x[::-1], 3 - k) if k % 2 else (x, k)
            for i in range(300):
                y[j] += 1
                if k == 0 and i % 20 == 0:
                    assert (large[:4] + x)[3] >= 3

        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(add, range(4)))
        finally:
            sys.setswitchinterval(interval)
    assert x.tolist() == [300] * 4


def test_a_view_of_memory_replaced_by_a_thread_writes_to_the_new_memory(engine):
    with small_values():
        x = mt.zeros(4)
        found = x._place.memory[::-1]
        assert x._place.node.shape == (4,)  # reads the memory, so that the next write copies it
        x[0] = 1
        view = x._viewed((slice(None, None, -1),), found)
        view[0] = 5
    assert x.tolist() == [1, 0, 0, 5]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_forked_while_a_thread_writes_may_write(engine):
    with small_values(), ThreadPoolExecutor(1) as pool:
        x = mt.zeros(3)
        pool.submit(SmallValues.writing.acquire).result()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forks beside threads
            child = os.fork()
        if not child:
            signal.alarm(5)
            x[0] = 1
            os._exit(x.tolist() != [1, 0, 0])
        pool.submit(SmallValues.writing.release).result()
        assert os.waitpid(child, 0)[1] == 0


def test_filters_of_warnings_are_as_before():
    before = list(warnings.filters)
    with small_values():
        pass
    assert warnings.filters == before


def test_a_cell_starts_afresh_after_an_interrupt() -> None:
    SmallValues.count(1)  # a function that an interrupt ended before its end was noted
    with small_values():
        assert mt.sqrt(4.0) == 2.0 and type(mt.sqrt(4.0)) is np.float64
    SmallValues.count(-1)
    with small_values():
        assert type(mt.sqrt(4.0)) is np.float64


def test_an_out_without_axes_does_not_reach_numpys_cumsum_which_crashes() -> None:
    with small_values():
        x = mt.array(3.0)
        y = x
        with pytest.raises(ValueError, match="wrong size"):
            mt.cumsum(x, axis=0, out=y)
        y += 1
        assert float(x) == 4.0


def test_a_thread_leaves_the_rows_that_another_thread_reads_ahead(engine):
    x = mt.arange(1_000_000.0, chunk_size=250_000).reshape(1000, 1000)
    y = -x
    sums = []
    for i in range(6):
        sums.append(float(x[i].sum()))
        thread = threading.Thread(target=lambda i=i: [float(y[k].sum()) for k in range(i, i + 3)])
        thread.start()
        thread.join()
    assert rows.row(x, 6) is not None
    assert sums == [float(np.arange(1000.0).sum() + 1e6 * i) for i in range(6)]


def test_rows_that_were_read_ahead_go_with_their_array(engine):
    x = mt.arange(1_000_000.0, chunk_size=250_000).reshape(1000, 1000)
    seen = [float(x[i].sum()) for i in range(5)]
    assert len(seen) == 5 and rows._block is not None
    del x
    gc.collect()
    assert rows._block is None


@needs_numpy("2.4", "np.reshape without a shape")
def test_reshape_without_a_shape_is_a_view_whatever_is_said_of_copies(engine):
    with small_values():
        a = mt.asarray(np.arange(4.0)) + 1
        view = np.reshape(a.T, None, order=None, copy=True)
        assert view.data.shape == (4,)
        view[0] = 9
        assert float(a[0]) == 9
