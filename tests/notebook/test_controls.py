"""Clusters and jobs in plain cells: facts, buttons, text where there is no notebook."""

from __future__ import annotations

import threading
import time

import pytest

import jmars.tensor as mt
from jmars.client import notebook_views
from jmars.client.notebook_views import ClusterFacts, has_bar, wait_with_bar
from jmars.client.plans import advice
from jmars.config import config
from jmars.errors import ClusterError, ClusterStoppedError, JmarsError
from jmars.notebook import controls
from jmars.notebook.controls import ClusterPanel, facts_html, show_improvement

INFO = {"name": "c", "workers": [{"name": "w", "running": 1}], "memory": {"resident": 5, "limit": 10, "spilled": 3}}
HOSTS = INFO | {"hosts": [{"name": "host-1", "state": "here"}, {"name": "host-2", "state": "left"}]}


class Fake:
    id, name, closed = "c-1", "c", False

    def __init__(self, info=INFO) -> None:
        self.told, self.asked = info, []
        self.done = threading.Event()

    def info(self):
        return self.told

    def jobs(self):
        return [
            {"id": "job-1", "name": "<b>", "state": "running", "progress": 0.5, "elapsed": 1.0},
            {"state": "failed"},
        ]

    def scale(self, n):
        self.asked.append(("scale", n))
        self.done.set()
        raise ClusterError("there are <2> places")

    def adapt(self, least, most):
        self.asked.append(("adapt", least, most))
        self.done.set()

    def stop(self):
        self.asked.append(("stop",))
        self.closed = True
        self.done.set()


@pytest.fixture
def panel_of():
    """Makes panels, which look at their cluster until the test has ended."""
    panels = []

    def make(cluster):
        panels.append(ClusterPanel(cluster))
        return panels[-1]

    yield make
    for panel in panels:
        panel.over.set()


def wait_for(what) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_facts_leave_out_hosts_that_are_gone_and_jobs_that_have_ended() -> None:
    facts = ClusterFacts.of(HOSTS, Fake().jobs())
    assert facts.text() == "c: 1 worker (1 busy) on 1 host, memory 5 B of 10 B, 3 B on disk, 1 running job"
    assert facts.scalable and facts.elastic
    local = ClusterFacts.of(INFO | {"workers": [*INFO["workers"], {"name": "worker-1", "state": "leaving"}]}, [])
    assert local.scalable and not local.elastic and local.workers == 1
    follows = ClusterFacts.of(HOSTS | {"adapt": {"least": 0, "most": 4, "why": ""}}, [])
    assert follows.counts() == "1 worker (1 busy) on 1 host, 0 to 4 as the work needs" and facts.bounds is None


def test_facts_tell_gpus_and_their_memory() -> None:
    gpu = {"name": "gpu-0", "running": 0, "device": {"name": "a GPU", "memory": 8, "used": 2}}
    info = INFO | {"workers": [*INFO["workers"], gpu], "memory": INFO["memory"] | {"levels": {"device": 2}}}
    assert not ClusterFacts.of(info, []).scalable
    text = ClusterFacts.of(info, []).text()
    assert text == "c: 2 workers (1 busy, 1 GPU), memory 5 B of 10 B, 3 B on disk, 2 B of 8 B on GPUs, no job runs"


def test_all_text_is_escaped_and_long_lists_are_bounded() -> None:
    many = [{"id": f"job-{k}", "name": "<b>", "state": "running", "progress": 0.0} for k in range(50)]
    html = facts_html(ClusterFacts.of(HOSTS, many))
    assert "<b>c</b>" in html and "&lt;b&gt;" in html and "and 42 more jobs" in html
    assert html.count("<progress") == 8


def test_a_cluster_has_the_controls_for_what_it_can(panel_of) -> None:
    local = panel_of(Fake())
    assert local._scaling.layout.display is None and local._adapt not in local._scaling.children
    gpu = {"name": "gpu-0", "state": "idle", "running": 0, "device": {"name": "a GPU", "memory": 8, "used": 2}}
    assert panel_of(Fake(INFO | {"workers": [gpu]}))._scaling.layout.display == "none"
    bound = panel_of(Fake(HOSTS | {"adapt": {"least": 2, "most": 5, "why": ""}}))
    assert (bound._least.value, bound._most.value) == ("2", "5")
    panel = panel_of(fake := Fake(HOSTS))
    assert panel._adapt in panel._scaling.children and panel._number.value == "1"
    panel._number.value = "3"
    panel._scale.click()
    assert fake.done.wait(60) and fake.asked == [("scale", 3)]
    wait_for(lambda: panel._told.value == "there are &lt;2&gt; places")  # why not, where one looks
    wait_for(lambda: not panel._scale.disabled)
    fake.done.clear()
    panel._most.value = "4"
    panel._adapt.click()
    assert fake.done.wait(60) and fake.asked[1:] == [("adapt", 1, 4)]
    wait_for(lambda: panel._told.value == "The number follows the work, from 1 to 4.")


