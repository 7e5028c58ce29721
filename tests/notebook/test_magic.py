"""`%load_ext jmars` and the magics, on a real cluster."""

from __future__ import annotations

import os
import re
import signal
import threading
import time

import numpy as np
import pytest

from jmars import native
from jmars.client.cluster import Cluster, default_cluster, open_clusters
from jmars.config import config
from tests.notebook.shells import Notebook, new_shell

FLAGS = "-w 2 --memory 512MiB"
SLOW = f"""%%jmars {FLAGS} -o job
import time
def slow(block):
    time.sleep(0.2)
    return block + 1

x = map_blocks(slow, np.zeros(200, chunk_size=1), dtype=float)
"""


@pytest.fixture(scope="module")
def notebook():
    """A notebook with a cluster of its own."""
    with new_shell() as shell, config.using(display="text"):
        started = Notebook(shell)
        started("%load_ext jmars\nimport numpy as np\nfrom jmars.tensor import map_blocks")
        started(f"%%jmars {FLAGS}\nnp.ones(1)")
        yield started
        started("%jmars stop")


OTHER = "-w 1 --memory 400MiB"


@pytest.fixture
def other(notebook):
    """A second cluster, which is the default until the test ends."""
    first = default_cluster(start=False)
    yield f"%%jmars {OTHER}"
    for cluster in open_clusters():
        if cluster is not first:
            cluster.close()


@pytest.mark.usefixtures("only_jobs")
def test_a_cell_starts_a_cluster_and_the_next_one_finds_it(notebook, other):
    ran = notebook.run(f"{other}\nx = np.arange(1000.0)\nx.sum()")
    assert float(ran.value) == 499500
    assert "\njmars: succeeded" in f"\n{ran.text}"
    cluster = default_cluster(start=False)
    assert (cluster.n_workers, cluster.memory_limit) == (1, 400 * 2**20)
    notebook("%%jmars\ny = x + 1")
    notebook(f"{other}\nz = y + x")
    assert default_cluster(start=False) is cluster
    np.testing.assert_array_equal(notebook["z"].fetch(), np.arange(1000.0) * 2 + 1)


def test_connect_gives_the_cluster_and_says_what_to_type(notebook, other):
    with Cluster(n_workers=1, memory_limit="300MiB", name="met") as met:
        ran = notebook.run("cluster = %jmars connect met")
        assert "jmars: met, 1 worker, memory limit 300.0 MiB; begin a cell with %%jmars to compute on it" in ran.text
        assert notebook["cluster"].id == met.id and default_cluster(start=False) is notebook["cluster"]
        assert notebook("again = %jmars connect met") is None and notebook["again"].id == met.id
        notebook("cluster.close()\nagain.close()\ndel cluster, again")


def test_the_line_of_text_is_the_same_on_every_run(notebook, only_jobs):
    cell = f"%%jmars {FLAGS} --fresh\nw = np.ones(10) + 1\nif w.sum() > 3:\n    w = w + 1"
    first, second = notebook.run(cell).text, notebook.run(cell).text
    assert first == second
    assert first.startswith("jmars: succeeded")
    assert first.endswith(", 2 jobs\n")


def test_nothing_is_shown_where_nothing_is_wanted(notebook):
    with config.using(display="none"):
        assert notebook.run(f"%%jmars {FLAGS}\nv = np.ones(3)").text == ""


def test_a_display_that_there_is_none_of_is_refused(notebook):
    with config.using(display="hologram"):
        assert "use none, text or widget" in notebook.run(f"%%jmars {FLAGS}\nv = np.ones(3)").text


@pytest.mark.usefixtures("only_jobs")
def test_output_binds_the_job(notebook):
    notebook(f"%%jmars {FLAGS} -o job\nv = np.ones(3)")
    assert notebook["job"].state == "succeeded"
    assert notebook["job"].name == f"In [{len(notebook.cells)}]"
    np.testing.assert_array_equal(notebook["job"].result(), np.ones(3))


def test_chunk_cuts_arrays_that_give_no_size(notebook):
    notebook(f"%%jmars {FLAGS} --chunk 8KiB\nv = np.ones(4096)")
    assert notebook["v"].chunks == ((1024,) * 4,)
    notebook(f"%%jmars {FLAGS}\nv = np.ones(4096)")
    assert notebook["v"].chunks == ((4096,),)


