"""Graphs as text for Graphviz, drawn and saved; texts of users cannot leave their strings."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import GraphError, JmarsError
from jmars.reports.graph_dot import SMALL, Drawing, GraphColours, graph_dot

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs dot (Debian package graphviz)")


def total(chunks: int) -> mt.Tensor:
    return (mt.ones(10 * chunks, chunk_size=10) * 2 + 1).sum()


def test_small_graphs_have_a_box_per_operand() -> None:
    plan = total(4).plan()
    text = plan.visualize().dot
    assert text.count("[label=") == plan.operands_before + plan.operands
    assert f"after fusion: {plan.operands} operands" in text and "before0 -> before" in text
    assert "before fusion" not in plan.visualize(fusion="after").dot
    assert "after fusion" not in plan.visualize(fusion="before").dot


def test_large_graphs_have_a_box_per_layer() -> None:
    text = total(SMALL).visualize().dot
    assert text.count("[label=") < 20 and f"{SMALL} operands" in text


def test_texts_of_users_stay_in_their_strings() -> None:
    graph = {
        "n_before": 1, "n_after": 1, "after_labels": ['a"];evil [label="'], "stages": [["add", "f", 1, '\\"];x\n{', 1]],
        "before_stage": b"\0\0\0\0", "before_src": b"", "before_dst": b"", "after_src": b"", "after_dst": b"",
        "after_group": b"\0\0\0\0", "group_labels": ["a"], "group_edges": [], "stage_edges": [],
    }  # fmt: skip
    text = graph_dot(graph)
    assert r'[label="a\"];evil [label=\""' in text and r'\\\"];x\n{"' in text


def test_colours() -> None:
    states = GraphColours.by_state(["running", "fatal", "running"])
    assert states.fills[0] == states.fills[2] != states.fills[1]
    assert [text for text, _ in states.legend] == ["running", "fatal"]
    workers = GraphColours.by_worker([1, -1], ["worker-0", "worker-1"])
    assert workers.fills[1] == "" and [text for text, _ in workers.legend] == ["worker-1"]
    seconds = GraphColours.by_seconds(np.array([0.5, 0.0]))
    assert seconds.notes == ["0.50 s", ""] and seconds.fills == ["0.03 1.000 1.0", "0.03 0.000 1.0"]


@needs_dot
def test_drawings_are_saved_in_each_format(tmp_path: Path) -> None:
    first = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF", "dot": b"digraph"}
    for kind, begin in first.items():
        total(3).visualize(tmp_path / f"graph.{kind}")
        assert (tmp_path / f"graph.{kind}").read_bytes().startswith(begin)
    assert "<svg" in total(3).visualize()._repr_svg_()
    with pytest.raises(ValueError, match=r"name the file .svg, .png, .pdf or .dot"):
        total(3).visualize(tmp_path / "graph.gif")


def test_without_dot_the_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JmarsError, match="apt-get install graphviz"):
        Drawing("digraph {}").save(tmp_path / "graph.svg")
    assert Drawing("digraph {}").save(tmp_path / "graph.dot").read_text() == "digraph {}"


def test_a_plan_from_json_has_no_graph() -> None:
    plan = total(3).plan()
    with pytest.raises(GraphError, match="draw the plan of the tensors"):
        type(plan).from_json(plan.to_json()).visualize()
    with pytest.raises(ValueError, match="choose 'kind' or 'seconds'"):
        plan.visualize(colour="state")


def test_jobs_are_coloured_by_what_ran() -> None:
    with jmars.Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        job = cluster.submit(total(4))
        job.result()
        assert "worker-0" in job.visualize(colour="worker").dot
        assert "longest: " in job.visualize(colour="seconds").dot
        states = job.visualize(colour="state").dot
        assert "freed" in states or "finished" in states
        assert "colours" not in job.visualize().dot
        with pytest.raises(ValueError, match="colour is 'size'"):
            job.visualize(colour="size")
