"""Masked arrays, records and text in `%%jmars` cells; a cell that fails leaves masked arrays as they were."""

from __future__ import annotations

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor import Tensor
from jmars.tensor.ma.handle import MaskedTensor


def test_a_cell_of_masked_arrays_gives_what_numpy_gives(notebook):
    notebook("import numpy as np\nimport numpy.ma as ma\nfrom numpy.ma import masked_where\na = np.arange(12.0)")
    text = (
        "b = np.ma.masked_greater(a, 7) * 2 + 1\nc = masked_where(a == 3, a)\nd = ma.masked_array(a, mask=a < 2)\n"
        "b[1] = np.ma.masked\ntotals = [b.mean(), np.sum(c), d.std()]"
    )
    notebook(text)
    wanted = {name: notebook[name] for name in "bcd"}, notebook["totals"]
    notebook("del b, c, d, totals")
    notebook("%%jmars\n" + text)
    for name, value in wanted[0].items():
        assert type(notebook[name]) is MaskedTensor
        found = notebook[name].fetch()
        np.testing.assert_array_equal(found.filled(-1), value.filled(-1))
        np.testing.assert_array_equal(found.mask, value.mask)
    np.testing.assert_allclose([float(one) for one in notebook["totals"]], wanted[1])
    assert notebook["ma"] is np.ma and notebook["masked_where"] is np.ma.masked_where


def test_numpys_masked_arrays_enter_a_cell_with_their_mask(notebook):
    notebook("import numpy as np\na = np.ma.masked_less(np.arange(6), 3)\na.fill_value = 7")
    value = notebook("%%jmars\nb = a + 1\nb.sum()")
    assert int(value) == 15 and type(notebook["a"]) is np.ma.MaskedArray
    assert notebook["b"].fetch().tolist() == [None, None, None, 4, 5, 6] and notebook["b"].fill_value == 7


def test_after_an_error_a_masked_array_is_as_before(notebook):
    notebook("%%jmars\nimport numpy as np\nx = np.ma.array(np.arange(4)); y = np.ma.masked_less(np.arange(4), 2)")
    ran = notebook.run("%%jmars\nx[0] = np.ma.masked; y[3] = 9; y.fill_value = 5\n1 / 0")
    assert isinstance(ran.error, ZeroDivisionError)
    assert notebook["x"].mask is np.ma.nomask
    assert notebook["y"].fetch().tolist() == [None, None, 2, 3] and notebook["y"].fill_value == 999999


def test_a_masked_array_that_the_cell_writes_to_is_written_in_place(notebook):
    start = (
        "import numpy as np\na = np.ma.array([1.0, 2, 3, 4], mask=[0, 1, 0, 0]); b = np.ma.array([1, 2, 3])\n"
        "again, view, kept = a, a[1:], {'a': a}"
    )
    text = "a += 1\na[3] = np.ma.masked\na.fill_value = 5.0\na.harden_mask()\nb[0] = np.ma.masked\nmine = [a]"
    names: dict[str, object] = {}
    exec(start + "\n" + text, names)
    notebook(start)
    before = notebook["a"]
    notebook("%%jmars\n" + text)
    assert notebook["a"] is notebook["again"] is notebook["kept"]["a"] is notebook["mine"][0] is before
    for name in ("a", "b", "view"):
        ours, theirs = notebook[name], names[name]
        assert type(ours) is np.ma.MaskedArray and ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.data, theirs.data)
        np.testing.assert_array_equal(np.ma.getmaskarray(ours), np.ma.getmaskarray(theirs))
        assert ours.fill_value == theirs.fill_value and ours.hardmask == theirs.hardmask


def test_a_write_to_a_masked_array_with_two_names_is_refused_by_both(notebook):
    notebook("import numpy as np\ndata = np.arange(4.0)\na = np.ma.array(data, mask=[0, 1, 0, 0])\nrest = a[1:]")
    for other in ("data", "rest"):
        ran = notebook.run(f"%%jmars\na += 1\ns = {other}.sum()")
        assert isinstance(ran.error, UnsupportedError) and f"'{other}', which shares its memory" in str(ran.error)
    assert notebook["data"].tolist() == [0, 1, 2, 3]
    notebook("%%jmars\na += 1")
    assert notebook["data"].tolist() == [1, 1, 3, 4]


def test_records_and_text_in_a_cell(notebook):
    notebook(
        "import numpy as np\nr = np.zeros(4, [('n', 'U3'), ('h', 'f8')])\nr['h'] = range(4); t = np.array(['a', 'bc'])"
    )
    text = "high = r[r['h'] > 1]\nhigh['n'] = 'x'\nup = np.strings.upper(high['n'])\ntotal = high['h'].sum()"
    notebook("%%jmars\n" + text)
    assert type(notebook["r"]) is np.ndarray and type(notebook["up"]) is Tensor
    assert notebook["up"].fetch().tolist() == ["X", "X"] and float(notebook["total"]) == 5.0
    notebook("%%jmars\nlengths = {word: len(word) for word in t}\nlong = np.char.str_len(t)")  # text stays an array
    assert notebook["lengths"] == {"a": 1, "bc": 2} and notebook["long"].fetch().tolist() == [1, 2]


def test_another_shape_and_a_write_in_one_cell(notebook):
    notebook("import numpy as np\nm = np.ma.array(np.arange(6.0), mask=[0, 1, 0, 0, 1, 0])")
    notebook("%%jmars\nm.shape = (2, 3)\nm[0, 2] = 9\nm[1] += 1")
    assert notebook["m"].fetch().tolist() == [[0, None, 9], [4, None, 6]]
