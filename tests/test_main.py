"""`python -m jmars`: what a process of a cluster does before its own work begins."""

import subprocess
import sys

PROGRAM = """
import gc, sys, types
from jmars.__main__ import run
import jmars

told = types.ModuleType("told")
told.main = lambda: print(gc.isenabled(), gc.get_freeze_count() > 10_000)
sys.modules["jmars.deploy.host"] = told
assert run(["host"]) == 0
"""


def test_a_process_of_a_cluster_looks_for_garbage_but_not_among_its_modules():
    answer = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    assert answer.stdout.split() == ["True", "True"]
