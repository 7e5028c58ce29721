"""A plan as HTML and pictures: complete, bounded, and nothing of a user's but text."""

import base64
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.client.plans import plan_for
from jmars.client.plans.plan_html import graphs_svg, layout_layers, timeline_svg
from jmars.plan import Profile

MB = 2**20


def planned(tensor, **how):
    return plan_for([tensor.data], 2, 512 * MB, known=Profile().as_data(), **how)


def example(n=512, chunk=128):
    x = mt.random.default_rng(1).random((n, n), chunk_size=chunk)
    return ((x + 1) * 2).rechunk((chunk // 2, n)).sum(axis=0)


def texts(svg):
    return [node.text for node in ElementTree.fromstring(svg).iter() if node.text]


def test_the_page_has_the_facts_two_pictures_and_what_was_tried():
    html = planned(example(), policy="lean")._repr_html_()
    root = ElementTree.fromstring(html)
    images = [base64.b64decode(node.get("src").split("base64,")[1]) for node in root.iter("img")]
    assert len(images) == 2
    assert "before fusion: 67 operands" in texts(images[0])
    assert any("in memory" in text for text in texts(images[1]))
    assert [node.text.split(" (")[0] for node in root.iter("summary")] == [
        "fused operands",
        "critical path",
        "plans tried",
    ]


def test_what_if_stands_beside_what_was():
    html = planned(example()).what_if(workers=4)._repr_html_()
    rows = [[cell.text for cell in row] for row in ElementTree.fromstring(html).iter("tr")]
    assert rows[0] == [None, "before", "then", "change"]
    assert rows[1][0] == "time" and rows[1][3].startswith("−")


def test_texts_of_users_stay_text():
    def hostile(x):
        return x

    hostile.__name__ = "</text><script>alert(1)</script>"
    plan = planned(mt.map_blocks(hostile, mt.ones(8, chunk_size=4), dtype=float))
    assert "<script" not in plan._repr_html_()
    for svg in (graphs_svg(plan), timeline_svg(plan)):
        assert {node.tag.split("}")[1] for node in ElementTree.fromstring(svg).iter()} <= {
            "svg",
            "rect",
            "text",
            "path",
        }
    assert any("script" in text for text in texts(graphs_svg(plan)))


def test_a_large_plan_is_drawn_by_kind_and_bounded():
    plan = planned(example(6400, 100))
    assert plan.operands > 4000
    assert len(plan._repr_html_()) < 700_000
    assert any(re.fullmatch(r"random.* ×4096", text) for text in texts(graphs_svg(plan)))


def test_an_operation_has_one_hue_before_and_after_fusion():
    x = mt.ones((8, 8), chunk_size=(8, 4))
    svg = graphs_svg(planned(((x + 1).sum(axis=0) - x.std(axis=0)).max()))
    named = re.findall(r'width="5" height="20" fill="(#\w+)"/><text[^>]*>([a-z]+)', svg)
    assert len({name for _, name in named}) == len(set(named)) > 3
    assert len({hue for hue, _ in named}) == len(set(named))


def test_a_plan_of_nothing_has_a_page_too(cluster):
    x = mt.ones(4).execute()
    assert "0 operands" in x.plan()._repr_html_()


@pytest.mark.parametrize("policy", ["lean", "bfs", "cascade-merge"])
def test_several_machines_have_a_lane_each(policy):
    svg = timeline_svg(planned(example()).what_if(hosts=3, policy=policy))
    assert {"machine 0", "machine 1", "machine 2"} <= set(texts(svg))


@given(
    st.integers(0, 12).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, max(0, n - 1))] * 2)))
    )
)
def test_every_box_stands_in_one_layer_below_what_it_reads(graph):
    n, edges = graph
    edges = [(min(a, b), max(a, b)) for a, b in edges if n]
    rows = layout_layers(n, edges)
    layer = {box: k for k, row in enumerate(rows) for box in row}
    assert sorted(layer) == list(range(n)) and len(layer) == sum(map(len, rows))
    assert all(layer[a] < layer[b] for a, b in edges if a != b)


def test_a_cycle_of_stages_does_not_hang():
    assert sorted(np.concatenate(layout_layers(3, [(0, 1), (1, 0), (1, 2)])).tolist()) == [0, 1, 2]
