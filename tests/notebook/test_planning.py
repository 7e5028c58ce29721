"""`%%jmars --plan` and `%jmars plan`: a cell is planned, nothing is run and nothing changes."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.client.cluster import default_cluster
from jmars.client.plans import PlannedRun
from jmars.config import config
from tests.notebook.shells import Notebook, new_shell

CELL = """a = np.random.rand(1000, 1000)
b = (a + 1).sum(axis=0)
b.mean()"""


@pytest.fixture
def notebook():
    """A notebook without a cluster."""
    with new_shell() as shell, config.using(display="text"):
        started = Notebook(shell)
        started("%load_ext jmars\nimport numpy as np\nfrom jmars.tensor import map_blocks")
        yield started
        started("%jmars stop")


def test_a_cell_is_planned_without_a_cluster_and_leaves_no_name(notebook):
    plan = notebook(f"%%jmars --plan -w 3 --memory 1GiB --chunk 1MiB\n{CELL}")
    assert isinstance(plan, PlannedRun) and plan.operands > 8
    assert plan.workers.cores.tolist() == [3] and 0 < plan.workers.memory[0] < 2**30
    assert default_cluster(start=False) is None
    assert "a" not in notebook and "b" not in notebook


@pytest.mark.usefixtures("only_jobs")
def test_all_that_the_cell_would_leave_behind_is_planned_together(notebook):
    both = notebook("%%jmars --plan\nx = np.ones(1000).sum()\ny = np.ones(1000).max()")
    one = notebook("%%jmars --plan --lazy\nx = np.ones(1000).sum()\ny = np.ones(1000).max()\nx")
    assert len(both.request.data) == 2 and len(one.request.data) == 1


def test_the_plan_is_shown_and_can_be_kept(notebook):
    ran = notebook.run(f"%%jmars --plan -o plan\n{CELL}")
    assert "no plan can beat" in ran.text and ran.value is notebook["plan"]
    assert notebook("plan.what_if(workers=1)").base is notebook["plan"]


@pytest.mark.usefixtures("only_jobs")
def test_names_and_tensors_are_as_before(notebook):
    notebook("x = np.arange(5)\nkeep = x")
    plan = notebook("%%jmars --plan\nx = x + 1\nx[0] = 7\nnew = x * 2")
    assert plan.operands > 0
    assert notebook["x"] is notebook["keep"] and isinstance(notebook["x"], np.ndarray)
    assert notebook["x"].tolist() == [0, 1, 2, 3, 4] and "new" not in notebook


@pytest.mark.usefixtures("only_jobs")
def test_a_cell_that_needs_a_value_is_planned_up_to_there(notebook):
    ran = notebook.run("%%jmars --plan\nx = np.ones(1000)\nif x.sum() > 3:\n    y = x + 1")
    assert isinstance(ran.value, PlannedRun) and ran.error is None
    assert "line 3 of In [2] needs a value to go on" in ran.text
    assert "sum" in ran.value.labels[-1]


def test_what_was_computed_is_known(notebook):
    notebook("%%jmars -w 1 --memory 400MiB\nx = np.ones(1000, chunk_size=100)\ntotal = x.sum()")
    plan = notebook("%%jmars --plan\nif float(total) > 3:\n    y = x + 1")
    assert plan.operands == 10 and plan.planned.placed.max() == 0
    assert notebook("%jmars plan (x + 1).sum()").operands > 10
    assert notebook("%jmars plan np.random.rand(5, chunk_size=5), x").operands == 1


def test_errors_are_those_of_the_cell(notebook):
    assert isinstance(notebook.run("%%jmars --plan\n1 / 0").error, ZeroDivisionError)
    assert isinstance(notebook.run("%jmars plan nothing").error, NameError)
    assert "use `%jmars status`" in notebook.run("%jmars plan").text
    assert "use `%jmars status`" in notebook.run("%jmars stop now").text


def test_a_cell_that_computes_nothing_has_an_empty_plan(notebook):
    assert notebook("%%jmars --plan\nz = 1 + 1").operands == 0


@pytest.mark.parametrize("head", ["%%jmars", "%%jmars --plan -w 2"])
def test_a_syntax_error_is_shown_as_in_any_cell(notebook, head):
    ran = notebook.run(f"{head}\nx = = 1")
    assert isinstance(ran.error, SyntaxError)
    assert " ".join(ran.text.split()) == "Cell In[2], line 2 x = = 1 ^ SyntaxError: invalid syntax"
    assert default_cluster(start=False) is None
    later = notebook.run("exec('y = = 1')")  # IPython's own way is back
    assert isinstance(later.error, SyntaxError) and "run_code" in later.text
