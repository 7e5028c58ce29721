"""In plain cells, results without axes of tensors that a `%%jmars` cell made are NumPy's scalars."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.errors import UnsupportedError
from jmars.tensor import Tensor

CELL = """%%jmars
y = np.arange(40_000.0).reshape(200, 200)[:, ::-1] + 0
small = np.ones((2, 3)) * 4
masked = np.ma.masked_less(y, 3)
record = np.zeros(3, [("a", "i4")])
class Box: pass
box = Box()
box.held = [y * 2]
"""


@pytest.fixture
def made(notebook):
    notebook("import numpy as np")
    notebook(CELL)
    return notebook


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("y.mean()", np.float64),
        ("np.sum(y)", np.float64),
        ("y[3, 4]", np.float64),
        ("y[3][4]", np.float64),
        ("(y > 5).any()", np.bool),
        ("y.argmax()", np.int64),
        ("np.linalg.norm(y)", np.float64),
        ("small.sum()", np.float64),
        ("box.held[0].max()", np.float64),
        ("(np.sqrt(y) + 1)[2:].T.sum(axis=0)[3]", np.float64),
        ("masked.mean()", np.float64),
        ("masked[0, 199]", type(np.ma.masked)),
        ("masked[0, 0]", np.float64),
        ("y[y > 7].sum()", np.float64),
        ("record['a'].sum()", np.int64),
    ],
)
def test_a_result_without_axes_is_numpys_scalar(made, text, kind):
    found = made(text)
    assert type(found) is kind
    y = np.arange(40_000.0).reshape(200, 200)[:, ::-1]
    box = type("Box", (), {"held": [y * 2]})
    names = {"y": y, "small": np.ones((2, 3)) * 4, "box": box, "masked": np.ma.masked_less(y, 3), "np": np}
    assert found is np.ma.masked or found == pytest.approx(eval(text, names | {"record": np.zeros(3, [("a", "i4")])}))


def test_results_in_tuples_are_scalars_too(made):
    found = made("np.linalg.slogdet(y[:2, :2] + np.eye(2)), np.unravel_index(y.argmax(), y.shape), divmod(y[0, 0], 2)")
    kinds = [[type(one) for one in part] for part in found]
    assert kinds == [[np.float64] * 2, [np.int64] * 2, [np.float64] * 2]
    assert type(found[0]).__name__ == "SlogdetResult"


def test_results_with_axes_and_records_stay_tensors(made):
    assert type(made("y.sum(axis=0)")) is Tensor
    assert type(made("y.sum(keepdims=True)")) is Tensor
    assert type(made("record[0]")) is Tensor


def test_json_pandas_and_classes_take_the_results(made):
    assert made("import json\njson.dumps({'m': y.max()})") == json.dumps({"m": 39999.0})
    assert made("import pandas as pd\npd.Series([y.max(), y[0, 0]]).to_json()") == '{"0":39999.0,"1":199.0}'
    assert made("pd.DataFrame({'m': [y.mean()]}).dtypes['m']") == np.float64
    assert made("isinstance(y.mean(), np.floating), {y.max(): 1}") == (True, {39999.0: 1})


def test_pandas_json_of_lazy_elements_ends_with_an_error():
    with pytest.raises((ValueError, OverflowError), match=r"[Uu]nsupported|recursion"):
        pd.Series([mt.arange(100.0).max()]).to_json()


def test_tensors_of_programs_and_lazy_cells_stay_lazy(made):
    assert type(made("import jmars.tensor as mt\nmt.arange(5).sum()")) is Tensor
    made("%%jmars --lazy\nlater = y + 1")
    assert type(made("later.sum()")) is Tensor
    with config.using(local_seconds=0):
        made("%%jmars\nkinds = [type(small.sum()), type((y + 1)[0, 0])]")
    assert made["kinds"] == [Tensor] * 2


def test_a_call_with_a_tensor_of_a_cell_leaves_a_tensor_of_a_program_lazy(made):
    made("import jmars.tensor as mt\np = mt.ones((200, 200))")
    made("both = np.broadcast_arrays(y, p); p += y; np.add(y, p, out=p)")
    assert made("[type(one.sum()) for one in (*both, p, p + y)]") == [np.float64, Tensor, Tensor, np.float64]


def test_writes_in_plain_cells_reach_the_tensor(made):
    made("small[0] = y.mean(); small[1, 1] += small[0, 0]; small -= small.min()")
    here = np.ones((2, 3)) * 4
    here[0] = 19999.5
    here[1, 1] += here[0, 0]
    np.testing.assert_array_equal(made["small"].fetch(), here - here.min())
    made("zero = small[0, 0:1].reshape(()); zero[()] = 7; zero[...] = zero + 1")
    assert made["small"][0, 0] == 8


def test_a_part_whose_whole_is_gone_gives_scalars(made):
    made("row = y[3]\ndel y, masked, box")
    assert type(made("row.sum()")) is np.float64


def test_numbers_pass_through_execute_and_are_not_planned(made):
    made("import jmars")
    assert made("jmars.execute(y.mean(), y.max())") == (19999.5, 39999.0)
    with pytest.raises(TypeError, match="%jmars plan"):
        jmars.plan_of(np.float64(1))


SHUFFLES = ["np.random.default_rng(0).shuffle(rows)", "np.random.shuffle(rows)", "%%jmars\nrng.shuffle(rows)"]


@pytest.mark.filterwarnings("ignore:you are shuffling")
@pytest.mark.parametrize("text", SHUFFLES)
def test_numpys_shuffle_of_rows_is_refused_before_it_loses_some(made, text):
    made("rng = np.random.default_rng(0)")
    made("%%jmars\nrows = np.arange(20.0).reshape(10, 2) + 0\nline = np.arange(10) + 0")
    failed = made.run(text)
    assert isinstance(failed.error, UnsupportedError)
    assert "rng.permutation(x)" in failed.text
    np.testing.assert_array_equal(made["rows"].fetch(), np.arange(20.0).reshape(10, 2))
    assert sorted(made("rng.permutation(rows)")[:, 1]) == list(range(1, 20, 2))
    made("%%jmars\nnp.random.default_rng(0).shuffle(rows)")
    made(text.replace("rows", "line"))  # elements are no views
    assert sorted(made["line"]) == list(range(10)) and sorted(made["rows"].fetch()[:, 0]) == list(range(0, 20, 2))
    made("rows[0], rows[1:3] = rows[5], rows[3:5]")  # by statements, as in NumPy
    made("rows[:5] = rows[5:]")
    made("import operator\noperator.setitem(rows, slice(1, None), rows[:-1])")  # no shuffle writes slices


@pytest.mark.filterwarnings("ignore:you are shuffling")
@pytest.mark.parametrize("text", SHUFFLES[:2])
def test_numpys_shuffle_of_records_and_masked_rows_is_refused(made, text):
    made("%%jmars\nrecords = np.zeros(9, [('a', 'i4')])\nrecords['a'] = np.arange(9)")
    made("%%jmars\nparts = np.ma.masked_less(np.arange(20.0).reshape(10, 2), 4)")
    for name in ("records", "parts"):
        assert isinstance(made.run(text.replace("rows", name)).error, UnsupportedError)
    np.testing.assert_array_equal(made["records"]["a"].fetch(), np.arange(9))
    np.testing.assert_array_equal(made["parts"].fetch().filled(0)[2:], np.arange(4.0, 20).reshape(8, 2))
    made("records[0], parts[0] = records[1], parts[3]")  # by statements, as in NumPy
    assert (made["records"]["a"].fetch()[0], made["parts"].fetch()[0, 0]) == (1, 6)


THREAD = """import queue, threading
def answer():
    for text in iter(texts.get, "end"):
        try:
            found.append(type(eval(text)).__name__)
        except Exception as error:
            found.append(repr(error))
        texts.task_done()
texts, found = queue.Queue(), []
thread = threading.Thread(target=answer, daemon=True)
thread.start()
"""


def test_another_thread_of_the_kernel_gets_scalars_while_a_cell_runs(made):
    made(THREAD)
    made("import jmars.tensor as mt\nprogram = mt.ones(2_000_000)")
    made("%%jmars\nbig = np.ones((900, 1000)) + 1")
    texts = ["y.mean()", "big.mean()", "big[3, 4]", "np.sum(big)", "(big.T + 1)[2].max()", "np.linalg.norm(big)"]
    of_program = ["program.sum()", "mt.ones(2_000_000).sum()"]
    made(f"""%%jmars
for text in {texts + of_program}:
    texts.put(text)
texts.join()
def look():
    kinds.append(type(np.ones(900_000).sum()).__name__)
kinds = []
look()
own = threading.Thread(target=look)
own.start()
own.join()
texts.put("end")""")
    assert made["found"] == ["float64"] * len(texts) + ["Tensor"] * len(of_program)
    assert made["kinds"] == ["Tensor", "Tensor"]  # in threads of the cell they stay lazy
