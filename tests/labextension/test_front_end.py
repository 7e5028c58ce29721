"""The front end passes its own tests: `vitest` in labextension/, with the packages that its build installed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jmars.notebook.widget import is_stale

FOLDER = Path(__file__).parents[2] / "labextension"


@pytest.mark.timeout(400)
def test_the_front_end_passes_its_own_tests(tmp_path):
    program = FOLDER / "node_modules" / "vitest" / "vitest.mjs"
    bin_folder = Path(sys.executable).parent
    node = shutil.which("node", path=f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    if not program.exists() or node is None:
        pytest.skip("no node, or no packages: run `jlpm` in labextension/")
    env = os.environ | {"NO_COLOR": "1", "CI": "true", "HOME": str(tmp_path)}
    command = [node, str(program), "run", "--no-isolate", "--maxWorkers=1"]  # one process: node and jsdom start once
    done = subprocess.run(command, cwd=FOLDER, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    passed = re.search(r"Tests\s+(\d+) passed", done.stdout)
    assert passed and int(passed[1]) > 0, done.stdout


def test_the_built_front_end_is_of_these_sources():
    assert not is_stale(), "run `jlpm build:prod` in labextension/"


def test_a_change_of_a_source_makes_the_build_stale(tmp_path):
    (tmp_path / "src" / "draw").mkdir(parents=True)
    (tmp_path / "src" / "draw" / "a.ts").write_text("export const a = 1;")
    assert not is_stale(tmp_path, tmp_path)  # it is not known of which sources the build is
    (tmp_path / "sources.sha256").write_text(hashlib.sha256(b"src/draw/a.ts\nexport const a = 1;").hexdigest() + "\n")
    assert not is_stale(tmp_path, tmp_path)
    (tmp_path / "src" / "draw" / "a.ts").write_text("export const a = 2;")
    assert is_stale(tmp_path, tmp_path)
