"""Two machines, a cable between them, and sshd on the second; all made for each test anew, and gone after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import ROOT
from tests.multihost.cables import Cable
from tests.multihost.machines import Machine, need_machines
from tests.multihost.ssh_server import SshServer


@pytest.fixture
def head() -> Iterator[Machine]:
    """The machine of the user; `head.network()` brings the test there."""
    need_machines()
    machine = Machine("head")
    yield machine
    machine.close()


@pytest.fixture
def far() -> Iterator[Machine]:
    """Another machine."""
    need_machines()
    machine = Machine("far")
    yield machine
    machine.close()


@pytest.fixture
def cable(head: Machine, far: Machine) -> Cable:
    """The cable between the two, which goes with them."""
    return Cable(head, far)


@pytest.fixture
def sshd(far: Machine, cable: Cable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """sshd on the other machine; $HOME has the keys for it, and no agent is there."""
    environment = {name: os.environ[name] for name in ("TMPDIR", "JMARS_RUNTIME_DIR")} | {"PYTHONPATH": str(ROOT)}
    server = SshServer(far, cable.addresses["far"], tmp_path, environment)
    monkeypatch.setenv("HOME", str(server.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield server
    server.close()
