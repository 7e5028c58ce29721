"""Replays in Python: what an output and a page hold, sizes, damaged and crafted files, the command."""

from __future__ import annotations

import json
import random
import re
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars
from jmars.__main__ import run
from jmars.errors import JmarsError
from jmars.notebook import replay as replays
from jmars.notebook.replay import REPLAY_TYPE, replay_data
from jmars.notebook.run_state import RunState
from jmars.reports.saved_run import save_run
from tests.browser.simulated import simulate
from tests.browser.simulated_hosts import on_hosts

BUILT = (replays.replay_page.__globals__["STATIC"] / "replay.js").exists()
needs_front_end = pytest.mark.skipif(not BUILT, reason="the front end is not built")


def head_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON and the columns of replay data."""
    raw = zlib.decompress(data)
    size = int.from_bytes(raw[:4], "little")
    return json.loads(raw[4 : 4 + size]), raw[4 + size :]


@pytest.mark.parametrize(
    "events", [simulate(32), simulate(200), on_hosts(2, 4, lost_at=4.0)], ids=["32", "200", "hosts"]
)
def test_the_last_keyframe_is_the_last_picture(events):
    head, _ = head_of(replay_data(events, "job-1"))
    run = RunState(view="full")
    run.follow("job-1")
    run.fold(events)
    last = run.picture(events[-1][1])
    found: dict[str, Any] = {}
    for key in head["keys"]:
        found |= key
    for name in ("graph", "workers", "hosts", "series", "lanes", "plan", "snap", "code"):
        assert found[name] == json.loads(json.dumps(last[name])), name  # type: ignore[literal-required]
    assert len(head["keys"]) < 700


def test_moves_are_those_of_the_log():
    events = simulate(32)
    head, columns = head_of(replay_data(events, "job-1"))

    def column(name: str, dtype: str) -> Any:
        at, length, kind = head["columns"][name]
        assert dtype.endswith(kind)
        return np.frombuffer(columns, dtype, length, at)

    states = np.zeros(head["tables"][0]["n"], int)
    first = 0
    ids, sizes = column("ids", "<u4"), column("size", "<u4")
    for state, size in zip(column("state", "u1"), sizes, strict=True):
        states[np.cumsum(ids[first : first + size])] = state
        first += size
    run = RunState()
    run.follow("job-1")
    run.fold(events)
    assert run.job and run.job.table
    assert states.tolist() == run.job.table.states.tolist()


@pytest.mark.long
def test_a_run_of_20000_operands_is_small(tmp_path: Path):
    path = save_run(tmp_path / "large.run", simulate(2200, seconds=60), "job-1", "large")
    assert path.stat().st_size < 2e6
    found = jmars.replay(path)
    assert len(found.data) < 2e6


@needs_front_end
def test_an_output_holds_the_replay_and_a_page_in_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = save_run(tmp_path / "one.run", simulate(3), "job-1", "<b>In [1]")
    found = jmars.replay(path)
    bundle = found._repr_mimebundle_()
    assert head_of(b64decode(bundle[REPLAY_TYPE]["runs"][0]))[0]["name"] == "<b>In [1]"
    assert bundle["text/html"].startswith("<iframe ") and 'sandbox="allow-scripts"' in bundle["text/html"]
    assert "<b>" not in bundle["text/html"] and bundle["text/plain"] == found.summary()
    page = found.page(tmp_path / "page.html").read_text()
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page) and "default-src 'none'" in page
    monkeypatch.setattr(replays, "_LARGEST", 100)
    assert REPLAY_TYPE not in found._repr_mimebundle_() and "too large" in found._repr_mimebundle_()["text/plain"]


def test_no_crafted_file_raises_anything_but_a_clear_error(tmp_path: Path):
    """Any field of any event replaced by something else: the file is refused, or read."""
    path, random_ = tmp_path / "crafted.run", random.Random(0)
    values = [None, -1, 10**12, 1e300, float("nan"), "x", b"", b"abc", [], [[]], {}, {"a": 1}, [None] * 3, b"\xff" * 64]
    refused = 0
    for _ in range(150):
        events = simulate(3, seconds=1.0)
        for _ in range(random_.choice([1, 1, 3])):
            event = random_.choice([one for one in events if isinstance(one[4], dict) and one[4]])
            if random_.random() < 0.2:
                event[random_.randrange(5)] = random_.choice(values)
            else:
                event[4][random_.choice(list(event[4]))] = random_.choice(values)
        try:
            save_run(path, events, "job-1", "")
        except (ValueError, OverflowError, TypeError):
            continue  # msgpack cannot write it
        try:
            assert jmars.replay(path).data
        except JmarsError as error:
            refused += 1
            assert "is damaged" in str(error) and len(str(error)) < 500
    assert refused > 20


def test_files_that_are_cut_off_or_unpack_to_much_are_refused(tmp_path: Path):
    path = save_run(tmp_path / "one.run", simulate(3), "job-1", "")
    data = path.read_bytes()
    nested = b"\x91" * 100_000 + b"\xc0"
    bomb = zlib.compress(b"\0" * (200 * 2**20), 1)
    array = b"\x83\xa3job\xa1j\xa4name\xa1n\xa6events\xdd\xff\xff\xff\xff"
    for body in (data[12 : len(data) // 2], zlib.compress(nested), bomb, zlib.compress(array), b""):
        path.write_bytes(b"jmars run 1\n" + body)
        with pytest.raises(JmarsError, match="is damaged"):
            jmars.replay(path)


@needs_front_end
def test_the_command_writes_a_page_of_one_run_or_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    paths = [str(save_run(tmp_path / f"{k}.run", simulate(8, seed=k), "job-1", f"run {k}")) for k in (1, 2)]
    page = tmp_path / "page.html"
    assert run(["replay", paths[0], "--page", str(page)]) == 0 and "First" not in page.read_text()[-3000:]
    assert run(["replay", *paths, "--page", str(page)]) == 0
    assert "first difference, at" in capsys.readouterr().out and '"difference": {' in page.read_text()
    assert run(["replay", *paths, "--report", str(page)]) == 1 and "of one run" in capsys.readouterr().err
    with pytest.raises(TypeError, match="one file or two"):
        jmars.replay()
