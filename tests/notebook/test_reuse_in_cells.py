"""A cell that runs again computes what has changed, and its values are those of a fresh kernel."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import kept_values
from jmars.client.cluster import Cluster, default_cluster
from jmars.client.kept_values import KeptValues
from jmars.client.sent_graphs import Retained
from jmars.config import config
from jmars.tensor.ops import npy
from jmars.tensor.structure import detach
from jmars.tensor.tensor import Tensor
from tests.notebook.shells import Notebook, new_shell

SETUP = "%load_ext jmars\nimport numpy as np\nimport jmars.tensor as mt"


@pytest.fixture(scope="module")
def shell_of_module() -> Iterator[Notebook]:
    with new_shell() as shell, config.using(display="text"):
        started = Notebook(shell)
        started(SETUP)
        started("%%jmars -w 1 --memory 512MiB\nnp.zeros(3)")
        yield started
        started("%jmars stop")


@pytest.fixture
def notebook(shell_of_module: Notebook, only_jobs: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """One whose files are old enough to have stamps, with a cluster that keeps nothing of other tests."""
    monkeypatch.setattr(npy, "FRESH", 0.0)
    monkeypatch.setattr(kept_values, "LEAST_SAVED", -math.inf)
    before = dict(shell_of_module.shell.user_ns)
    cluster().forget()
    yield shell_of_module
    reset(shell_of_module, before)


def cluster() -> Cluster:
    found = default_cluster(start=False)
    assert found is not None
    return found


def reset(notebook: Notebook, names: dict[str, object]) -> None:
    notebook.shell.user_ns.clear()
    notebook.shell.user_ns.update(names)


CELL = """%%jmars
x = mt.load(path, chunk_size=(100, 100))
y = np.sqrt(np.abs(np.sin(x) * 3.0))
z = y.sum(axis=0)
w = z.max() + 1.0
"""


def save(path: Path, seed: int) -> str:
    np.save(path, np.random.default_rng(seed).random((200, 100)))
    return str(path)


def test_an_unchanged_cell_is_not_computed_again(notebook, tmp_path):
    notebook.shell.user_ns["path"] = save(tmp_path / "a.npy", 0)
    notebook(CELL)
    value, jobs = notebook["w"], len(cluster().jobs())
    assert "jmars: 4 values reused" in notebook.run(CELL).text
    assert notebook["w"] == value and len(cluster().jobs()) == jobs
    assert "jmars: 3 values reused" in notebook.run(CELL.replace("+ 1.0", "+ 2.0")).text
    assert notebook["w"] == value + 1
    assert "jmars: 4 values reused" in notebook.run(CELL).text  # as before the last edit
    assert notebook["w"] == value


def test_a_file_that_changed_in_place_is_read_again(notebook, tmp_path):
    path = notebook.shell.user_ns["path"] = save(tmp_path / "a.npy", 0)
    notebook(CELL)
    before = notebook["w"]
    save(tmp_path / "a.npy", 1)
    assert "reused" not in notebook.run(CELL).text
    assert notebook["w"] != before
    with open(path, "r+b") as file:
        file.seek(-8, 2)
        file.write(np.float64(7.0).tobytes())
    assert "reused" not in notebook.run(CELL).text
    assert notebook["x"].fetch()[-1, -1] == 7.0


def test_a_file_that_is_mapped_for_writing_is_read_again(notebook, tmp_path):
    path = notebook.shell.user_ns["path"] = save(tmp_path / "a.npy", 0)
    memory = np.load(path, mmap_mode="r+")
    for number in range(3):
        memory[0, 0] = number
        assert "reused" not in notebook.run(CELL).text
        assert notebook["x"].fetch()[0, 0] == number


def test_a_file_that_was_just_written_has_no_stamp(notebook, tmp_path, monkeypatch):
    monkeypatch.undo()
    notebook.shell.user_ns["path"] = save(tmp_path / "a.npy", 0)
    with config.using(local_seconds=0):
        notebook(CELL)
        assert "reused" not in notebook.run(CELL).text


def test_an_array_that_changed_in_place_has_other_values(notebook):
    notebook("a = np.arange(20_000.0)")
    cell = "%%jmars\nb = np.sqrt(a) + 1\ns = b.sum()"
    notebook(cell)
    before = notebook["s"]
    assert "jmars: 2 values reused" in notebook.run(cell).text
    notebook("a[5] = 1000_000.0")
    assert "reused" not in notebook.run(cell).text
    assert notebook["s"] > before + 900


@pytest.mark.parametrize("size", [20_000, 3_000_000])
def test_arrays_of_equal_content_have_equal_values(notebook, size):
    cell = f"%%jmars\na = np.asarray(np_arange({size}))\nb = a * 2"
    notebook.shell.user_ns["np_arange"] = lambda n: np.arange(float(n))
    notebook(cell)
    assert "reused" in notebook.run(cell).text
    assert notebook["b"].fetch()[7] == 14.0


def test_functions_of_users_are_called_again_unless_they_are_pure(notebook):
    notebook("k = 1\ndef f(block):\n    return block + k")
    cell = "%%jmars\nx = mt.arange(20_000.0, chunk_size=10_000)\ny = mt.map_blocks(f, x, dtype=float{})\nz = y.sum()"
    notebook(cell.format(""))
    assert "jmars: 1 value reused" in notebook.run(cell.format("")).text  # x
    notebook(cell.format(", pure=True"))
    assert "jmars: 3 values reused" in notebook.run(cell.format(", pure=True")).text
    notebook("k = 2")
    assert "jmars: 1 value reused" in notebook.run(cell.format(", pure=True")).text
    assert notebook["y"].fetch()[0] == 2.0


def test_a_pure_function_of_equal_text_is_the_same_function(notebook):
    notebook("k = 1")
    function = "def f(block, *, by=0):\n    return (lambda b: b + k + by)(block)"
    cell = """%%jmars
