"""Sessions and the default cluster, as users call them."""

import threading

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client.cluster import default_cluster


def test_the_newest_open_cluster_is_the_default():
    assert default_cluster(start=False) is None
    with jmars.Cluster(n_workers=1) as first:
        with jmars.Cluster(n_workers=1) as second:
            assert default_cluster() is second
            x = mt.ones((4, 4), chunk_size=2).execute()
            assert second.retains(x.data) and not first.retains(x.data)
        assert default_cluster() is first
        assert x.sum().fetch() == 16  # the value went with its cluster, and is computed again here


def test_seed_000s_example_runs():
    with jmars.Cluster(n_workers=2):
        a = mt.random.rand(100, chunk_size=100)
        b = mt.random.rand(100, chunk_size=100)
        c = (a + b).sum()
        first = c.execute().fetch()
        assert first == c.fetch()
        assert np.isclose(first, a.fetch().sum() + b.fetch().sum())


def test_a_new_session_runs_keeps_and_fetches():
    with jmars.new_session(n_workers=1) as session:
        x = mt.arange(10, chunk_size=3)
        assert np.array_equal(session.run(x), np.arange(10))
        total, twice = session.run(x.sum(), x * 2)
        assert total == 45 and np.array_equal(twice, 2 * np.arange(10))
        kept = session.execute(x + 1)
        assert session.cluster.retains(kept.data)
        assert np.array_equal(session.fetch(kept), np.arange(1, 11))


def test_jobs_of_several_threads_run_side_by_side():
    with jmars.Cluster(n_workers=2) as cluster:
        values = {}

        def use(number):
            x = mt.arange(1000, chunk_size=100) + number
            values[number] = cluster.submit(x.sum()).result(30)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert values == {number: 499500 + 1000 * number for number in range(8)}


def test_info_tells_pids_states_and_memory():
    with jmars.Cluster(n_workers=2, memory_limit="1GiB", name="mine") as cluster:
        info = cluster.info()
        assert info["name"] == "mine" and info["memory"]["limit"] == 2**30
        assert len(info["workers"]) == 2
        for process in [*info["workers"], info["scheduler"]]:
            assert process["pid"] > 0 and process["state"] and process["memory"] > 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"n_workers": 0}, "n_workers must be a whole number of 1 or more"),
        ({"threads_per_worker": 1.5}, "threads_per_worker must be"),
        ({"memory_limit": "lots"}, "is not a size"),
        ({"spill_dir": "/nowhere"}, "no folder that can be written to"),
    ],
)
def test_bad_arguments_are_refused_before_anything_starts(arguments, error):
    with pytest.raises((ValueError, OSError), match=error):
        jmars.Cluster(**arguments)


def test_what_is_no_tensor_is_refused():
    with jmars.Cluster(n_workers=1) as cluster, pytest.raises(TypeError, match="make it a tensor with"):
        cluster.submit(np.ones(3))


def test_events_tell_the_whole_run_in_order():
    with jmars.Cluster(n_workers=1) as cluster:
        job = cluster.submit((mt.ones(100, chunk_size=10) + 1).sum())
        assert job.result(30) == 200
        events = job.events()
        kinds = [event[2] for event in events if event[3] == job.id]
        assert kinds[0] == "JobSubmitted" and kinds[-1] == "JobMoved"
        states = [event[4]["state"] for event in events if event[2] == "JobMoved"]
        assert states == ["preparing", "running", "succeeded"]
        assert [event[0] for event in events] == sorted({event[0] for event in events})
        later, _ = cluster.events(events[-1][0], job.id)
        assert [event for event in later if event[3] == job.id] == []
