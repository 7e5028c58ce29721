"""Cells of plain NumPy print the same below `%%jmars`, whichever of NumPy's names they use."""

from __future__ import annotations

import pytest

from tests.notebook.conftest import in_process

CELLS = {
    "objects": """
from fractions import Fraction
a = np.array([{}, None, "x"], dtype=object)
b = np.empty(2, dtype=object)
b[0], b[1] = [1, 2], "y"
half = np.array([Fraction(1, 2), Fraction(1, 3)])
print(a, a[0], len(a), type(a), b, half.sum(), np.sum(half), half * np.arange(2), np.arange(2) + Fraction(1, 2))
print(np.full(3, None), np.arange(3).astype(object) + 2**70, a != None)
print(np.array([2**70, 1]), np.array([[1], [2, 3]], dtype=object))
print(np.where(np.arange(3) > 1, a, 0), np.vectorize(lambda v: {"a": v})(np.arange(2)), np.arange(2) == None)
f = np.frompyfunc(lambda a, b: a + b, 2, 1)
print(f.outer(np.arange(2), np.arange(3)), f(np.arange(2), 1) * 2, f.reduce(np.arange(4)))""",
    "functions of arrays around them": """
w = np.arange(3.)
m = w.mean()
def centred(row): return (row - m).sum() * w[1]
print(np.apply_along_axis(lambda row: row * w, 1, np.ones((2, 3))), np.apply_along_axis(centred, 1, np.ones((2, 3))))
print(np.vectorize(lambda v: v * w[2])(np.ones(3)))""",
    "exceptions of functions": """
class Mine(Exception): pass
def fails(row): raise Mine("no")
for call in (lambda: np.apply_along_axis(fails, 1, np.ones((2, 3))), lambda: np.vectorize(fails)(np.ones(3))):
    try: print(call())
    except Mine as error: print("caught", error)""",
    "pickle": """
import pickle
x = np.arange(5)
print(pickle.loads(pickle.dumps({"a": x, "b": x.sum()})), type(pickle.loads(pickle.dumps(x))))""",
    "functions": """
import copy, pickle
functions = [np.max, np.sqrt, np.where, np.array, np.concatenate, np.linalg.norm, np.fft.rfft, np.strings.upper]
print([(f.__name__, pickle.loads(pickle.dumps(f)) is f, copy.deepcopy(f) is f) for f in functions])""",
    "a pool of processes": """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
parts = np.array_split(np.arange(100_000), 3)
with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    print([list(pool.map(f, parts)) for f in (np.max, np.sum, np.sqrt)][:2])""",
    "files of a folder that goes": """
import os, tempfile
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x")
    np.save(path + ".npy", np.arange(12.0).reshape(3, 4)[:, ::2])
    np.savez(path + ".npz", y=np.arange(5), e=np.ones((0, 2)))
    np.arange(6).tofile(path)
    x, z = np.load(path + ".npy"), np.load(path + ".npz")
    y, e, raw = z["y"], z["e"], np.fromfile(path, int)
x[0] += 1
print(x, y, e.shape, raw, raw.sum())""",
    "records": """
r = np.zeros((2, 3), dtype=[('a', int), ('b', float), ('c', 'f4', (2,))])
r['a'] = np.arange(6).reshape(2, 3)
r[['a', 'b']][1] = (7, 8)
r['c'][0, 1] = [5, 6]
r[['b', 'c']] = (1, [2, 3])
print(r[1, 2]['a'], r[1]['a'], r[r['a'].argmax() % 2]['b'], r, len(r[0, 0]), r[0, 0][2])""",
    "linspace of arrays": """
print(np.linspace(np.array([0., 1]), np.array([1., 5]), 5), np.linspace([0, 1], 6, 3, axis=-1))""",
    "put_along_axis": """
a = np.arange(12).reshape(3, 4)
np.put_along_axis(a, np.array([[0, 1]]), 99, axis=1)
print(a, np.unique_inverse(np.array([3., np.nan, 1, 3])).inverse_indices)""",
    "scalars": """
x, names = np.arange(1.5, 5), np.array(["ab", "c"])
print(x.sum().is_integer(), x[0].hex(), x.max().as_integer_ratio(), np.arange(5).sum().bit_count(), {x[1]: 2}[2.5])
print(names[0].upper(), len(names[0]), {"ab": 1}[names[0]], x.view("i4")[1::2].sum(), x.view("u1").shape)""",
    "windows": "x = np.arange(5.)\nprint(np.lib.stride_tricks.sliding_window_view(x, 3).sum())",
    "annotations": """
import numpy.typing as npt
from numpy.typing import NDArray
def f(x: npt.NDArray[np.float64], y: NDArray[np.int_]) -> np.typing.ArrayLike: return x
print(f(np.ones(3), 1))""",
    "nditer": """
x = np.arange(4.)
for v in np.nditer(x): print(v)
with np.nditer(x, op_flags=["readwrite"]) as it:
    for v in it: v[...] = 2 * v
print(x)
it = np.nditer([x.reshape(2, 2), None], flags=["multi_index"])
for a, b in it: b[...] = a + it.multi_index[0]
print(it.operands[1])""",
    "testing": """
x = np.arange(3)
np.testing.assert_equal(x, [0, 1, 2])
np.testing.assert_array_equal(x, [0, 1, 2], strict=False)
np.testing.assert_allclose(x / 3, [0, 1 / 3, 2 / 3])
np.testing.assert_almost_equal(x.sum(), 3)
np.testing.assert_raises(ValueError, x.reshape, 2)
try: np.testing.assert_array_equal(x, [0, 1, 3])
except AssertionError as error: print(error)""",
    "version": "print(np.__version__, np.version.version, np.lib.NumpyVersion(np.__version__) > '1.0.0')",
    "emath": """
print(np.emath.sqrt(np.array([-1., 4.])), np.emath.sqrt(-1), np.emath.log(np.array([1.])), np.lib.scimath.sqrt(-2))
print(np.emath.power(np.array([-2, 4]), -1), np.emath.arccos(np.array([.5, 2.])),
      np.emath.logn(2, np.array([8, -8.])))""",
    "series": """
from numpy.polynomial import Chebyshev, polynomial as poly
from numpy.polynomial.polynomial import polyroots
x = np.linspace(0, 1, 20)
print(np.polynomial.chebyshev.chebfit(x, x**2, 2).round(6) + 0, poly.polyval(x, [1, 2])[:3], polyroots([1, 2, 1]))
print(Chebyshev.fit(x, x**2, 2)(x).round(6)[-3:], np.polynomial.legendre.leggauss(2))
print(np.roots(np.array([1, -3, 2])))""",
    "broadcast": """
b = np.broadcast(np.ones((3, 1)), np.ones(4))
print(b.shape, b.size, b.ndim, [(float(u), float(v)) for u, v in b][:2])""",
    "isfortran": "x = np.ones((3, 4))\nprint(np.isfortran(x), np.isfortran(x.T), x.T.flags.fnc)",
    "calendar": """
c = np.busdaycalendar(holidays=np.array(['2024-01-01'], 'M8[D]'))
print(np.busday_count('2024-01-01', '2024-02-01', busdaycal=c))
print(np.is_busday(np.array(['2024-01-01', '2024-01-02'], 'M8[D]'), busdaycal=c))""",
    "records with attributes": """
r = np.rec.array([(1, 2.), (3, 4.)], dtype=[('a', int), ('b', float)])
print(r.a, r.b.sum(), isinstance(r, np.recarray))
print(np.rec.fromarrays([np.arange(3), np.ones(3)], names='a,b').a)""",
    "memmap": """
import os, tempfile
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'm.dat')
    m = np.memmap(path, dtype='f4', mode='w+', shape=(3, 4))
    m[:] = np.arange(4)
    m.flush()
    print(np.memmap(path, dtype='f4', mode='r', shape=(3, 4)).sum(), isinstance(m, np.memmap))
    del m""",
    "format": """
import io
f = io.BytesIO()
np.lib.format.write_array(f, np.arange(3))
f.seek(0)
print(np.lib.format.read_array(f), np.lib.format.magic(1, 0))""",
    "types": "print(np.dtype(np.float128), np.object_, np.ufunc, np.ctypeslib.as_ctypes_type('f4'))",
    "require": "x = np.require(np.arange(6).reshape(2, 3), 'f4', ['F', 'W'])\nprint(x.dtype, x.flags.f_contiguous)",
}


@pytest.fixture(scope="module")
def printed():
    """The text that a cell prints, with and without `%%jmars`."""
    with in_process() as notebook:

        def run(cell):
            found = []
            for line in ("", "%%jmars\n"):
                notebook("import numpy as np")
                ran = notebook.run(line + cell)
                assert ran.error is None, ran.text
                found.append(ran.text)
            return found

        yield run


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_a_cell_prints_what_it_prints_with_numpy(printed, cell):
    plain, lazy = printed(cell)
    assert lazy == plain
