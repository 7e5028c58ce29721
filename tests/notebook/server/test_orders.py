"""What a page may ask for when it starts or scales a cluster."""

from __future__ import annotations

import pytest

from jmars.notebook.server.orders import OrderError, StartOrder, scale_order


def test_what_is_left_out_has_the_default_of_the_cluster():
    assert StartOrder.read({"kind": "local"}) == StartOrder("local")
    assert StartOrder.read({"kind": "local", "workers": None, "memory": " ", "name": ""}) == StartOrder("local")
    assert StartOrder.read({"kind": "ray"}).address == ""


def test_addresses_and_places():
    places = ("node-7", "ada@node-7:2222", "local", "[fe80::1]:22")
    assert StartOrder.read({"kind": "ssh", "hosts": list(places)}).hosts == places
    assert StartOrder.read({"kind": "ssh", "hosts": ["a"], "python": "~/env/bin/python"}).python == "~/env/bin/python"
    assert StartOrder.read({"kind": "dask", "address": "head:8786"}).address == "tcp://head:8786"
    assert StartOrder.read({"kind": "dask", "address": "tls://10.0.0.1:8786"}).address == "tls://10.0.0.1:8786"
    assert StartOrder.read({"kind": "ray", "address": "ray://head:10001"}).address == "ray://head:10001"
    assert StartOrder.read({"kind": "ray", "address": "head:6379"}).address == "head:6379"


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {},
        {"kind": "batch"},
        {"kind": "local", "command": "rm"},
        {"kind": "local", "workers": 0},
        {"kind": "local", "workers": True},
        {"kind": "local", "workers": "4"},
        {"kind": "local", "workers": 10**9},
        {"kind": "local", "memory": "much"},
        {"kind": "local", "memory": 5},
        {"kind": "local", "name": "-x"},
        {"kind": "local", "name": "a\nimport os"},
        {"kind": "local", "name": "<img src=x>"},
        {"kind": "ssh"},
        {"kind": "ssh", "hosts": []},
        {"kind": "ssh", "hosts": "node-7"},
        {"kind": "ssh", "hosts": ["-oProxyCommand=touch owned"]},
        {"kind": "ssh", "hosts": ["a;b"]},
        {"kind": "ssh", "hosts": ["a"] * 1000},
        {"kind": "ssh", "hosts": ["a"], "python": "-c"},
        {"kind": "ssh", "hosts": ["a"], "python": "python3; touch owned"},
        {"kind": "dask"},
        {"kind": "dask", "address": "head"},
        {"kind": "dask", "address": "http://head:1"},
        {"kind": "dask", "address": "file:///etc/passwd"},
        {"kind": "dask", "address": "tcp://head:99999"},
        {"kind": "dask", "address": "tcp://a b:1"},
        {"kind": "ray", "address": "ray://user:secret@head:1"},
        {"kind": "ray", "address": "head:1?x=1"},
    ],
)
def test_all_else_is_refused(fields):
    with pytest.raises(OrderError):
        StartOrder.read(fields)


def test_scaling_takes_a_number_places_or_bounds():
    assert scale_order({"n": 0}) == ("scale", 0) and scale_order({"n": ["node-9"]}) == ("scale", ["node-9"])
    assert scale_order({"least": 0, "most": 4}) == ("adapt", 0, 4)
    for wrong in (
        {"least": 2},
        {"most": 2},
        {"least": 3, "most": 2},
        {"least": "1", "most": 2},
        {"least": 0, "most": 0},
    ):
        with pytest.raises(OrderError):
            scale_order(wrong)
    for wrong in (None, {}, {"n": -1}, {"n": "3"}, {"n": 1.5}, {"n": []}, {"n": ["-x"]}, {"n": [3]}):
        with pytest.raises(OrderError):
            scale_order(wrong)
