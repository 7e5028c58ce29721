"""RayEngine on a real Ray of one node, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

pytest.importorskip("ray", reason="ray is not installed")

from jmars.engines.ray_nodes import RayConnection, nodes_of
from jmars.errors import ClusterStartError
from tests.engines.ray_child import NAMES

SECONDS = 120


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, str]]:
    """The error of each case, "" for none."""
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # short: Ray's sockets lie in it
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engines.ray_child"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"JMARS_CHILD_FOLDER": folder, "HOME": folder, "RAY_USAGE_STATS_ENABLED": "0"},
    )
    try:
        out, errors = process.communicate(timeout=SECONDS)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        yield {line["case"]: line["error"] for line in lines} | {"": errors}
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # as it should be
            pass
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long(beyond=2)
@pytest.mark.parametrize("name", NAMES)
def test_case(name, answers):
    assert name in answers, answers[""]
    assert not answers[name], answers[name]


def test_nodes_of_one_machine_have_names_of_their_own():
    nodes = [
        {"NodeID": key * 8, "Alive": key != "c", "NodeManagerAddress": "10.0.0.7", "Resources": {"CPU": cpus}}
        for key, cpus in [("a", 4.0), ("b", 2.0), ("c", 2.0), ("d", 0.0)]
    ]
    assert [(one.name, one.cores) for one in nodes_of(nodes).values()] == [("node-10.0.0.7", 4), ("node-bbbbbb", 2)]


def test_no_ray_answers():
    with pytest.raises(ClusterStartError, match="no Ray answers at"):
        RayConnection.open("127.0.0.1:9", {})
