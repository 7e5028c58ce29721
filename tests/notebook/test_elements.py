"""Elements of small arrays in a cell: NumPy's scalars, whose reads and writes make no node and no job."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.client.cluster import default_cluster
from jmars.config import config
from jmars.tensor import Tensor
from jmars.tensor.from_array import FromArray
from tests.notebook.shells import Notebook, new_shell


@pytest.fixture(scope="module")
def notebook():
    with new_shell() as shell, config.using(display="none", local_seconds=1.0):
        started = Notebook(shell)
        started("%load_ext jmars\nimport numpy as np")
        started("%%jmars -w 1 --memory 400MiB\nwarm = np.ones(3) + 1")
        yield started
        started("%jmars stop")


def both(notebook, text):
    """Run a cell lazily and by NumPy; returns the names of both."""
    notebook("import numpy as np")
    names = {"np": np}
    exec(text, names)
    notebook("%%jmars\n" + text)
    return notebook, names


def jobs():
    return [job["id"] for job in default_cluster(start=False).jobs()]


TABLE = """D, c = np.zeros((12, 9)), np.arange(108.0).reshape(12, 9) % 7
for i in range(1, 12):
    for j in range(1, 9):
        D[i, j] = min(D[i - 1, j], D[i, j - 1]) + c[i, j]"""


def test_a_table_filled_element_by_element_takes_no_job(notebook):
    before = jobs()
    ours, numpys = both(notebook, TABLE)
    assert type(ours["D"]) is Tensor and isinstance(ours["D"].data.op, FromArray)
    np.testing.assert_array_equal(ours["D"].fetch(), numpys["D"])
    assert jobs() == before


@pytest.mark.parametrize("length", [2**20, 2**22])  # copied into the kernel, and left where it lies
def test_elements_and_rows_of_an_array_of_the_kernel_take_no_job(notebook, length):
    before = jobs()
    notebook(f"big = np.arange({length}, dtype=float).reshape(-1, 1024)")
    notebook("%%jmars\nseen = [big[i, 3] for i in range(50)], [float(big[i].sum()) for i in range(3)]")
    notebook("big[1, 3] = -1\nbig[2] = 0")
    notebook("%%jmars\nlater = big[1, 3], float(big[2].max()), big.flatten, big[:, 5][1]")
    assert notebook["seen"][0] == [1024.0 * i + 3 for i in range(50)] and len(set(notebook["seen"][1])) == 3
    assert notebook["later"][:2] == (-1, 0) and notebook["later"][3] == 1029
    if length == 2**22:
        assert jobs() == before


LOOPS = {
    "rows": "n = 0\nfor row in z:\n    if row.sum() > 600: n += 1",
    "positions": "n = 0\nfor i in range(len(z)):\n    if z[i].max() > 0.999: n += i",
    "an end": "for k, row in enumerate(z):\n    if row.mean() > 0.51 and k > 40: break\nn = k",
    "a view": "n = sum(1 for row in z[::-1, 2:] if row.min() < 1e-3)",
    "writes": (
        "n = 0\nfor i in range(60):\n    if z[i].sum() > 0:\n        z[i + 1] = -1\n        n += 1\nn += float(z.sum())"
    ),
    "writes to rows": "for row in z[:50]:\n    if row[0] < 0.5: row *= 2\nn = float(z[:50].sum())",
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_over_rows_of_a_large_array_fetches_them_together(notebook, name):
    loop = LOOPS[name]
    setup = "z = np.sqrt(np.arange(1_000_000.0).reshape(1000, 1000) % 991 / 991)\n"
    before = len(jobs())
    ours, numpys = both(notebook, setup + loop)
    np.testing.assert_allclose(ours["n"], numpys["n"], rtol=1e-12)
    notebook("%%jmars\n" + setup)
    notebook("%%jmars\n" + loop)  # of an array that an earlier cell made
    np.testing.assert_allclose(notebook["n"], numpys["n"], rtol=1e-12)
    assert len(jobs()) - before < (400 if "writes" in name else 30)


def test_elements_are_numpys_scalars_once_the_value_is_known(notebook):
    ours, numpys = both(notebook, "x = np.arange(5) % 3\nseen = [x[i] for i in range(-5, 5)]\nlast = seen[-5:]")
    assert [type(one) for one in ours["last"]] == [type(one) for one in numpys["last"]]
    assert set(ours["last"]) == set(numpys["last"])


def test_results_without_axes_show_their_values_in_lists_and_dicts(notebook):
    before = jobs()
    text = "x = np.arange(6.0)\nshown = repr([x.sum(), {'most': (x.max(), x[2])}])"
    ours, numpys = both(notebook, text)
    assert ours["shown"] == numpys["shown"] == "[np.float64(15.0), {'most': (np.float64(5.0), np.float64(2.0))}]"
    assert jobs() == before
    with config.using(local_seconds=0):  # nothing is computed here
        notebook("%%jmars\nshown = repr([np.arange(7.0).sum()])")
    assert notebook["shown"] == "[np.float64(21.0)]" and len(jobs()) == len(before) + 1


def test_expressions_of_results_show_values_in_plain_cells(notebook):
    notebook("%%jmars\nw = np.arange(1e6)")
    names = {"w": np.arange(1e6)}
    for text in ("w.mean()", "w + 1", "w[:3]", "w[w > 999_997]", "[w[:9] @ w[:9], {1: w.max()}]", "w[7]"):
        assert repr(notebook(text)) == repr(eval(text, names)), text
    notebook("import jmars.tensor as mt")
    assert repr(notebook("w + mt.random.default_rng(0).random(1_000_000)")).startswith("Tensor(shape=(1000000,)")


VIEWS = """a = np.arange(24.0).reshape(4, 6)
b, r, f, back = a.T, a.reshape(8, 3), a.ravel(), a[::-1, ::2]
for i in range(4):
    row = a[i]
    for j in range(6):
        row[j] += b[j, i] * 2
        r[i, j % 3] -= f[j]
    back[i, 1] = i
    a *= 1.5