def test_a_cluster_is_stopped_only_after_a_second_click(panel_of) -> None:
    panel = panel_of(fake := Fake())
    panel._stop.click()
    assert fake.asked == [] and "1 running job will end" in panel._told.value
    panel._keep.click()
    assert panel._told.value == "" and panel._stop in panel._buttons.children
    panel._stop.click()
    panel._sure.click()
    wait_for(lambda: panel.over.is_set())
    assert fake.asked == [("stop",)] and panel._facts.value == "<b>c</b>: stopped" and panel._buttons.children == ()


def test_a_panel_notices_that_its_cluster_is_gone(monkeypatch, panel_of) -> None:
    monkeypatch.setattr(controls, "POLL_SECONDS", 0.01)
    panel = panel_of(fake := Fake())
    fake.closed = True
    wait_for(lambda: panel.over.is_set())


def test_a_number_is_taken_as_it_is_typed_or_refused_with_the_reason(panel_of, monkeypatch) -> None:
    panel = panel_of(fake := Fake(INFO | {"workers": [{"name": "w"}] * 2}))
    for typed, told in {
        "2.5": "2.5 is no whole number",
        "1e3x": "1e3x is no whole number",
        "": "An empty field is no whole number",
        "-1": "-1 is no whole number",
        "0": "0 is not from 1 to 10,000",
        "99999": "99999 is not from 1 to 10,000",
    }.items():
        panel._number.value = typed
        panel._scale.click()
        assert panel._told.value == told
    assert fake.asked == []
    hosts = panel_of(other := Fake(HOSTS))
    hosts._least.value, hosts._most.value = "3", "2"
    hosts._adapt.click()
    assert hosts._told.value == "2 is not from 3 to 10,000" and other.asked == []
    panel._number._handle_custom_msg({"event": "submit"}, [])  # Enter, before the text
    panel._number.value = "5"
    assert fake.done.wait(60) and fake.asked == [("scale", 5)]
    wait_for(lambda: not panel._scale.disabled)
    fake.done.clear()
    monkeypatch.setattr(controls, "_AFTER_ENTER", 0.0)
    panel._number._handle_custom_msg({"event": "submit"}, [])  # the text is the same
    assert fake.done.wait(60) and fake.asked == [("scale", 5)] * 2
    panel._number.value = "6"  # without Enter
    assert len(fake.asked) == 2


def test_many_more_workers_than_cores_are_asked_about_once_more(panel_of, monkeypatch) -> None:
    monkeypatch.setattr(controls.registry, "entries", lambda: [Fake()])
    monkeypatch.setattr(controls, "usable_cores", lambda: 2)
    panel = panel_of(fake := Fake())
    panel._number.value = "5000"
    panel._scale.click()
    assert "5,000 workers on 2 cores:" in panel._told.value and fake.asked == []
    panel._scale.click()
    assert fake.done.wait(60) and fake.asked == [("scale", 5000)]


def test_the_field_follows_the_number_until_somebody_types(panel_of) -> None:
    panel = panel_of(fake := Fake(INFO | {"workers": [{"name": "w"}] * 2}))
    assert panel._number.value == "2"
    fake.told = INFO | {"workers": [{"name": "w"}] * 3}  # scaled in the side bar
    panel._look()
    assert panel._number.value == "3"
    panel._number.value = "7"
    fake.told = INFO
    panel._look()
    assert panel._number.value == "7"


def test_all_cells_show_the_same_state_by_the_newest_connection(monkeypatch) -> None:
    shown, opened = [], []
    monkeypatch.setattr(controls, "Cluster", Fake)
    monkeypatch.setattr(controls, "_panels", {})
    monkeypatch.setattr(controls, "_display", lambda widget, text: shown.append(widget))
    monkeypatch.setattr(controls, "open_clusters", lambda: [one for one in opened if not one.closed])
    first, second, third = Fake(), Fake(INFO | {"workers": [{"running": 1}] * 5}), Fake()
    opened += [first, second]
    try:
        for cluster in (first, first, second):
            controls.show(cluster)
        assert shown[0] is shown[1] is shown[2]
        (panel,) = controls._panels.values()
        panel._look()
        assert "5 workers (5 busy)" in panel._facts.value
        second.closed = True  # the first one is open still
        panel._look()
        assert not panel.over.is_set() and "1 worker (1 busy)" in panel._facts.value
        panel._stop.click()
        panel._sure.click()
        wait_for(lambda: panel.over.is_set())
        assert panel._facts.value == "<b>c</b>: stopped" and panel._buttons.children == ()
        controls.show(third)  # one of the same id is there again
        assert shown[-1] is shown[0] and panel._stop in panel._buttons.children and not panel.over.is_set()
    finally:
        for panel in controls._panels.values():
            panel.over.set()


