"""A plan says what a run will cost, starts nothing, and can be asked what else might be."""

import copy
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

import jmars
import jmars.tensor as mt
from jmars.client.cluster import default_cluster
from jmars.client.plans import PlannedRun, plan_for, policy_names
from jmars.deploy.memory import usable_cores
from jmars.errors import ArrayChangedError, GraphError, MemoryLimitError
from jmars.plan import Profile
from jmars.plan.partition import has_km1, has_metis

MB = 2**20
MISSING = {"metis": has_metis, "km1": has_km1}


def example():
    """Chunks of 0.5 MiB: made, added, cut otherwise and summed."""
    x = mt.random.default_rng(1).random((1024, 1024), chunk_size=256)
    return ((x + 1) * 2).rechunk((128, 1024)).sum(axis=0)


def planned(tensor=None, workers=2, room=512 * MB, **how):
    data = [(example() if tensor is None else tensor).data]
    return plan_for(data, workers, room, known=Profile().as_data(), **how)


def test_it_starts_nothing():
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    plan = example().plan()
    repr(plan), plan.what_if(workers=3), plan._repr_html_()
    assert default_cluster(start=False) is None
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before
    assert plan.workers.cores.tolist() == [usable_cores()]


def test_it_knows_what_the_run_will_be(cluster):
    x, y = example(), mt.arange(4000, chunk_size=1000)
    plan = jmars.plan_of(x, y.max())
    assert plan.workers.cores.tolist() == [2] and plan.workers.memory.tolist() == [cluster.capacity]
    job = cluster.submit(x, y.max())
    assert job.wait(30)
    assert job.describe()["operands"] == plan.operands == plan.graph.n
    assert plan.operands_before > plan.operands
    assert 0 < plan.lower_bound <= plan.makespan
    assert plan.moved == plan.spilled == 0
    assert next(n * members for n, members, _ in plan.groups) > plan.operands / 2
    assert 0 < sum(seconds for _, seconds, _ in plan.critical_path) <= plan.makespan * 1.001


def test_only_tensors_are_planned_and_nothing_is_a_plan_too():
    with pytest.raises(TypeError, match="cannot plan a ndarray"):
        jmars.plan_of(np.ones(3))
    assert jmars.plan_of().operands == 0 and "0 operands" in repr(jmars.plan_of())


def test_what_is_held_costs_nothing(cluster):
    x = mt.ones(4000, chunk_size=1000).execute()
    plan = (x + 1).plan()
    assert plan.operands == 4
    assert plan.planned.placed.max() == 0 and (plan.planned.placed >= 0).sum() == 4
    assert x.plan().operands == 0 and x.plan().makespan == 0
    repr(x.plan())


@pytest.mark.long
def test_arrays_from_outside_are_not_sent(cluster, monkeypatch):
    monkeypatch.setattr(type(cluster.shared), "upload", lambda *_: pytest.fail("sent"))
    array = np.ones(10_000_000)
    x = mt.asarray(array, chunk_size=1_000_000) * 2
    array[0] = 5  # only a run minds
    assert x.plan().operands == 10
    with pytest.raises(ArrayChangedError):
        cluster.submit(x)


def test_the_peak_is_an_interval_of_each_machine_and_the_same_each_time():
    plan = planned()
    assert plan.peak.shape == (1, 2)
    (low, high) = plan.peak[0]
    assert 0 < low <= high <= 512 * MB and high < 3 * low
    assert planned(example()).peak.tolist() == plan.peak.tolist()


def test_the_peak_is_wider_where_predictions_were_off():
    plan = planned()
    seen = copy.deepcopy(plan.request.profile)
    for _ in range(5):
        seen.accuracy.observe({"makespan": 1.0, "peak": [0, 100]}, {"makespan": 1.0, "peak": 200})
    off = plan.request.__class__(plan.request.data, (), plan.request.settings, seen)
    wider = PlannedRun(plan.graph, plan.workers, plan.planned, plan.compiled, off)
    assert wider.peak[0, 0] < plan.peak[0, 0] and wider.peak[0, 1] > plan.peak[0, 1]
    assert "off by 0 % of time and 50 % of peak memory, median of 5 runs" in repr(wider)