total = b[1, 2] + r[0, 0] + f[5] + back[1, 1]"""


def test_views_read_and_write_the_same_elements(notebook):
    ours, numpys = both(notebook, VIEWS)
    for name in ("a", "b", "r", "f", "back"):
        np.testing.assert_array_equal(ours[name].fetch(), numpys[name], err_msg=name)
    assert float(ours["total"]) == numpys["total"]


def test_copies_and_other_names_keep_their_values(notebook):
    text = "x = np.arange(4.0)\nfor i in range(4): x[i] = x[i] + 1\ny = x.copy(); z = x + 0\nx[0] = 99; y[1] = 7"
    ours, numpys = both(notebook, text)
    for name in ("x", "y", "z"):
        np.testing.assert_array_equal(ours[name].fetch(), numpys[name], err_msg=name)


def test_a_write_between_two_reads_of_a_whole(notebook):
    text = "x = np.arange(6.0); s = []\nfor i in range(6):\n    x[i] = -x[i]\n    s.append(x.sum())\n    x = x * 2"
    ours, numpys = both(notebook, text)
    assert [float(one) for one in ours["s"]] == numpys["s"]


@pytest.mark.parametrize(
    "write", ["x[5] = 1", "x[-6] = 1", "x[0, 0] = 1", "k[0] = 10**30", "x[1] = 1j", "w[0] = 1", "x[0] = 'text'"]
)
def test_errors_are_numpys(notebook, write):
    text = "x, k = np.arange(5.0), np.arange(5)\nw = np.broadcast_to(x, (5,))\nfor i in range(5): x[i] += 1; k[i] += 1"
    notebook("import numpy as np")
    names = {"np": np}
    exec(text, names)
    with pytest.raises(Exception) as numpys:
        exec(write, names)
    notebook("%%jmars\n" + text)
    ours = notebook.run("%%jmars\n" + write).error
    assert (type(ours), str(ours)) == (type(numpys.value), str(numpys.value))


def test_a_cell_that_fails_leaves_the_elements_as_they_were(notebook):
    both(notebook, "x = np.arange(5.0)\nfor i in range(5): x[i] = x[i] + 1")
    failed = notebook.run("%%jmars\nfor i in range(5): x[i] = 0\n1 / 0")
    assert isinstance(failed.error, ZeroDivisionError)
    np.testing.assert_array_equal(notebook["x"].fetch(), np.arange(5.0) + 1)


def test_rows_of_a_large_array_are_read(notebook):
    text = "big = np.arange(60_000.0).reshape(6, 10_000)\ns = 0.0\nfor i in range(6):\n    row = big[i, :500]\n"
    ours, numpys = both(notebook, text + "    for j in range(40): s += row[j]")
    assert float(ours["s"]) == numpys["s"]


def test_elements_in_a_plain_cell_are_numpys_scalars(notebook):
    both(notebook, "x = np.arange(5.0)\nfor i in range(5): x[i] = x[i] + 1")
    assert type(notebook("x[0]")) is np.float64
    assert float(notebook["x"][0]) == 1


def test_elements_of_records_are_tensors(notebook):
    notebook("import numpy as np")
    notebook("%%jmars\nx = np.zeros(3, [('a', 'i4'), ('b', 'f8')])\nfor i in range(9): one = x[0]")
    assert type(notebook["one"]) is Tensor


MASKED = """m = np.ma.masked_equal(np.array([1, -9, 3]), -9)
two = np.ma.masked_equal(np.array([[1.5, -9], [2, 4]]), -9)
printed = [str(m[1]), f"{m[0]}", float(m[2]), [str(v) for v in m], m[1] is np.ma.masked, m[0] is np.ma.masked]
printed += [str(two[0, 1]), str(two[0]), two[1, 0].is_integer(), [str(v) for row in two for v in row], {m[0]: 1}]
m[0] = np.ma.masked
printed += [m[0] is np.ma.masked, m.tolist(), [type(v).__name__ for v in m][2]]"""


def test_elements_of_masked_arrays_are_numpys(notebook):
    ours, numpys = both(notebook, MASKED)
    assert ours["printed"] == numpys["printed"]


def test_elements_of_a_masked_array_from_outside_are_numpys(notebook):
    notebook("m = np.ma.masked_equal(np.array([1, -9, 3]), -9)")
    notebook("%%jmars\nseen = [m[1] is np.ma.masked, float(m[0]), [str(v) for v in m], str(m[-1])]")
    assert notebook["seen"] == [True, 1.0, ["1", "--", "3"], "3"]
