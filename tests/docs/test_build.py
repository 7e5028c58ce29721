"""Sphinx builds the pages and the reference of classes without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


@pytest.mark.long
@pytest.mark.timeout(900)
def test_pages_and_docstrings_build_without_a_warning(tmp_path: Path) -> None:
    html = tmp_path / "html"
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    command += ["-b", "html", "-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(html)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=800, cwd=ROOT)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    for page, name in (("tensor", "Tensor.rechunk"), ("plan", "choose"), ("flow", "GraphBuilder")):
        assert f'id="jmars.{page}.{name}"' in (html / "reference" / "api" / f"{page}.html").read_text()
