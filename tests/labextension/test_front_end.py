"""The front end passes its own tests: `vitest` in labextension/, with the packages that its build installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