def test_more_workers_take_less_time_and_more_memory():
    plan = planned()
    more = plan.what_if(workers=4)
    assert more.base is plan and more.change == {"workers": 4}
    assert more.makespan < 0.75 * plan.makespan
    assert more.predicted.peak_total >= plan.predicted.peak_total
    assert more.graph is plan.graph
    assert repr(more).startswith("with workers 4: ") and "−" in repr(more).splitlines()[0]


def test_too_little_memory_spills_and_less_is_an_error():
    x = mt.ones((2048, 2048), chunk_size=256)
    plan = planned((x + 1) @ (x + 2))
    assert plan.spilled == 0
    tight = plan.what_if(memory="170MiB")  # of which most is for the processes
    assert tight.spilled > 0 and tight.makespan > plan.makespan
    assert "spilled" in repr(tight).splitlines()[0]
    with pytest.raises(MemoryLimitError):
        plan.what_if(memory="64MiB")


def test_several_machines_move_bytes_and_slower_links_take_longer():
    x = mt.ones((2048, 2048), chunk_size=512)
    plan = planned((x + 1) @ (x + 2).T)
    near = plan.what_if(hosts=3)
    far = near.what_if(bandwidth="1MiB")
    assert near.moved > 0 and near.workers.cores.tolist() == [2, 2, 2]
    assert far.makespan > near.makespan
    uneven = plan.what_if(workers=[4, 1])
    assert uneven.workers.cores.tolist() == [4, 1] and uneven.peak.shape == (2, 2)
    assert "nothing moves on one machine" in repr(plan.what_if(bandwidth="1MiB"))


def test_outputs_that_wait_for_other_machines_are_counted():
    x = mt.ones((1024, 1024), chunk_size=256)
    plan = planned((x + 1).rechunk((1024, 64)).sum(axis=1)).what_if(hosts=2, bandwidth="10MiB", policy="cascade-merge")
    assert plan.waiting > 0
    assert "waiting outputs" in repr(plan)
    assert planned().waiting == 0


def test_larger_chunks_are_fewer_operands():
    plan = planned()
    assert plan.what_if(chunk_size="2MiB").operands < plan.operands < plan.what_if(chunk_size="128KiB").operands
    assert plan.what_if(chunk_size=2 * MB).what_if(workers=1).operands == plan.what_if(chunk_size="2MiB").operands


@pytest.mark.long(beyond=6)
@pytest.mark.parametrize("policy", policy_names())
def test_every_policy_can_be_asked_for(policy):
    if policy in MISSING and not MISSING[policy]():
        pytest.skip("its package is not installed")
    plan = planned().what_if(hosts=2, policy=policy)
    assert plan.asked == policy
    assert plan.what_if(workers=1).asked == policy  # until another is asked for
    assert (plan.assign >= 0).all() and plan.makespan >= plan.lower_bound > 0


def test_an_assigner_and_an_order_join_and_unknown_ones_are_errors():
    plan = planned()
    assert plan.what_if(hosts=2, policy="halves/level").policy == "halves/level"
    with pytest.raises(GraphError, match="did you mean 'cascade-merge'"):
        plan.what_if(policy="cascade-mrge")
    with pytest.raises(GraphError, match="no order 'up'"):
        plan.what_if(policy="halves/up")
    with pytest.raises(ValueError, match="workers must be 1 or more"):
        plan.what_if(workers=0)
    with pytest.raises(ValueError, match="give one of them"):
        plan.what_if(workers=[1, 2], hosts=3)
    for wrong in ({"workers": "x"}, {"workers": 2.5}, {"hosts": "two"}):
        with pytest.raises(TypeError, match="give whole numbers"):
            plan.what_if(**wrong)
    assert plan.what_if(workers=np.int64(5)).workers.cores.tolist() == [5]


