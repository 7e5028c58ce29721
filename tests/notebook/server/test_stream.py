"""What a side bar is sent."""

import asyncio
import json

from jmars.model.status import OperandState as S
from jmars.notebook.server.handlers import JobStream, job_row
from jmars.notebook.view import TRAITS
from tests.notebook.events_for_tests import started

JOBS = [{"id": "job-1", "name": "cell 1", "line": 4, "state": "running", "elapsed": 1.23, "counts": {}}]


def stream_of(log):
    async def read(since, job):
        return [event for event in log.events if event[0] > since and event[3] in ("", job)], len(log.events)

    return JobStream(read)


def frame(stream, jobs, now):
    return asyncio.run(stream.frame(jobs, now))


def test_the_first_frame_is_all_and_the_next_what_changed():
    log = started(4)
    stream = stream_of(log)
    first = frame(stream, JOBS, 1000.0)
    assert first["job"] == "job-1"
    row = {"id": "job-1", "name": "cell 1", "line": 4, "state": "running", "elapsed": 1.2, "progress": 0.0}
    assert first["jobs"] == [row]
    assert set(first["picture"]) == set(TRAITS)
    json.dumps(first)
    assert frame(stream, JOBS, 1000.5) is None
    log.moved(S.RUNNING, [0], 0)
    assert {"snap", "operand_states"} <= set(frame(stream, JOBS, 1001.0)["picture"])
    assert stream.live


def test_without_jobs_there_is_an_empty_list():
    stream = stream_of(started(4))
    assert frame(stream, [], 0.0) == {"jobs": [], "job": ""}
    assert frame(stream, [], 1.0) is None
    assert not stream.live


def test_a_newer_job_is_shown_unless_another_was_chosen():
    log = started(4)
    stream = stream_of(log)
    more = [*JOBS, {"id": "job-2", "name": "cell 2", "state": "preparing", "elapsed": 0.0}]
    assert frame(stream, JOBS, 0.0)["job"] == "job-1"
    assert frame(stream, more, 1.0)["job"] == "job-2"
    stream.selected = "job-1"
    back = frame(stream, more, 2.0)
    assert back["job"] == "job-1"
    assert back["picture"]["graph"]["n_after"] == 5
    stream.selected = "gone"
    assert frame(stream, more, 3.0)["job"] == "job-2"


def test_hostile_job_names_are_cut():
    assert job_row({"id": "a", "name": "\x00" + "x" * 10**6, "state": "running"})["name"].isprintable()
