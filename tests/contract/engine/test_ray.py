"""The whole suite on a Ray of two nodes, in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SECONDS = 600
HERE = Path(__file__).parent


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.skipif("JMARS_CONTRACT_KINDS" in os.environ, reason="this is the process of its own")
@pytest.mark.parametrize("kind", ["ray", "ray-inside"])
@pytest.mark.parametrize("what", [[HERE], [HERE / "test_works.py", "--all"]], ids=["suite", "works"])
def test_the_suite_passes_on_ray(what, kind):
    pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("jmars.engines.ray", exc_type=ImportError)
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # short: Ray's sockets lie in it
    options = ["-q", "-p", "no:jmars-leak-check", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]
    ours = os.path.join(folder, "jmars")  # apart from Ray's files
    os.mkdir(ours, 0o700)
    folders = dict.fromkeys(["HOME", "TMPDIR", "RAY_TMPDIR"], folder) | {"JMARS_RUNTIME_DIR": ours}
    settings = {"JMARS_CONTRACT_KINDS": kind} | folders
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *map(str, what)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | settings | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"},
    )
    try:
        out, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, out[-6000:]
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # as it should be
            pass
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
