"""What stays in the notebook when the kernel is gone."""

import base64
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jmars.model.status import OperandState as S
from jmars.notebook.run_state import RunState
from jmars.notebook.static_view import COLOURS, final_bundle, picture_svg, summary, text_line
from jmars.notebook.view import MIME_TYPE
from tests.notebook.events_for_tests import started


def picture_of(log):
    run = RunState()
    run.follow("job-1")
    run.fold(log.events)
    return run.picture(log.time)


def finished():
    log = started(4).moved(S.FINISHED, range(5), 0).memory(2**20, 2**21, 2**19).memory(2**20, 2**22, 2**20)
    return log.add("JobMoved", 0.1, state="succeeded", error=None, elapsed=1.0)


def test_it_has_the_picture_an_image_and_a_line_and_no_widget():
    bundle = final_bundle(picture_of(finished()))
    assert set(bundle) == {MIME_TYPE, "text/html", "text/plain"}
    json.dumps(bundle)
    assert bundle["text/plain"] == ("jmars succeeded: 1.0 s · peak 4.0 MiB")
    image = bundle["text/html"].split("base64,")[1].split('"')[0]
    texts = [node.text for node in ElementTree.fromstring(base64.b64decode(image)).iter() if node.text]
    assert "finished 5" in texts


def test_no_prediction_is_saved_beside_what_was_measured():
    log = started(4)
    costs = {"makespan": 0.8, "peak": [2**20, 2**21], "spilled": 0, "moved": 0}
    log.events[2][4]["predicted"] = costs | {"lower_bound": 0.5, "chosen": "dfs", "tried": []}
    log.moved(S.FINISHED, range(5), 0).memory(2**20, 2**22, 2**20)
    log.add("JobMoved", 0.1, state="succeeded", error=None, elapsed=1.0, measured=costs | {"spilled": 2**21})
    run = RunState()
    run.follow("job-1")
    run.fold(log.events)
    run.advise("job-1", [("workers 4: −50 % <time>", 0.5)])
    bundle = final_bundle(run.picture(log.time))
    assert bundle["text/plain"] == "jmars succeeded: 1.0 s · peak 4.0 MiB · 2.0 MiB on disk"
    image = bundle["text/html"].split("base64,")[1].split('"')[0]
    texts = [node.text for node in ElementTree.fromstring(base64.b64decode(image)).iter() if node.text]
    assert not [text for text in texts if "predicted" in text]
    assert "next time: workers 4: −50 % <time>" in texts


def test_a_run_without_a_graph_has_a_picture_too():
    log = started(4)
    del log.events[2]
    ElementTree.fromstring(picture_svg(picture_of(log)))


def test_bytes_on_disk_have_a_scale_of_their_own_where_there_were_any():
    def words(log):
        root = ElementTree.fromstring(picture_svg(picture_of(log)))
        return [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]

    spilled = words(started(4).memory(2**20, 2**21, 2**33).memory(2**20, 2**21, 2**33))
    assert {"1.0 GiB", "8.0 GiB", "chunks on disk"} <= {*spilled}  # the limit of memory, and the most on disk
    assert "chunks on disk" not in words(started(4).memory(2**20, 2**21).memory(2**20, 2**21))


def test_all_words_are_within_the_picture():
    log = finished().memory(2**30, 2**30, 2**30)
    root = ElementTree.fromstring(picture_svg(picture_of(log)))
    for node in root.iter("{http://www.w3.org/2000/svg}text"):
        if node.get("text-anchor") != "end":
            assert float(node.get("x")) + 6.4 * len(node.text or "") <= float(root.get("width")), node.text


@pytest.mark.parametrize(
    "name", ["<img src=x onerror=alert(1)>", "</svg><script>", '"><svg onload=alert(1)>', "a\x00b"]
)
def test_hostile_texts_stay_text(name):
    log = finished().add("JobMoved", state="failed", error=name, elapsed=1.0)
    bundle = final_bundle(picture_of(log))
    assert bundle["text/html"].count("<") == 1
    image = base64.b64decode(bundle["text/html"].split("base64,")[1].split('"')[0])
    root = ElementTree.fromstring(image)
    assert {node.tag.split("}")[1] for node in root.iter()} <= {"svg", "rect", "text", "path", "polyline", "polygon"}


def test_the_text_line_has_no_times():
    assert text_line(picture_of(finished())) == "jmars: succeeded, 9 operands, 5 after fusion"
    log = started(4).add("JobMoved", 3.0, state="failed", error="boom", elapsed=3.0)
    picture = picture_of(log)
    assert text_line(picture) == "jmars: failed, 9 operands, 5 after fusion"
    assert summary(picture["snap"]).endswith(": boom")


def test_each_state_has_a_colour_of_its_own():
    assert len(set(COLOURS)) == len(S)


def test_the_view_has_the_same_colours_and_workers_have_others():
    css = (Path(__file__).parents[2] / "labextension" / "style" / "view.css").read_text()
    light = dict(re.findall(r"--jm-(\w\d): (#\w+);", css[: css.index("[data-jp-theme-light")]))
    dark = light | dict(re.findall(r"--jm-(\w\d): (#\w+);", css[css.index("[data-jp-theme-light") :]))
    assert [light[f"s{state}"] for state in range(len(S))] == list(COLOURS)
    for theme in (light, dark):
        states = {theme[f"s{state}"] for state in range(len(S))}
        workers = {theme[f"w{k}"] for k in range(8)}
        assert (len(states), len(workers), states & workers) == (len(S), 8, set())