def test_a_cluster_that_others_stopped_says_so(panel_of) -> None:
    panel = panel_of(fake := Fake())

    def gone():
        raise ClusterStoppedError("the cluster was stopped from another program")

    fake.info = gone
    panel._look()
    assert (panel._facts.value, panel._told.value) == (
        "<b>c</b>: stopped",
        "the cluster was stopped from another program",
    )
    assert panel._buttons.children == ()


class Handle:
    def __init__(self) -> None:
        self.shown = made

    def display(self, bundle, raw) -> None:
        self.shown.append(bundle)

    update = display


made: list[dict[str, str]] = []


def test_a_bar_comes_late_and_is_gone_at_the_end(monkeypatch) -> None:
    monkeypatch.setattr(controls, "DisplayHandle", Handle)
    made.clear()
    done = threading.Event()
    done.set()
    assert wait_with_bar(done, None, dict) and made == []  # a small job has no bar
    assert not wait_with_bar(threading.Event(), 0.0, dict) and made == []
    monkeypatch.setattr(notebook_views, "VIEW_SECONDS", 0.0)
    monkeypatch.setattr(controls, "STEP_SECONDS", 0.0)
    again = threading.Event()

    def describe():
        if len(made) == 2:
            again.set()
        return {"name": "sum", "state": "running", "progress": 0.25, "elapsed": 3.0, "eta": 9.0}

    assert wait_with_bar(again, None, describe)
    assert "sum: 25 % after 3.00 s, about 9.00 s left" in made[0]["text/html"]
    assert made[-1]["text/plain"] == "" and "progress" not in made[-1]["text/html"] and len(made) == 4


def test_outside_of_a_kernel_there_is_text(monkeypatch) -> None:
    with pytest.raises(NotImplementedError):
        notebook_views.Shown()._ipython_display_()
    assert not has_bar(False)
    monkeypatch.setattr(notebook_views, "in_kernel", lambda: True)
    assert has_bar(False) and not has_bar(True)
    with config.using(display="off"):
        assert config.display == "none" and not has_bar(False)
    with config.using(display="auto"):
        assert config.display == ""


def test_a_search_for_a_better_plan_is_shown_until_it_is_stopped(monkeypatch) -> None:
    monkeypatch.setattr(controls, "SEARCH_PERIOD", 0.01)
    plan = (mt.ones((400, 400), chunk_size=40) + 1).sum().plan()
    search = plan.improving(seconds=60)
    curve, below = show_improvement(search).children
    stop, told = below.children
    wait_for(lambda: "searching" in told.value and "<svg" in curve.value)
    stop.click()
    wait_for(lambda: stop.layout.display == "none")
    assert search.result().makespan <= plan.makespan and told.value.startswith("ended after")
    assert search.result().change["tries"] >= 1 and search.curve[0][1] == plan.makespan


def test_sliders_plan_again(monkeypatch) -> None:
    plan = (mt.ones((400, 400), chunk_size=40) + 1).sum().plan()
    with pytest.raises(JmarsError, match="what_if"):
        plan.explore()
    monkeypatch.setattr(advice, "in_kernel", lambda: True)
    workers, memory, shown, _ = plan.explore().children
    before = shown.value
    workers.value = workers.value + 2
    assert shown.value != before and "with workers" in shown.value
    memory.value = memory.min  # too small for the processes of so many workers, or just enough: said, not raised
    assert shown.value.startswith("<pre")


def test_a_search_that_fails_says_so(monkeypatch) -> None:
    def fail(*args, **kwargs):
        raise RuntimeError("<no>")

    plan = (mt.ones((400, 400), chunk_size=40) + 1).sum().plan()
    monkeypatch.setattr(advice, "anneal", fail)
    search = plan.improving(seconds=60)
    _, below = show_improvement(search).children
    wait_for(lambda: "failed (RuntimeError(&#x27;&lt;no&gt;&#x27;))" in below.children[1].value)
    with pytest.raises(RuntimeError):
        search.result()
