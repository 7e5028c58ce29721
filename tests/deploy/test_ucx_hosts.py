"""Hosts of a cluster read chunks by UCX when the user says so, and tell the choice with its reason."""

from __future__ import annotations

import pytest

import jmars
import jmars.tensor as mt
from jmars.model import events

pytest.importorskip("ucxx", reason="ucxx is not installed: pip install 'jmars[ucx-cu12]'")


@pytest.mark.parametrize("ucx, transport", [(True, "ucx"), ("auto", "tls"), (False, "tls")])
def test_the_choice_stands_in_info_and_events(ucx: bool | str, transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCX_TLS", "tcp")
    reasons = {True: "ucx=True", "auto": "no RDMA device", False: ""}
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="512MiB", ucx=ucx) as cluster:
        x = mt.ones((1600, 1600), chunk_size=400)
        links: list[dict[str, object]] = []
        while not links or any(link["transport"] == "head" for link in links):  # as long as carriers start
            assert float((x @ x.T).sum().execute().fetch()) == 1600.0**3
            links = cluster.info()["links"]
        told = [event[4] for event in cluster.events()[0] if event[2] == events.LINK_MEASURED]
    assert all(link["transport"] == transport and reasons[ucx] in str(link["why"]) for link in links)
    chosen = [one for one in told if one["transport"] != "head"]
    assert chosen and all(one["transport"] == transport and reasons[ucx] in one["why"] for one in chosen[:1])
