"""A cluster on this machine: what cannot start says why."""

import sys

import pytest

from jmars.deploy.control_process import local
from jmars.errors import ClusterStartError


def test_another_system_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ClusterStartError, match=r"Linux only .* darwin"):
        local(1, 1, None, None, "")


def test_a_control_process_that_cannot_start_tells_its_last_words(monkeypatch, tmp_path):
    broken = tmp_path / "msgpack.py"
    broken.write_text("raise ImportError('msgpack is broken here')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ClusterStartError, match="msgpack is broken here"):
        local(1, 1, None, None, "")