def test_what_was_tried_stands_with_the_best_first():
    plan = planned(policy="lean")
    assert len(plan.tried) > 1 and plan.tried[0][1] == pytest.approx(plan.makespan)
    assert f"the best of {len(plan.tried)} tried" in repr(plan)


def test_the_text_says_all_that_is_promised():
    text = repr(planned())
    for word in (
        "before fusion",
        "no plan can beat",
        "peak memory",
        "spilled",
        "moved",
        "policy",
        "fused",
        "critical path",
    ):
        assert word in text, word


def test_the_plan_says_what_is_read(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4000.0).reshape(40, 100))
    x = mt.load(tmp_path / "x.npy", chunk_size=(10, 100))
    assert x.sum().plan().read == 32_000 and "read            31.2 KiB of files" in repr(x.sum().plan())
    assert (x + 1)[:5, ::10].plan().read == 5 * 10 * 8
    assert x[[0, 39]].plan().read == 2 * 100 * 8
    assert mt.ones(10).plan().read == 0 and "of files" not in repr(mt.ones(10).plan())
    boxes = mt.from_blocks(lambda box: np.zeros([one.stop - one.start for one in box]), (40, 100), float, (10, 100))
    assert boxes[:5, ::10].plan().read == 5 * 91 * 8  # slices without steps
    assert boxes[[0, 39]].plan().read == 2 * 100 * 8
    cut = mt.from_blocks(np.ones, (40, 100), float, (10, 100), name="cut", pieces=(20, 100)).sum().plan()
    assert [(one.read, one.nbytes) for one in cut.sources] == [(32_000, 32_000)]
    assert "its 2 pieces of 20 × 100 are read 4 times, since chunks cut pieces" in repr(cut)


def test_it_is_planned_in_a_process_that_only_imported_jmars():
    program = """if True:
        import sys
        import jmars, jmars.tensor as mt
        assert "jmars.client.plans.planned_run" not in sys.modules
        mt.ones(9).plan()
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_job_that_has_run_can_be_planned_again(cluster):
    job = cluster.submit(mt.ones(4000, chunk_size=1000) + 1)
    assert job.wait(30)
    plan = job.plan()
    assert plan.operands == job.describe()["operands"] == 4
    assert plan.what_if(workers=1).makespan > plan.makespan


def test_of_a_graph_that_unfolds_the_first_stage_is_planned():
    x = mt.ones(1000, chunk_size=100)
    grown = mt.while_loop(lambda a: a.sum() < 5000, lambda a: a * 2, x)
    plan = planned(grown)
    assert not plan.complete and plan.operands > 0
    assert "plan of the first stage: " in repr(plan)
    assert planned(x).complete and "stage" not in repr(planned(x))


def test_what_a_cluster_learnt_counts_at_once(cluster):
    def learnt_about_here_only(block):  # costs are learnt by name
        time.sleep(0.05)
        return block

    x, y = (mt.map_blocks(learnt_about_here_only, mt.ones(40, chunk_size=10), dtype=float) for _ in range(2))
    before = x.plan().makespan
    assert cluster.submit(y).wait(30)
    assert x.plan().makespan > before + 0.05


def test_a_cluster_notes_how_far_its_predictions_were_off(cluster):
    x = mt.random.default_rng(1).random((6000, 6000), chunk_size=1000)
    before = x.plan().request.profile.accuracy.rows
    for k in range(3):
        assert cluster.submit((x + k).max()).wait(60)
    plan = (x + 9).max().plan()
    rows = plan.request.profile.accuracy.rows  # of all jobs so far, the newest last, at most REMEMBERED
    assert rows[-3:] != before[-3:] and rows[: len(rows) - 3] == (before + rows[-3:])[-len(rows) : -3]
    assert "predictions here were off by" in repr(plan)
