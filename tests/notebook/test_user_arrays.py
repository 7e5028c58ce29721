"""NumPy arrays that a `%%jmars` cell writes: all names, views and containers show what NumPy would show."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.client import sent_graphs
from jmars.config import config
from jmars.errors import ArrayChangedError, UnsupportedError
from jmars.notebook import user_arrays
from jmars.notebook.user_arrays import host_of, path_to
from jmars.tensor import Tensor, from_array
from jmars.tensor.small_values import small_values

SETUP = """import numpy as np
a = np.arange(24.0).reshape(4, 6)
same, row, column, flat, turned, back = a, a[1], a[:, 2], a.ravel(), a.T, a[::-2, 4:1:-1]
held = {'a': a, 'rows': [a[0], a[3]]}
other = np.ones(6)"""
WRITES = [
    "a[1] += 10",
    "same *= 2",
    "row -= row.mean()",
    "column[:] = row[0]",
    "flat[::5] = -1; flat.sum()",
    "turned[0] = 7; a[:, 0].sum()",
    "back[...] = back[::-1] + other[0]; row.sum()",
    "left, right = a[:, :-2], a[:, 2:]\na[:, 1:-1] = left + right\nmiddle = a[1:3]",
    "row += 1\ncolumn += 1\nturned[3] = 0",
    "np.multiply(a, 2, out=a)",
    "part = a[2:]\npart[0] = 5\npart = part.T",
    "a = a + 1\nrow[0] = 3",
    "b = a\nb[0] = 0",
    "a.sort(axis=1)",
    "whole = held['a']",
    "a[0, 1] = np.nan\nfixed = np.nan_to_num(a, copy=False, nan=-1)\nfixed[3] = 4",
    "row[1] = np.inf\nnp.nan_to_num(row, copy=False)",
    "cast = column.astype('f8', copy=False)\ncast[1:] = 8",
    "wide = np.array(row, copy=None, ndmin=2)\nwide[0, ::2] = 6",
    "np.ma.masked_greater(back, 9, copy=False).data[0] = 2",
    "diagonal = np.einsum('ii->i', a[:, :4])\ndiagonal *= 3",
]


PARTS = [
    "a[1, 2] = 5.0",
    "a[1, 2] += a[3, 3]",
    "row[0] = 1; row[1] = row[0] + 2; total = a[1, :2].sum()",
    "a[0] = a[2] * 2\na[2] = a[0, 1]\nprint(a[2, 3])",
    "a[2] = 1\nprint(a.sum())\na[3, 0] = a[2, 0]",
    "column[1] = 9; few = float(a[[1, 3]].sum()); one = float(a[1, 2])",
    "a[0, ::-2] = np.arange(3.0); last = a[0, 1:4][::-1].tolist()",
    "back[0, 0] = 3.0",
    "turned[2, 1:3] = -1\nfirst = column[1:3].sum()",
]


@pytest.fixture
def large(monkeypatch):
    """Has small arrays treated as large ones, of which parts are read and written."""
    for module in (from_array, user_arrays, sent_graphs):
        monkeypatch.setattr(module, "COPIED", 32)
    monkeypatch.setattr(from_array, "PARTS", 200)


@pytest.mark.parametrize("text", [*WRITES, *PARTS])
def test_large_arrays_show_what_numpy_shows(notebook, large, text):
    test_all_names_show_what_numpy_shows(notebook, text)


@pytest.mark.parametrize("text", WRITES)
def test_all_names_show_what_numpy_shows(notebook, text):
    expected = {}
    exec(f"{SETUP}\n{text}", expected)
    notebook(SETUP)
    notebook(f"%%jmars\n{text}")
    names = [name for name, value in expected.items() if isinstance(value, np.ndarray)]
    for name in names:
        assert np.array_equal(np.asarray(notebook[name]), expected[name]), name
        assert isinstance(notebook[name], Tensor) == (name == "a" and text.startswith("a = a + 1")), name
    for mine, its in zip(notebook["held"]["rows"], expected["held"]["rows"], strict=True):
        assert np.array_equal(mine, its)
    for one in names:
        for two in names:
            if not isinstance(notebook[one], Tensor) and not isinstance(notebook[two], Tensor):
                assert np.shares_memory(notebook[one], notebook[two]) == np.shares_memory(expected[one], expected[two])


def test_a_failed_cell_writes_nothing(notebook):
    notebook(SETUP)
    assert isinstance(notebook.run("%%jmars\na[0] = 100\nrow += 1\n1 / 0").error, ZeroDivisionError)
    assert np.array_equal(notebook["a"], np.arange(24.0).reshape(4, 6))


def test_a_view_writes_in_the_next_cell_too(notebook):
    notebook(SETUP)
    notebook("%%jmars\npart = a[2:, 1:]")
    notebook("%%jmars\npart += 100")
    assert notebook["part"].base is not None and notebook["a"][2, 1] == 113 and notebook["a"][2, 0] == 12


def test_another_shape_is_that_of_the_name(notebook):
    notebook(SETUP)
    notebook("%%jmars\na.shape = 24\na[3] = 99")
    assert notebook["a"].shape == (24,) and notebook["row"].shape == (6,) and notebook["flat"][3] == 99


def test_arrays_that_are_read_only_refuse_as_numpy_does(notebook):
    notebook("import numpy as np\na = np.arange(6.0)\na.flags.writeable = False")
    assert "assignment destination is read-only" in str(notebook.run("%%jmars\na[0] = 1").error)
    notebook("b = np.arange(4.0).reshape(2, 2)\nd = np.diagonal(b)")
    assert "is read-only" in str(notebook.run("%%jmars\nb[0] = 1\nd[0] = 5").error)
    notebook("%%jmars\nb[0] = 1\ntotal = d.sum()")
    assert notebook["d"].tolist() == [1, 3] and float(notebook["total"]) == 4
    notebook("%%jmars\ne = d[::-1]")
    assert not notebook["e"].flags.writeable and np.shares_memory(notebook["e"], notebook["b"])


@pytest.mark.parametrize("line", ["a.flags.writeable = False", "a.setflags(write=False)", "a.flags['W'] = False"])
def test_an_array_that_a_cell_made_read_only_stays_so(notebook, line):
    notebook(SETUP)
    notebook(f"%%jmars\na[0, 0] = 7\n{line}\npart = a[1:]")
    assert notebook["a"][0, 0] == 7 and not notebook["a"].flags.writeable and not notebook["part"].flags.writeable
    assert notebook["row"].flags.writeable  # a view made before
    assert "assignment destination is read-only" in str(notebook.run("%%jmars\na[0, 0] = 1").error)
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        notebook["a"][0, 0] = 1
    notebook("%%jmars\na.flags.writeable = True\na[0, 0] = 8")
    assert notebook["a"][0, 0] == 8 and notebook["a"].flags.writeable
    assert notebook.run(f"%%jmars\nt = a + 1\n{line}\n1 / 0").error and notebook["a"].flags.writeable
    notebook("%%jmars\nt = a + 1")
    assert notebook.run("%%jmars\nt.flags.writeable = False\n1 / 0").error and notebook["t"].flags.writeable


def test_memory_that_is_shared_in_another_way_is_named(notebook):
    notebook("import numpy as np\na = np.arange(6.0)\nbits = a.view('i8')")
    notebook("%%jmars\ntotal = a.sum() + bits.sum()")
    error = notebook.run("%%jmars\na[0] = bits[1]").error
    assert isinstance(error, UnsupportedError) and "writes to 'a' and mentions 'bits'" in str(error)
    assert notebook["a"][0] == 0


@pytest.mark.parametrize(
    ("other", "cell", "message"),
    [
        ("b = a.view('i8')", "b[0] = 7\ny = a.sum()", "mentions 'a'"),
        ("b = np.ma.array(a, copy=False)", "a[0] = 5\ny = b.sum()", "writes to 'a' and mentions 'b'"),
        ("b = np.lib.stride_tricks.as_strided(a, (3, 3), (8, 8))", "b[0, 1] = 5", "share memory with one another"),
        ("z = np.zeros(3, complex); b = z.real", "b[0] = 5\ny = z.sum()", "writes to 'b' and mentions 'z'"),
    ],
)
def test_writes_that_others_would_not_see_are_refused(notebook, other, cell, message):
    notebook(f"import numpy as np\na = np.arange(6.0)\n{other}")
    error = notebook.run("%%jmars\n" + cell).error
    assert isinstance(error, UnsupportedError) and message in str(error)
    assert notebook["a"].tolist() == [0, 1, 2, 3, 4, 5]


def test_parts_without_common_elements_are_written_beside_each_other(notebook):
    notebook("import numpy as np\na = np.arange(12.0)\nodd, even, few = a[1::2], a[::2], a[:4:2]\ndel a")
    notebook("%%jmars\neven += 10\nfew[1] += odd[0]")
    assert notebook["even"].tolist() == [10, 13, 14, 16, 18, 20] and notebook["few"].tolist() == [10, 13]


def test_views_in_lists_and_dicts_are_views_of_the_array_afterwards(notebook):
    notebook("import numpy as np\na = np.zeros(6)")
    notebook(
        "%%jmars\npair = a[:1], 1\nsame = pair\nparts = [a[:2], (a[2:], 1)]\nd = {'x': a, 'sum': a.sum()}\na[5] = 2"
    )
    notebook("%%jmars\nfor part in parts[0], parts[1][0]:\n    part += 1")
    assert notebook["a"].tolist() == [1, 1, 1, 1, 1, 3] and notebook["d"]["x"] is notebook["a"]
    assert type(notebook["d"]["sum"]) is np.float64
    assert notebook["same"] is notebook["pair"] and isinstance(notebook["pair"][0], np.ndarray)


def test_records_with_bytes_between_their_fields_are_written(notebook):
    notebook("import numpy as np\nr = np.zeros(30000, np.dtype([('a', 'i1'), ('b', 'f8')], align=True))")
    notebook("%%jmars\nr['b'][1] = 4")
    assert notebook["r"]["b"][:3].tolist() == [0, 4, 0]


def test_a_record_of_an_array_is_numpys_record_after_the_cell(notebook):
    notebook("import numpy as np\nr = np.array([(1, 'x'), (5, 'y')], [('a', 'i4'), ('n', 'U4')])")
    notebook("%%jmars\noldest = r[r['a'].argmax()]\nboth = [r[0], oldest]")
    assert type(notebook["oldest"]) is type(notebook["both"][0]) is np.void and notebook["oldest"]["n"] == "y"
    notebook["oldest"]["a"] = 7  # of the array's memory, as in NumPy
    assert notebook["r"]["a"].tolist() == [1, 7]


def test_writes_of_other_code_meanwhile_are_not_lost(notebook):
    notebook("import numpy as np\na = np.arange(6.0)\nrows = [a]")
    ran = notebook.run("%%jmars\nx = 1\na[0] = 1\nrows[0][1] = 5")
    assert isinstance(ran.error, ArrayChangedError) and "'a', and so did other code" in str(ran.error)
    assert "----> 3 a[0] = 1" in ran.text and "run_cell_magic" not in ran.text
    assert notebook["a"].tolist() == [0, 5, 2, 3, 4, 5]


def test_a_file_in_memory_is_written(notebook, tmp_path):
    notebook(f"import numpy as np\nm = np.memmap({str(tmp_path / 'm')!r}, 'i4', 'w+', shape=(3, 4))")
    notebook("%%jmars\nm[1] += 7")
    notebook["m"].flush()
    assert np.fromfile(tmp_path / "m", "i4").tolist() == [0] * 4 + [7] * 4 + [0] * 4


def test_bytes_in_another_order_stay_so(notebook):
    notebook("import numpy as np\na = np.arange(6, dtype='>i4')\nhalf = a[::2]")
    notebook("%%jmars\na += 1\nhalf[0] = 50")
    assert notebook["a"].dtype == np.dtype(">i4") and notebook["half"].tolist() == [50, 3, 5]


@pytest.mark.parametrize(
    "text",
    ["x[5]", "x[:-2, 0]", "x[3:, 1][::2]", "turned[2]", "x[7].reshape(5, 200)", "x[::300].T", "flat[4:9]", "x[5, 3]"],
)
def test_small_parts_of_a_large_array_make_no_node(monkeypatch, text):
    array = np.arange(1_500_000.0).reshape(1500, 1000)
    expected = eval(text, {"x": array, "turned": array.T, "flat": array.reshape(-1)})
    x = user_arrays.UserArrays().enter([("x", array, None)])["x"]
    with small_values():
        names = {"x": x, "turned": x.T, "flat": x.reshape(-1)}
        monkeypatch.setattr("jmars.tensor.operand.TensorData", None)
        found = eval(text, names)
        assert (found * 2).sum() == (expected * 2).sum() and np.shape(found) == expected.shape
        if found.ndim:
            assert found._place._node is None
            monkeypatch.undo()
            assert found.strides == expected.strides
            with pytest.raises(ValueError, match="read-only"):
                found._place.memory[0] = 1
    assert array.flags.writeable


def test_small_parts_of_a_large_array_follow_writes(notebook):
    body = """row, column = x[5], x[:, 3]