def test_a_failing_job_names_the_line_that_made_the_operand(notebook):
    body = "def f(block):\n    if block[0] == 1:\n        raise ValueError('bad block')\n    return block\n"
    ran = notebook.run(
        f"%%jmars {FLAGS}\n{body}good = np.ones(4)\nbad = map_blocks(f, good, dtype=float)\nworse = bad.max()"
    )
    assert isinstance(ran.error, ValueError)
    assert "bad block" in ran.text
    assert f"Cell In[{len(notebook.cells)}], line 7" in ran.text
    assert "----> 7 bad = map_blocks" in ran.text
    assert "/jmars/notebook" not in ran.text
    assert "good" not in notebook


def test_a_failing_stage_shows_where_the_value_was_needed(notebook):
    body = "def f(block):\n    raise ValueError('bad block')\n"
    ran = notebook.run(
        f"%%jmars {FLAGS}\n{body}bad = map_blocks(f, np.ones(4), dtype=float)\nif bad.sum() > 0:\n    pass"
    )
    assert "----> 5 if bad.sum() > 0" in ran.text
    assert "of line 4 (bad = map_blocks(f, np.ones(4), dtype=float))" in ran.text
    assert f"Cell In[{len(notebook.cells)}], line 3, in f\n    raise ValueError('bad block')" in ran.text
    assert "/jmars/" not in ran.text


def test_cancel_from_another_thread_ends_the_cell_and_the_next_one_runs(notebook):
    notebook("x = 'old'")

    def cancel():
        while not (jobs := [job for job in default_cluster().jobs() if job["state"] == "running"]):
            time.sleep(0.01)  # polled: the thread has nobody to ask
        default_cluster().ask("session", "cancel", jobs[-1]["id"])

    thread = threading.Thread(target=cancel)
    thread.start()
    begun = time.monotonic()
    ran = notebook.run(SLOW.replace("\n", "\nimport fractions\n", 1))
    thread.join()
    assert time.monotonic() - begun < 30
    assert notebook("fractions.Fraction(1, 2) * 2") == 1
    assert isinstance(ran.error, KeyboardInterrupt) and ran.text.count("\n") < 3
    assert "was cancelled; names keep their old values" in ran.text
    assert notebook["x"] == "old"
    assert notebook["job"].state == "cancelled"
    assert float(notebook(f"%%jmars {FLAGS}\nnp.ones(4).sum()")) == 4


def test_background_returns_at_once_and_the_values_come(notebook):
    ran = notebook.run(SLOW.replace("-o job", "-b -o job").replace("200", "20"))
    assert notebook["job"].state in ("preparing", "running")
    assert ran.text == "jmars: running in the background\n"
    jobs = len(default_cluster().jobs())
    assert float(notebook("x.sum()")) == 20
    assert notebook["job"].state == "succeeded"
    assert len(default_cluster().jobs()) == jobs + 1  # the sum; x was not computed twice


def test_other_flags_start_another_cluster_which_is_the_default(notebook, other):
    notebook(f"%%jmars {FLAGS}\nx = np.ones(3)")
    before = default_cluster()
    text = notebook.run(f"{other}\ny = x + 1").text
    after = default_cluster()
    told = (
        f"jmars: these flags started {after.name}, 1 worker, memory limit 400.0 MiB; {before.name}, 2 workers, memory"
    )
    assert told in text and "stays open (%jmars lists them)" in text
    assert "these flags" not in notebook.run(f"{other}\ny = x + 1").text
    assert (after.n_workers, after.memory_limit) == (1, 400 * 2**20)
    assert notebook["y"].fetch().tolist() == [2, 2, 2]
    assert not before.closed
    after.close()
    assert default_cluster() is before


def test_flags_of_an_open_cluster_make_it_the_default_again(notebook, other):
    notebook(f"%%jmars {FLAGS}\nx = np.ones(3)")
    first = default_cluster()
    notebook(f"{other}\ny = x + 1")
    second = default_cluster()
    notebook(f"%%jmars {FLAGS}\nz = y + 1")
    assert default_cluster() is first
    assert open_clusters() == [second, first]
    notebook("%%jmars\nx = z + 1")  # asks for nothing
    assert default_cluster() is first
    assert notebook["x"].fetch().tolist() == [4, 4, 4]


