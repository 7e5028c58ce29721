"""A slot whose pull was withdrawn is not written any more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.transport.carriers import carriers, noise, pulled, pump
from tests.contract.transport.test_losses import CHUNK, DATA, INTO, MB, in_the_middle


def test_a_pull_in_the_middle_is_withdrawn():
    with carriers(0, 1) as hosts:
        reader, source = hosts
        ticket = in_the_middle(reader, source)
        reader.send("withdraw", ticket)
        pump([reader], lambda: ticket in reader.withdrawn)
        reader.memory[INTO : INTO + CHUNK] = bytes(CHUNK)
        source.answers = None
        source.answer()
        pump(hosts, lambda: not source.open_requests)
        assert pulled(hosts, reader, reader.pull(1, 0, MB, 0, source)) == ""  # whatever was on the way has come
        assert not any(reader.memory[INTO : INTO + CHUNK]) and ticket not in reader.pulled


@pytest.mark.long
@settings(max_examples=20)
@given(st.integers(0, 12), st.booleans())
def test_a_pull_that_streams_is_withdrawn(requests, from_file):
    import tempfile

    with carriers(0, 1) as hosts, tempfile.TemporaryDirectory() as folder:
        reader, source = hosts
        if from_file:
            source.spill(1, folder, DATA)
        else:
            source.fill(1, 4096, DATA)
        ticket = reader.pull(1, 0, CHUNK, INTO, source)
        pump(hosts, lambda: len(source.asked) >= requests or ticket in reader.pulled)
        reader.send("withdraw", ticket)
        pump(hosts, lambda: ticket in reader.withdrawn)
        reader.memory[INTO : INTO + CHUNK] = bytes(CHUNK)
        assert pulled(hosts, reader, reader.pull(1, 0, 5 * MB, 0, source)) == ""
        pump(hosts, lambda: not source.open_requests)
        assert not any(reader.memory[INTO : INTO + CHUNK]) and reader.memory[: 5 * MB] == DATA[: 5 * MB]


def test_withdrawn_pulls_that_wait_or_have_ended_or_never_were():
    with carriers(0, 1) as hosts:
        reader, source = hosts
        source.fill(1, 4096, noise(100))
        reader.send("withdraw", 99)
        ended = reader.pull(1, 0, 100, INTO, source)
        pulled(hosts, reader, ended)
        reader.send("withdraw", ended)
        source.answers = 0
        waits = reader.pull(1, 0, 100, INTO, source)
        reader.send("withdraw", waits)
        pump(hosts, lambda: reader.withdrawn == {99, ended, waits})
