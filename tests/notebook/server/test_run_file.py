"""Files of runs in a process of their own: crafted files end with an error, and hold up nobody."""

import asyncio
import zlib

import pytest

from jmars.errors import JmarsError
from jmars.notebook.replay import Replay
from jmars.notebook.server import run_file
from jmars.reports.saved_run import save_run
from tests.notebook.events_for_tests import started

HEAD = b"jmars run 1\n"
LISTS = (b"\xdc\x00\x40" + b"\x90" * 64) * 65_535  # four million empty lists
NESTED = HEAD + zlib.compress(b"\x83\xa3job\xa1j\xa4name\xa1n\xa6events\xdc\xff\xff" + LISTS, 9)


def test_a_run_is_read(tmp_path):
    save_run(tmp_path / "a.run", started(4).events, "job-1", "one")
    found = asyncio.run(run_file.replay_of((tmp_path / "a.run").read_bytes()))
    assert found == Replay(tmp_path / "a.run").data


@pytest.mark.parametrize(("data", "told"), [(b"no run", "the file holds no run"), (HEAD + b"x", "the file is damaged")])
def test_what_is_no_run_is_said(data, told):
    with pytest.raises(JmarsError, match=told):
        asyncio.run(run_file.replay_of(data))


def test_a_file_that_needs_more_memory_ends_its_own_process(monkeypatch):
    monkeypatch.setattr(run_file, "MEMORY", 2**27)
    assert len(NESTED) < 20_000
    with pytest.raises(JmarsError, match=r"was not read with 128\.0 MiB of memory"):
        asyncio.run(run_file.replay_of(NESTED))