def test_a_cluster_that_went_away_is_named_once(notebook):
    cell = "%%jmars -w 1 --memory 410MiB\nnp.ones(1)"
    notebook(cell)
    gone = default_cluster()
    os.kill(gone.info()["scheduler"]["pid"], signal.SIGKILL)  # as Stop in another place, for this process
    while gone in open_clusters():
        time.sleep(0.01)
    gone.close()
    ran, again = notebook.run(cell), notebook.run(cell)
    started = default_cluster()
    assert f"jmars: {gone.name} is gone" in ran.text and f"started {started.name}, 1 worker, memory limit" in ran.text
    assert "is gone" not in again.text and default_cluster() is started
    started.close()


def test_a_wrong_flag_runs_nothing(notebook):
    ran = notebook.run("%%jmars -w none\nnever = 1")
    assert "UsageError: argument -w/--workers: 'none' is not a number of workers" in ran.text
    assert "never" not in notebook


def test_help_lists_the_flags(notebook):
    assert "--memory LIMIT" in notebook["get_ipython"]().find_cell_magic("jmars").__doc__


def test_unloading_takes_the_magics_away(notebook):
    notebook("%unload_ext jmars")
    assert notebook.run("%%jmars\n1").error is not None
    notebook("%load_ext jmars")


def test_a_job_tells_the_line_of_the_cell_that_asked_for_it(notebook):
    with config.using(local_seconds=0):  # small values are computed by jobs too
        notebook("%%jmars\nx = np.arange(4.0) + 1\n\nfirst = float(x.sum())\ny = x * 2")
    first, last = default_cluster(start=False).jobs()[-2:]
    assert first["name"] == last["name"]
    assert (first["line"], last["line"]) == (4, 5)  # the first line is that of the magic


def test_loading_again_prints_nothing_and_keeps_the_clusters(notebook):
    notebook("%%jmars\nx = np.arange(4.0)")
    before = open_clusters()
    assert notebook.run("%reload_ext jmars").text == ""
    assert open_clusters() == before != []
    assert notebook("%%jmars\nx.sum()") == 6.0


@pytest.mark.parametrize(("language", "times"), [("python", 1), ("c", 0)])
def test_status_says_that_plans_are_made_in_python(notebook, language, times):
    with native.forced(language):
        assert notebook.run("%jmars").text.count("plans are made in Python") == times
        assert "in Python" not in notebook.run("%jmars why").text


@pytest.mark.usefixtures("only_jobs")
def test_jobs_of_a_cell_are_listed_in_a_line(notebook, other):
    notebook(f"{other}\nx = np.ones(3)\nfor k in range(3):\n    print(x.sum() + k)\nx + 1")
    (line,) = [one for one in notebook.run("%jmars").text.splitlines() if one.startswith("  In [") and "4 jobs" in one]
    assert re.match(r"  In \[\d+\], lines 4 to 5: 4 jobs succeeded, [\d.]+ m?s, \d+ operands, peak of chunks", line)


def test_status_and_stop(notebook, other):  # the last one: it closes the cluster of them all
    notebook(f"{other}\nx = np.ones(3)")
    text = notebook.run("%jmars").text
    assert "2 workers, memory limit 512.0 MiB" in text
    assert "1 worker, memory limit 400.0 MiB" in text
    assert re.search(r"  In \[\d+\], line \d+: succeeded, [\d.]+ m?s, \d+ operands?, peak of chunks [\d.]+ .?i?B", text)
    assert text.count("; cells without flags run here") == 1
    assert "use `%jmars status`" in notebook.run("%jmars restart").text
    assert notebook.run("%jmars stop").text.count("is closed") == 2
    assert notebook.run("%jmars").text == "jmars: no cluster; the next %%jmars cell starts one\n"
    assert notebook(f"{other}\nx + 1").fetch().tolist() == [2, 2, 2]  # computed anew


def test_after_stop_a_new_cluster_has_the_flags_of_the_last_cell(notebook):
    notebook("%%jmars -w 1 --memory 300MiB\nkept = np.ones(1000) + 1\nmt = np.random.default_rng(0).random(2_000_000)")
    notebook("%jmars stop")
    assert notebook("mt.sum() > 0")  # a plain cell
    cluster = default_cluster(start=False)
    assert (cluster.n_workers, cluster.memory_limit) == (1, 300 * 2**20)
    notebook("%jmars stop")
    assert notebook("mt.chunks and mt[:10].plan().workers.memory.size") == 1
    notebook("%%jmars\ny = mt + 1")
    cluster = default_cluster(start=False)
    assert (cluster.n_workers, cluster.memory_limit) == (1, 300 * 2**20)
