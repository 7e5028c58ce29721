"""The process of a host that joined: it starts again when its janitor has ended, also a janitor that was stopped."""

from __future__ import annotations

import os
import sys

import pytest

from jmars.deploy import member_process

STOPS = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"


def test_a_stopped_janitor_is_woken_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_process, "WAKE_SECONDS", 0.01)
    janitor = os.posix_spawn(sys.executable, [sys.executable, "-c", STOPS], os.environ)
    _, status = os.waitpid(janitor, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    member_process._wait_for_janitor(janitor)
    with pytest.raises(ChildProcessError):
        os.waitpid(janitor, 0)
