"""EventLog: numbered, bounded, resumable."""

from jmars.scheduler.event_log import EventLog


def log(**limits):
    return EventLog(now=lambda: 1.5, **limits)


def test_a_reader_sees_each_event_once_and_only_its_job():
    events = log()
    for i in range(6):
        events.append("JobMoved", f"job-{i % 2}" if i < 5 else "", {"i": i})
    first, at = events.read(0, limit=4)
    rest, end = events.read(at)
    assert [event[0] for event in first + rest] == [1, 2, 3, 4, 5, 6] and end == 6
    assert [event[4]["i"] for event in events.read(0, "job-1")[0]] == [1, 3, 5]
    assert events.read(end) == ([], 6)


def test_it_keeps_no_more_than_its_limits():
    events = log(limit=10, budget=10_000)
    for _ in range(100):
        events.append("OperandsMoved", "job-1", {"ids": b"x" * 2000})
    assert [event[0] for event in events.read(96)[0]] == [97, 98, 99, 100]  # four fit into the budget
    many = log(limit=10)
    for _ in range(100):
        many.append("JobMoved", "job-1", {})
    assert len(many.read(90)[0]) == 10
    assert many.read(89)[0] == []  # too far behind, and nothing stands


def test_who_fell_behind_is_told_how_things_stand_as_news():
    events = log(limit=5)
    events.standing = lambda job: [("JobSubmitted", "job-1", {}), ("JobMoved", "job-1", {"state": "running"})]
    for _ in range(20):
        events.append("JobMoved", "job-1", {})
    told, at = events.read(3)
    assert [event[2] for event in told] == ["JobSubmitted", "JobMoved"]
    assert [event[0] for event in told] == [19, 20] and at == 20


def test_events_made_of_lists_count_as_much_as_those_made_of_bytes():
    log = EventLog(budget=100_000)
    for _ in range(1000):
        log.append("MemoryChanged", "", {"workers": [{"name": f"worker-{i}", "pid": i} for i in range(16)]})
    kept, last = log.read(since=999)
    assert last == 1000 and len(kept) == 1
    assert 5 < len(log._events) < 50


def test_events_of_forgotten_jobs_go_first_and_numbers_go_on():
    events = log()
    for job in ("", "job-1", "", "job-2", "job-1", ""):
        events.append("JobMoved", job, {})
    events.drop_oldest(lambda job: job == "job-1")
    assert [event[0] for event in events.read(3)[0]] == [4, 5, 6]
    events.drop_oldest(lambda job: True)
    events.append("JobMoved", "job-3", {})
    assert [event[0] for event in events.read(6)[0]] == [7]


def test_a_remembered_job_is_read_whole_after_others_are_forgotten():
    log = EventLog(now=lambda: 0.0)
    log.standing = lambda job: [("HostMoved", "", {"host": 1}), ("JobMoved", job, {})]
    for job in ("", "job-1", "job-2", "", "job-2"):
        log.append("JobMoved", job, {})
    log.drop_oldest(lambda job: job == "job-1")
    events, upto = log.read(0, "job-2")
    assert [event[2:4] for event in events] == [
        ["HostMoved", ""],
        ["JobMoved", "job-2"],
        ["JobMoved", ""],
        ["JobMoved", "job-2"],
    ]
    assert (upto, [event[0] for event in events]) == (5, [2, 3, 4, 5])


def test_a_job_that_began_after_the_oldest_event_is_read_whole():
    log = EventLog(limit=10, now=lambda: 0.0)
    log.standing = lambda job: [("HostMoved", "", {"host": 1}), ("JobMoved", job, {})]
    for kind, job in [("JobMoved", "job-1")] * 20 + [
        ("JobSubmitted", "job-2"),
        ("WorkerMoved", ""),
        ("JobMoved", "job-2"),
    ]:
        log.append(kind, job, {})
    told = [event[2:4] for event in log.read(0, "job-2")[0]]
    assert told == [["HostMoved", ""], ["JobSubmitted", "job-2"], ["WorkerMoved", ""], ["JobMoved", "job-2"]]
    assert [event[2:4] for event in log.read(0, "job-1")[0]] == [["HostMoved", ""], ["JobMoved", "job-1"]]


def test_a_reader_behind_forgotten_events_reads_the_state_once():
    log = EventLog(now=lambda: 0.0)
    log.standing = lambda job: [("HostMoved", "", {"host": 1})]
    log.append("JobMoved", "job-1", {})
    log.drop_oldest(lambda job: True)
    events, upto = log.read(0, "job-2")
    assert (len(events), upto) == (1, 1)
    assert log.read(upto, "job-2") == ([], 1)