x = mt.arange(20_000.0, chunk_size=10_000)
y = mt.map_blocks(f, x, dtype=float, pure=True, by={})
z = mt.from_blocks(lambda box: np.arange(20_000.0)[box] * {}, (20_000,), float, chunk_size=10_000, pure=True)
"""
    notebook(function)
    notebook(cell.format(1, 2))
    notebook("# the same in another place\n\n" + function)
    assert "3 values reused" in notebook.run("%%jmars\n\n" + cell.format(1, 2)[8:]).text
    assert "2 values reused" in notebook.run(cell.format(2, 2)).text
    assert "2 values reused" in notebook.run(cell.format(2, 3)).text
    notebook(function.replace("b + k", "b - k"))
    assert "2 values reused" in notebook.run(cell.format(2, 3)).text
    np.testing.assert_array_equal(notebook["y"].fetch(), np.arange(20_000.0) + 1)


def test_lengths_that_a_run_told_are_those_of_the_reused_value(notebook):
    cell = "%%jmars\nx = mt.arange(20_000.0, chunk_size=6000)\ny = x[x % 3 > 1]\nz = y[y > {}] * 2"
    notebook(cell.format(50))
    assert "jmars: 3 values reused" in notebook.run(cell.format(50)).text
    assert "jmars: 2 values reused" in notebook.run(cell.format(60)).text
    x = np.arange(20_000.0)
    y = x[x % 3 > 1]
    assert notebook["y"].shape == y.shape
    np.testing.assert_array_equal(notebook["z"].fetch(), y[y > 60] * 2)


def test_values_of_a_function_are_found_while_a_name_keeps_its_result(notebook):
    notebook("%%jmars\ny = mt.map_blocks(lambda b: b + 1, mt.arange(20_000.0, chunk_size=10_000), dtype=float)")
    cell = "%%jmars\nz = np.sqrt(y)\nz = z + 0.5"
    notebook(cell)
    assert "jmars: 1 value reused" in notebook.run(cell).text
    notebook("%%jmars\ny = mt.map_blocks(lambda b: b + 2, mt.arange(20_000.0, chunk_size=10_000), dtype=float)")
    assert "reused" not in notebook.run(cell).text


def test_a_lost_value_of_a_function_is_another_value(notebook):
    notebook("import time")
    made = "mt.map_blocks(lambda b: b * 0 + time.perf_counter(), mt.arange(20_000.0, chunk_size=10_000), dtype=float)"
    notebook(f"%%jmars\ny = {made}")
    notebook("%%jmars\nz = y + 1")
    cluster().lose(notebook["y"].data.key)  # as if its worker had died
    notebook["y"].fetch()
    notebook("%%jmars\nz = y + 1")
    np.testing.assert_array_equal(notebook["z"].fetch(), notebook["y"].fetch() + 1)


def test_draws_without_a_seed_are_drawn_again(notebook):
    cell = "%%jmars\nx = np.random.default_rng({}).random((200, 100))\ny = x + 1"
    notebook(cell.format(""))
    before = notebook["y"].fetch()
    assert "reused" not in notebook.run(cell.format("")).text
    assert (notebook["y"].fetch() != before).all()
    notebook(cell.format("5"))
    assert "jmars: 2 values reused" in notebook.run(cell.format("5")).text


def test_a_cell_that_warns_warns_again(notebook):
    notebook("a = np.arange(20_000.0)")
    cell = "%%jmars\nb = 1 / a"
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            notebook(cell)


def test_fresh_computes_all_and_later_cells_find_that(notebook, tmp_path):
    notebook.shell.user_ns["path"] = save(tmp_path / "a.npy", 0)
    notebook(CELL)
    key = notebook["y"].data.key
    assert "reused" not in notebook.run(CELL.replace("%%jmars", "%%jmars --fresh")).text
    fresh = notebook["y"].data.key
    assert fresh != key
    notebook(CELL)
    assert notebook["y"].data.key == fresh
    with config.using(reuse="off"):
        assert "reused" not in notebook.run(CELL).text
    cluster().forget()
    notebook(CELL)
    assert "reused" not in notebook.run("%%jmars\nq = mt.arange(20_000.0, chunk_size=10_000) * 2").text


def test_a_cell_that_binds_its_job_has_one(notebook):
    cell = "%%jmars{}\nq = mt.arange(20_000.0, chunk_size=10_000) * 2"
    notebook(cell.format(""))
    notebook(cell.format(" -o job"))
    assert notebook["job"].state == "succeeded"


def test_a_value_without_a_name_is_kept_for_the_next_run_and_goes_first(notebook):
    cell = "%%jmars\nif (np.arange(20_000.0) * {}).sum() > 0:\n    t = 1"
    notebook(cell.format(2))
    assert "jmars: 1 value reused" in notebook.run(cell.format(2)).text
    room = cluster().capacity // 4 // 8
    for number in range(12):
        notebook(f"%%jmars\nbig = mt.full({room // 3}, {number}.0, chunk_size={room // 30})")
    memory = cluster().info()["memory"]
    assert memory["resident"] <= memory["limit"]


def test_a_cancelled_or_failed_cell_leaves_nothing(notebook):
    notebook("a = np.arange(20_000.0)")
    cell = "%%jmars\nb = np.sqrt(a)\nc = mt.map_blocks(f, b, dtype=float)"
    notebook("def f(block):\n    raise KeyError('no')")
    assert isinstance(notebook.run(cell).error, KeyError)
    notebook("def f(block):\n    return block")
    ran = notebook.run(cell)
    assert ran.error is None and "reused" not in ran.text


def test_lost_chunks_of_a_reused_value_are_computed_again(notebook, tmp_path):
    notebook.shell.user_ns["path"] = save(tmp_path / "a.npy", 0)
    notebook(CELL)
    want = notebook["y"].fetch()
    notebook(CELL)
    found = cluster()
    found.tell("session", "drop", [notebook["y"].data.key, notebook["x"].data.key])  # as if their worker had died
    np.testing.assert_array_equal(notebook["y"].fetch(), want)
    found.tell("session", "drop", [notebook["y"].data.key])
    notebook("%%jmars\nv = y + 1")
    np.testing.assert_array_equal(notebook["v"].fetch(), want + 1)


# -- twenty notebooks, ten edits each

SOURCES = [
    "x = mt.load(path, chunk_size=(90, 100))",
    "x = mt.from_hdf5(hdf5, 'x', chunk_size=(90, 100))",
    "x = mt.asarray(a, chunk_size=(90, 100))",
    "x = np.random.default_rng(3).random((200, 100))",
    "x = a * 1.5",
]
STEPS = [
    "y = np.sqrt(np.abs(x * 2.0 - 1))",
    "y = np.sort(x, axis=0)",
    "y = x - x.mean(axis=1, keepdims=True)",
    "y = mt.map_blocks(f, x, dtype=float)",
    "y = mt.map_blocks(g, x, dtype=float, pure=True)",
    "y = np.where(x > 0.5, x, 0.25)",
    "y = x.T.copy()\ny[0] = 3.0\ny = y.T",
    "y = np.cumsum(x, axis=0)",
]
ENDS = [
    "z = y.sum(axis=0)\nw = z.max() + 1.0",
    "z = np.median(y, axis=1)\nw = float(z[0]) + 1.0",
    "z = y[y > 0.5]\nw = z.mean() * 2.0",
    "z = y[::3, 1:50] * 2.0\nw = z.std(axis=0)",
    "z = np.histogram(y, bins=10)[0]\nw = z.argmax()",
    "for k in range(2):\n    y = y * 0.5 + k\n    if y.max() > 1:\n        y = y - 1\nz = y\nw = z.min()",
]


class Book:
    """A notebook with two plain cells and two `%%jmars` cells, drawn from a seed."""

    def __init__(self, notebook: Notebook, folder: Path, seed: int) -> None:
        self.notebook, self.folder, self.draw = notebook, folder, random.Random(seed)
        self.path, self.hdf5, self.files = folder / "a.npy", folder / "a.h5", 0
        self.write_files(self.path)
        step, end = self.draw.choice(STEPS), self.draw.choice(ENDS)
        functions = "def f(block):\n    return block + 1.0\ndef g(block):\n    return block * 2.0"
        array = (
            f"path, hdf5 = {str(self.path)!r}, {str(self.hdf5)!r}\na = np.linspace(0, 3.0, 20_000).reshape(200, 100)"
        )
        self.cells = [array, functions, f"%%jmars\n{self.draw.choice(SOURCES)}\n{step}", f"%%jmars\n{end}"]
        self.empty = dict(notebook.shell.user_ns)

    def write_files(self, path: Path) -> None:
        h5py = pytest.importorskip("h5py")
        self.files += 1
        save(path, self.files)
        with h5py.File(self.hdf5, "w") as file:
            file["x"] = np.load(path)

    def edit(self) -> None:
        """Change a cell or a file, at random."""
        edits: list[Callable[[], None]] = [
            lambda: self.change(r"\d\.\d", lambda m: f"{float(m[0]) + 0.5}"),
            lambda: self.change(r"axis=[01]", lambda m: "axis=0" if m[0] == "axis=1" else "axis=1"),
            lambda: self.change(r"\Z", lambda m: f"\nextra{self.draw.randrange(9)} = y + {self.draw.randrange(3)}"),
            lambda: self.write_files(self.path),
            self.swap,
            self.path.touch,
            lambda: self.change(r"block [+*] \d\.\d", lambda m: f"block * {self.draw.randrange(1, 9)}.0", 1),
            lambda: self.change(r"\Z", lambda m: f"\na[{self.draw.randrange(99)}] += 1", 0),
            lambda: self.cells.__setitem__(2, self.cells[2].replace("default_rng(3)", "default_rng(4)")),
            lambda: None,
        ]
        self.draw.choice(edits)()

    def change(self, pattern: str, by: Callable[[re.Match[str]], str], cell: int | None = None) -> None:
        at = self.draw.choice((2, 3)) if cell is None else cell
        self.cells[at] = re.sub(pattern, by, self.cells[at], count=1)

    def swap(self) -> None:
        other = self.folder / "b.npy"
        save(other, 100 + self.files)
        other.replace(self.path)

    def run(self) -> dict[str, object]:
        """Run all cells; the values of the names that the `%%jmars` cells bind."""
        for cell in self.cells:
            self.notebook(cell)
        found = {name: self.notebook[name] for name in sorted(set(self.notebook.shell.user_ns) - set(self.empty))}
        return {name: np.asarray(value) for name, value in found.items() if hasattr(value, "dtype")}

    def run_fresh(self) -> dict[str, object]:
        """The values of the same cells in an empty namespace, without values of earlier runs."""
        names = dict(self.notebook.shell.user_ns)
        reset(self.notebook, self.empty)
        with config.using(reuse="off"):
            found = self.run()
        reset(self.notebook, names)
        return found


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))])
def test_ten_edits_give_the_values_of_a_fresh_kernel(notebook, tmp_path, seed):
    book = Book(notebook, tmp_path, seed)
    book.run()
    for _ in range(10):
        book.edit()
        found, fresh = book.run(), book.run_fresh()
        for name, value in fresh.items():
            assert np.array_equal(found[name], value), (name, book.cells)


def test_a_value_that_goes_while_others_are_found():
    values: dict[bytes, str] = {}  # tensors of the cluster

    def ask(method, asked):
        if method == "find_values":
            return [one for one in asked if one in values]
        return [(values[one], one in here, ((4,),), "job-1", 1.0) for one in asked]

    here: list[bytes] = []
    retained = Retained(lambda key: None)
    kept = KeptValues(retained, ask)

    def run(*nodes):
        kept.find(nodes)
        for node, (value, _) in zip(nodes, kept.submitted(nodes), strict=True):
            values[value] = node.key
        retained.add(nodes)
        kept.computed(nodes, False)
        detach(nodes)

    base = (mt.random.default_rng(0).random(4) + 1).data
    lost, first = ((Tensor(base) + 3).data, (Tensor(base) * 2).data)
    run(base, lost)
    run(first)
    again = (Tensor(base) * 2).data
    del base
    kept.lost(lost.key)
    retained.pop(lost.key)
    kept.find([lost, again])  # `again` is found, and was the last to refer to `base`, which `lost` is made of
    assert again.key == first.key and lost.key not in retained
    other = (Tensor(mt.random.default_rng(0).random(4).data) + 1).data
    here.extend(values)  # the cluster has not heard yet that this client released them
    kept.find([other])
    assert other.key not in retained


def test_a_value_key_is_of_the_settings_too():
    from jmars.client.kept_values import value_keys

    x = (mt.random.default_rng(0).random(9) + 1).data
    (key,) = {value_keys([x], lambda key: None)[x.key] for _ in range(2)}
    with config.using(task=config.task | {"jit": "fast"}):
        assert value_keys([x], lambda key: None)[x.key] != key


def test_a_plan_counts_on_values_of_earlier_runs(notebook, tmp_path):
    notebook.shell.user_ns["path"] = save(tmp_path / "a.npy", 0)
    cell = CELL + "if y.max() > 1:\n    u = y - 1\n"
    notebook(cell)
    jobs = len(cluster().jobs())
    plan = notebook(cell.replace("%%jmars", "%%jmars --plan -o plan").replace("+ 1.0", "+ 2.0"))
    assert plan is notebook["plan"] and "earlier runs    5 values reused" in str(plan)
    assert plan.complete and plan.operands == 1
    assert "line 6 of In" in notebook.run(cell.replace("%%jmars", "%%jmars --plan --fresh")).text  # it needs y.max()
    assert notebook(cell.replace("%%jmars", "%%jmars --plan")).operands == 0
    assert len(cluster().jobs()) == jobs
    with config.using(reuse="off"):
        assert "reused" not in str(notebook(cell.replace("%%jmars", "%%jmars --plan")))
