"""Seed 003, "作业提交": a client that has no jmars, only curl: docs/how-to/use-rest-with-curl.md does what it says."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jmars.client import Cluster
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "use-rest-with-curl.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed (a Debian package)")
def test_s3_3_a_run_with_curl_alone(tmp_path: Path) -> None:
    parts = blocks(PAGE)
    (document,) = [text for language, _, text in parts if language == "json"]
    (tmp_path / "graph.json").write_text(document)
    script, expected = [], []
    for language, _, text in parts:
        if language == "sh":
            script.append(text)
        elif language == "text":
            expected.append(text)
    (command,) = [text for language, _, text in parts if language == "console"]
    assert command == "$ python -m jmars web > gateway.txt &\n"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C"}  # nothing of ours
    with Cluster(n_workers=2, memory_limit="512MiB"):
        with open(tmp_path / "gateway.txt", "w") as printed:
            gateway = subprocess.Popen([sys.executable, "-m", "jmars", "web"], stdout=printed, cwd=ROOT)
        try:
            wait = "until [ $(wc -l < gateway.txt) = 2 ]; do sleep 0.05; done\n"
            text = "set -o pipefail\n" + wait + "\n".join(script)
            answer = subprocess.run(
                ["bash", "-c", text], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100
            )
        finally:
            gateway.send_signal(signal.SIGTERM)
            assert gateway.wait(60) == 0
    assert answer.stdout.replace("\r", "") == "".join(expected), answer.stderr
    x = np.random.default_rng(7).random((1000, 400))
    assert np.allclose(np.load(tmp_path / "mean.npy", allow_pickle=False), x.mean(0), rtol=1e-14)
    part = np.load(tmp_path / "part.npy", allow_pickle=False)
    assert part.shape == (10, 4) and np.allclose(part, (x - x.mean(0))[:10, ::100], rtol=1e-12, atol=1e-14)
    assert np.load(tmp_path / "top.npy", allow_pickle=False) == np.load(tmp_path / "mean.npy").max()
