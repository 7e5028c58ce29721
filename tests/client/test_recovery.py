"""A job whose inputs were lost is submitted again, a bounded number of times, and never against its user's will."""

import threading

import pytest

import jmars.tensor as mt
from jmars.client.job import RECOVERIES, FloatWarnings, Job, can_recover, with_recovery
from jmars.errors import ChunkLostError, ClusterClosedError, JobCancelledError
from jmars.model.messages import Failure
from jmars.tensor.operand import TensorData
from jmars.tensor.tensor_graph import Stored

LOST = ChunkLostError("gone", ["key"])


class Cluster:
    """Notes what it is asked; a job that is submitted again ends as `ends` say, one after the other."""

    def __init__(self, *ends):
        self.ends = list(ends)
        self.forgotten, self.told, self.here, self.asked = [], [], set(), 0
        self.closed, self.float_warnings = False, FloatWarnings()

    def check_process(self):
        pass

    def retained(self):
        return frozenset(self.here)

    def retain(self, data):
        self.here |= {one.key for one in data}

    def lose(self, key):
        self.here.discard(key)
        self.forgotten.append(key)

    def computed(self, data, warned, values):
        self.retain(data)

    def tell(self, *message):
        self.told.append(message)

    def submit_data(self, data, name="", again=None):
        if self.closed:
            raise ClusterClosedError("it was closed")
        self.asked += 1
        job = again or Job(self, "job-1", "one", data, True)
        job.resubmitted(f"job-{self.asked + 1}")
        if self.ends:
            job.ended(report(self.ends.pop(0)))
        return job


def report(error=None):
    if error is None:
        return {"state": "succeeded", "error": None}
    return {"state": "failed", "error": Failure.of(error)}


def job_on(cluster, tensor=None):
    return Job(cluster, "job-1", "one", [(mt.ones(4) + 1 if tensor is None else tensor).data], True)


def test_a_job_is_submitted_again_without_lost_values():
    cluster = Cluster(None)
    job = job_on(cluster)
    seen, told = [], []
    job.when_again(lambda one: seen.append(one.id))
    job.when_done(lambda one: told.append(one.state))
    job.ended(report(LOST))
    assert job.wait(60) and job.error is None
    assert (job.id, seen, told, cluster.forgotten) == ("job-2", ["job-2"], ["succeeded"], ["key"])


def test_it_is_not_submitted_for_ever():
    cluster = Cluster(*[LOST] * 10)
    job = job_on(cluster)
    job.ended(report(LOST))
    assert job.wait(60) and isinstance(job.error, ChunkLostError)
    assert cluster.asked == RECOVERIES


def test_each_tensor_that_the_client_retains_may_be_found_lost_by_itself():
    names = [f"name-{number}" for number in range(3 * RECOVERIES)]
    cluster = Cluster(*(ChunkLostError("gone", [name]) for name in names), None)
    cluster.here = set(names)
    job = job_on(cluster)
    job.ended(report(LOST))
    assert job.wait(5) and job.error is None
    assert cluster.forgotten == ["key", *names]


def test_other_failures_and_cancelled_operands_are_not_submitted_again():
    cluster = Cluster(None)
    job = job_on(cluster)
    job.ended(report(OSError("no")))
    assert isinstance(job.error, OSError) and not cluster.asked
    job = job_on(cluster)
    job.cancel()
    job.ended(report(LOST))
    assert isinstance(job.error, ChunkLostError) and not cluster.asked
    assert not isinstance(job.error, JobCancelledError)


def test_a_cancel_that_comes_while_it_is_submitted_again_is_passed_on():
    cluster = Cluster()
    job, began, go_on = job_on(cluster), threading.Event(), threading.Event()
    submit = cluster.submit_data

    def slowly(*args, **kwargs):
        began.set()
        assert go_on.wait(60)
        return submit(*args, **kwargs)

    cluster.submit_data = slowly
    job.ended(report(LOST))
    assert began.wait(60)
    job.cancel()
    told = threading.Event()
    cluster.tell = lambda *message: (cluster.told.append(message), told.set())
    go_on.set()
    assert told.wait(60) and cluster.told[-1] == ("session", "cancel", "job-2")


def test_an_object_that_cannot_be_sent_again_leaves_nobody_waiting():
    cluster = Cluster(None)

    def refuses(*args, **kwargs):
        raise TypeError("cannot pickle it")

    cluster.submit_data = refuses
    job = job_on(cluster)
    job.ended(report(LOST))
    assert job.wait(60) and isinstance(job.error, ChunkLostError)


@pytest.mark.parametrize("why", ["closed", "unknown"])
def test_where_that_cannot_be_it_ends_with_what_happened(why):
    cluster = Cluster(None)
    cluster.closed = why == "closed"
    tensor = mt.ones(4) + 1
    if why == "unknown":  # taken up from another client: nobody here has its graph
        tensor = mt.Tensor(TensorData(Stored(), (4,), tensor.dtype, ((4,),))) * 2
    job = job_on(cluster, tensor)
    job.ended(report(LOST))
    assert job.wait(60) and isinstance(job.error, ChunkLostError) and not cluster.asked
    assert str(job.error).startswith(str(LOST)) and ("it was closed" in str(job.error)) == cluster.closed


def test_what_is_fetched_is_computed_again_a_bounded_number_of_times():
    cluster, data = Cluster(None, None, None), (mt.ones(4) + 1).data
    cluster.retain([data])
    tries = [LOST, LOST, None]

    def fetch():
        error = tries.pop(0)
        if error is not None:
            raise error
        return 5

    assert with_recovery(cluster, data, fetch) == 5
    assert cluster.asked == 2 and cluster.forgotten.count(data.key) == 2
    cluster = Cluster(*[None] * 10)
    with pytest.raises(ChunkLostError):
        with_recovery(cluster, data, lambda: (_ for _ in ()).throw(LOST))
    assert cluster.asked == RECOVERIES


def test_only_a_graph_that_is_here_can_be_recovered():
    x = mt.ones(4)
    stored = mt.Tensor(TensorData(Stored(), (4,), x.dtype, ((4,),)))
    cluster = Cluster()
    assert can_recover(cluster, [(x + 1).data], [x.data.key])
    assert not can_recover(cluster, [(stored + 1).data], [])
    cluster.retain([stored.data])
    assert can_recover(cluster, [(stored + 1).data], [])
    assert not can_recover(cluster, [(stored + 1).data], [stored.data.key])
