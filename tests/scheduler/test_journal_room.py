"""A scheduler whose journal finds no room on the disk: its work goes on, and what clients are told waits."""

import asyncio
import errno
import os

from jmars.model.messages import JobClosed, Submission
from tests.scheduler.test_resuming import MEASURED, lives, standing, tree


def test_answers_wait_while_the_disk_is_full_and_the_work_goes_on(tmp_path, monkeypatch):
    async def test(life):
        one, is_full = life(), True
        write = os.write

        def refuses(fd, data):
            if is_full:
                raise OSError(errno.ENOSPC, "full")
            return write(fd, data)

        monkeypatch.setattr("jmars.scheduler.journal.os.write", refuses)
        monkeypatch.setattr("jmars.scheduler.journal.RETRY_SECONDS", 0.01)
        table = await one.submit(tree())
        answer = asyncio.ensure_future(one.noted.submit(Submission(b"", ticket="t")))
        await asyncio.sleep(0)
        assert not answer.done()
        done = set()
        while waiting := sorted(set(one.enqueued()) - done):
            one.ran(table, waiting)
            done.update(waiting)
        one.noted.report(JobClosed("job-1", MEASURED))
        assert one.session.graph("job-1").describe()["state"] == "succeeded" and one.reports == []
        assert "(full)" in one.noted.unreported("job-1")
        is_full = False
        assert await answer == "job-1"
        assert [report["job"] for report in one.reports] == ["job-1"] and one.noted.unreported("job-1") == ""
        second = life()
        assert [report["job"] for report in await second.resume(standing())] == ["job-1"]

    lives(tmp_path, test)
