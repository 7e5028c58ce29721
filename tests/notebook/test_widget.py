"""The widget: its traits are the picture, its messages are what is clicked."""

import pytest
from ipywidgets.widgets.widget import _instances

from jmars.notebook import widget
from jmars.notebook.run_state import RunState
from jmars.notebook.sampler import FrameBuilder
from jmars.notebook.view import TRAITS
from jmars.notebook.widget import STATIC, JobView
from tests.notebook.events_for_tests import started

if not (STATIC / "widget.js").exists():
    pytest.skip("the front end is not built: run `jlpm && jlpm build:prod` in labextension/", allow_module_level=True)


@pytest.fixture
def view():
    asked = []
    made = JobView(
        on_cancel=lambda job: asked.append(("cancel", job)),
        on_background=lambda: asked.append(("background",)),
        on_answer=lambda number, hidden: asked.append(("answer", number, hidden)),
    )
    made.asked = asked
    yield made
    made.close()


def test_each_field_of_the_picture_is_a_trait(view):
    ours = set(view.keys) - {name for name in view.keys if name.startswith("_")} - {"layout", "tabbable", "tooltip"}
    assert ours == {*TRAITS, "frame", "output"}


def test_a_frame_goes_in_one_message_and_stays_for_a_reloaded_page(view):
    run = RunState()
    run.follow("job-1")
    run.fold(started(4).events)
    sent = []
    view.send_state = lambda key=None: sent.append(set(key) if isinstance(key, set | list) else key)
    view.show((FrameBuilder().frame(run, 0.0) or {}) | {"frame": 1})
    assert len(sent) == 1
    picture = run.picture(0.0)
    state = view.get_state()
    assert {name: state[name] for name in TRAITS} == picture


def test_clicks_are_called_back(view):
    view.job_id = "job-7"
    for content in ({"type": "cancel", "job": "job-8"}, {"type": "cancel"}, {"type": "background"}):
        view._handle_custom_msg(content, [])
    view._handle_custom_msg({"type": "answer", "frame": 3, "hidden": True}, [])
    view._handle_custom_msg({"type": "what"}, [])
    assert view.asked == [("cancel", "job-8"), ("cancel", "job-7"), ("background",), ("answer", 3, True)]


def test_its_text_says_how_it_stands(view):
    assert view._repr_mimebundle_()[0]["text/plain"] == "jmars: no job yet"
    run = RunState()
    run.follow("job-1")
    log = started(4)
    run.fold(log.events)
    view.show(FrameBuilder().frame(run, log.time) or {})
    data = view._repr_mimebundle_()[0]
    assert data["text/plain"] == "jmars running: 0 of 5 operands · 0.20 s"
    assert "application/vnd.jupyter.widget-view+json" in data


def test_an_unbuilt_front_end_is_said(monkeypatch):
    monkeypatch.setattr(widget, "_CODE", "")
    with pytest.raises(FileNotFoundError, match="jlpm build:prod"):
        JobView()


def test_a_closed_view_leaves_no_widget():
    before = len(_instances)
    for _ in range(3):
        JobView().close()
    assert len(_instances) == before
