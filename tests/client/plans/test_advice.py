"""Advice is what was simulated and gains; nothing else is said."""

from itertools import count

import jmars.tensor as mt
from jmars.client.plans import plan_for
from jmars.client.plans import planned_run as module
from jmars.client.plans.advice import Advice, advise
from jmars.plan import Profile

MB = 2**20


def planned(tensor, workers=2, room=512 * MB):
    return plan_for([tensor.data], workers, room, known=Profile().as_data())


def tiny_chunks():
    return (mt.random.default_rng(1).random((4000, 4000), chunk_size=40) + 1).sum(axis=0)


def large_product():
    x = mt.ones((2048, 2048), chunk_size=256)
    return (x + 1) @ (x + 2).T


def test_chunks_that_are_too_small_are_said_with_what_larger_ones_gain():
    plan = planned(tiny_chunks())
    advice = {next(iter(one.plan.change)): one for one in plan.advice(60)}
    best = advice["chunk_size"]
    assert best.plan.makespan < 0.95 * plan.makespan and best.plan.operands < plan.operands
    assert best.text.startswith(f"chunk_size {best.plan.change['chunk_size'] / 1024:.1f} KiB: −")
    assert "time" in best.text and "is not known yet" in best.text
    assert best.how.startswith("%%jmars --chunk ")


def test_more_memory_is_said_where_bytes_are_spilled():
    plan = planned(large_product(), room=64 * MB)
    assert plan.spilled
    one = next(one for one in plan.advice(60) if "memory" in one.plan.change)
    assert one.plan.spilled < plan.spilled and "spilled" in one.text
    assert one.how.startswith("%%jmars --memory ")


def test_more_workers_are_said_where_there_are_cores():
    plan = planned(large_product(), workers=1)
    advice = advise(plan, 60, cores=4)
    assert advice[0].plan.change == {"workers": 4} and advice[0].how == "%%jmars -w 4"
    assert all("workers" not in one.plan.change for one in advise(plan, 60, cores=1))


def test_what_gains_nothing_is_not_said():
    assert planned(mt.ones(1000, chunk_size=500).sum()).advice(60) == []
    assert planned(mt.ones(0).sum()).advice(60) == []


def test_when_the_time_is_up_nothing_more_is_tried():
    seconds = count()
    plan = planned(large_product(), workers=1)
    assert advise(plan, 1.0, cores=4, clock=lambda: next(seconds)) == []
    assert advise(plan, 1000.0, cores=4, clock=lambda: next(seconds)) != []


def test_it_is_told_with_the_error_seen_so_far():
    plan = planned(large_product(), workers=1)
    for _ in range(4):
        plan.request.profile.accuracy.observe({"makespan": 1.0, "peak": 100}, {"makespan": 1.25, "peak": 100})
    told = "(predictions here were off by 20 % of time and 0 % of peak memory, median of 4 runs)"
    assert told in advise(plan, 60, 4)[0].text


def test_what_saves_less_time_than_predictions_were_off_is_not_said():
    plan = planned(large_product(), workers=1)
    share = advise(plan, 60, cores=4)[0].share
    for _ in range(4):
        plan.request.profile.accuracy.observe({"makespan": 1.0, "peak": 100}, {"makespan": 10.0, "peak": 100})
    assert share < 0.9 and advise(plan, 60, cores=4) == []


def test_it_stands_under_the_plan_but_not_under_what_if(monkeypatch):
    plan = planned(large_product())
    told = [Advice("more <workers>: −50 % time", plan.what_if(workers=4), "%%jmars -w 4")]
    monkeypatch.setattr(module, "advise", lambda *_: told)
    assert "advice          more <workers>: −50 % time\n" in repr(plan)
    assert "<li>more &lt;workers&gt;: −50 % time<br/><code>%%jmars -w 4</code></li>" in plan._repr_html_()
    assert "advice" not in repr(plan.what_if(workers=1))
