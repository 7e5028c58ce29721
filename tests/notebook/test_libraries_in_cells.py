"""Functions of SciPy, of numba and of `np.frompyfunc` in a `%%jmars` cell, and memory-mapped files."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.client.cluster import default_cluster
from jmars.config import config
from jmars.tensor import Tensor
from tests.notebook.shells import Notebook, new_shell

special = pytest.importorskip("scipy.special", reason="SciPy is not installed (extra jmars[notebooks])")


def test_a_function_of_an_earlier_import_is_lazy_in_the_cell(notebook):
    notebook("import numpy as np\nfrom scipy import special\nx = np.linspace(0, 3, 50)")
    notebook("%%jmars\ny = special.erf(x) + special.xlogy(2, x); t = type(special.gammaln(x + 1))")
    assert notebook["t"] is Tensor
    x = np.linspace(0, 3, 50)
    np.testing.assert_array_equal(notebook["y"].fetch(), special.erf(x) + special.xlogy(2, x))


def test_scipy_ndimage_is_lazy_in_the_cell_by_any_name(notebook):
    notebook("import numpy as np, scipy\nfrom scipy import ndimage as ndi\nfrom scipy.ndimage import sobel")
    notebook("a = np.random.default_rng(0).random((9, 8))")
    notebook(
        "%%jmars\nimport scipy.stats\nfrom scipy import ndimage, special\nfrom scipy.ndimage import laplace as lap\n"
        "x = [ndi.median_filter(a, 3), scipy.ndimage.laplace(a), ndimage.laplace(a), lap(a), sobel(a)]\n"
        "t = {type(one) for one in x}; turned = type(ndi.rotate(a, 90)); n = scipy.stats.norm.pdf(0)"
    )
    assert notebook["t"] == {Tensor} and notebook["turned"] is np.ndarray and 0.39 < notebook["n"] < 0.4
    assert notebook("all((one == two).all() for one, two in zip(x[1:], [lap(a)] * 3 + [sobel(a)]))")
    assert notebook("[one.__name__ for one in (scipy, ndi, ndimage)]") == ["scipy", "scipy.ndimage", "scipy.ndimage"]


OBJECTS = """def spell(n):
    return np.binary_repr(n)
f = np.frompyfunc(spell, 1, 1)
objects = f(np.arange(5))
texts = objects.astype("U8")
printed = str(objects)"""


def test_objects_of_a_function_that_uses_numpy_itself(notebook):
    notebook("import numpy as np")
    notebook("%%jmars\n" + OBJECTS)
    assert notebook["texts"].fetch().tolist() == ["0", "1", "10", "11", "100"]
    assert notebook["printed"] == "['0' '1' '10' '11' '100']"
    assert notebook("objects.fetch().tolist()") == ["0", "1", "10", "11", "100"]


def test_a_memory_mapped_file_is_numpys_own(notebook, tmp_path):
    notebook(f"import numpy as np\npath = {str(tmp_path / 'a.npy')!r}")
    notebook(
        "%%jmars\nm = np.lib.format.open_memmap(path, mode='w+', dtype='f8', shape=(4, 3))\n"
        "m[...] = np.arange(12.0).reshape(4, 3) * 2\nm.flush()\ntotal = (np.asarray(m) + 1).sum()"
    )
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.arange(12.0).reshape(4, 3) * 2)
    assert notebook["total"] == 2 * 66 + 12


def test_workers_call_the_functions():
    with new_shell() as shell, config.using(display="none", local_seconds=0):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np\nfrom scipy import special")
        notebook("%%jmars -w 1 --memory 400MiB\nx = np.linspace(0, 4, 100_000)\ny = (special.erf(x) * 2).max()")
        notebook("%%jmars\nn = np.frompyfunc(lambda n: len(str(n)), 1, 1)(np.arange(1000)).astype(int).sum()")
        assert float(notebook["y"]) == special.erf(4.0) * 2 and int(notebook["n"]) == 2890
        assert len(default_cluster(start=False).jobs()) == 2
        notebook("%jmars stop")