before = column[:9].tolist(), float(row.sum())
column += 1
x[5, 0] = -1
after = float(row.sum()), float(column.sum()), float(x[5, 3]), x[5, :9].tolist()"""
    notebook("import numpy as np\nx = np.arange(1_500_000.0).reshape(1500, 1000)\ny = x.copy()")
    notebook(body.replace("x", "y"))
    expected = notebook["before"], notebook["after"]
    notebook("%%jmars\n" + body)
    assert (notebook["before"], notebook["after"]) == expected
    assert np.array_equal(notebook["x"], notebook["y"]) and notebook["row"].base is notebook["x"].base


def test_steps_are_found_or_none():
    base = np.arange(120).reshape(4, 5, 6)
    for view in [base[1], base[:, 2, ::-1], base[3:0:-2, :, 1:2], base.transpose(2, 0, 1)[1:], base.reshape(20, 6),
                 base.ravel()[7:90:3], base[2, 3, 4:5], base[:, None, 1], base.reshape(2, 60)[:, 5:]]:  # fmt: skip
        path = path_to(base, view)
        assert path is None or np.array_equal(path(base), view)
        assert path is not None or view.shape == (2, 55)
    six = np.arange(6)
    for view in (six.reshape(-1, 2)[::2], six.reshape(3, 2)[::-2, 1], six.reshape(2, 3)[1, 1:]):
        assert np.array_equal(path_to(six, view)(six), view)
    assert path_to(base[1:2], base[2]) is None and path_to(base, base.view("f8")) is None
    odd = np.lib.stride_tricks.sliding_window_view(base[0, 0], 3)
    assert path_to(base, odd) is None
    left, right = np.zeros(10)[:7], np.zeros(10)[3:]
    assert host_of([left]) is left and host_of([base[1], base[:2]]).shape == (120,)
    assert host_of([left, right]) is left.base


def test_a_cell_without_computation_gives_its_name_a_tensor(notebook):
    notebook(SETUP)
    notebook("%%jmars --lazy\na[0] += 1\nthird = a[2]")
    assert isinstance(notebook["a"], Tensor) and isinstance(notebook["third"], Tensor)
    assert notebook["a"].fetch()[0].tolist() == [1, 2, 3, 4, 5, 6]
    assert notebook["same"][0].tolist() == [0, 1, 2, 3, 4, 5]


def test_large_arrays_are_written_too(notebook, monkeypatch):
    monkeypatch.setattr("jmars.tensor.from_array.COPIED", 0)
    monkeypatch.setattr("jmars.notebook.user_arrays.MAX_BASE_BYTES", 0)
    notebook(SETUP)
    notebook("%%jmars\ny = a + 1\nrow += 10\na[0] = y[1]")
    expected = np.arange(24.0).reshape(4, 6)
    assert np.array_equal(notebook["y"], expected + 1)
    assert notebook["a"][0].tolist() == (expected[1] + 1).tolist()
    assert notebook["row"].tolist() == [16, 17, 18, 19, 20, 21]


def test_a_loop_writes_to_parts_of_a_large_array(notebook):
    notebook("import numpy as np\na = np.zeros((2000, 400))\nv = a[30]")
    notebook("%%jmars\nfor t in range(1, 40): a[t] = a[t - 1] * 0.5 + 1\ntotal = a.sum()")
    expected = np.zeros((2000, 400))
    for t in range(1, 40):
        expected[t] = expected[t - 1] * 0.5 + 1
    assert np.array_equal(notebook["a"], expected) and np.array_equal(notebook["v"], expected[30])
    notebook("%%jmars\na[0] = 7\nfor t in range(1, 40): a[t] = a[t - 1] + v[0]\na[1, 0] = -1")
    np.testing.assert_allclose(notebook["a"][39, 0], 10 * (7 + 30 * expected[30, 0]))  # the row of v grows
    assert notebook.run("%%jmars\nfor t in range(1, 40): a[t] = a[t - 1] * 0\n1 / 0").error and notebook["a"][2, 0] > 7


def test_an_empty_array_that_a_cell_reads_may_be_written_afterwards(notebook):
    notebook("import numpy as np\na = np.zeros(2)[1:1]")
    notebook("%%jmars\nb = np.isinf(a)")
    assert notebook("a.flags.writeable")
    notebook("%%jmars\nc = np.maximum(-2.0, a, out=a.T)")
    assert notebook["a"].shape == (0,)


@pytest.mark.parametrize(
    "make", ["np.atleast_1d(words, 1.0)[0]", "np.squeeze(words[None])", "np.broadcast_arrays(words, words)[1]",
             "np.ravel(words)", "np.diag(words[None])", "np.real_if_close(words)"],
)  # fmt: skip
@pytest.mark.parametrize("length", [3, 500_000])
def test_a_view_of_an_array_of_text_is_a_view_of_the_users_array(notebook, make, length):
    notebook(f"import numpy as np\nwords = np.full({length}, 'ab')")
    notebook(f"%%jmars\nview = {make}")
    notebook("%%jmars\nnp.putmask(words, words == 'ab', 'c')")
    assert notebook["view"].dtype == "U2" and set(notebook["view"].ravel().tolist()) == {"c"}


def test_an_empty_array_of_text_that_a_function_gives_back_stays_writeable(notebook):
    notebook("import numpy as np\nwords = np.zeros((0, 4), 'S3')")
    notebook("%%jmars\nsame = np.atleast_2d(words)")
    assert notebook["words"].flags.writeable and notebook["same"] is notebook["words"]


def test_functions_of_vectors_broadcast_axes_before_the_last(notebook):
    notebook("import numpy as np\na = np.zeros((2, 0, 3))")
    notebook("%%jmars\nfound = np.vecmat([], a)")
    assert notebook["found"].tolist() == [[0.0] * 3] * 2


def test_members_among_elements_of_unknown_number_are_found(notebook):
    notebook("import numpy as np\nb = np.array([2, 2, 2, -1, 2, 0], 'f2').reshape(3, 2)")
    with config.using(chunk_size_limit=4):
        notebook("%%jmars\nfound = np.intersect1d(b, 2, return_indices=True)")
        notebook("%%jmars\nnone = np.intersect1d(b, 3, return_indices=True)")
    assert [one.tolist() for one in notebook["found"]] == [[2], [0], [0]]
    assert [one.tolist() for one in notebook["none"]] == [[], [], []]
