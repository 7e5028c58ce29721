"""`python -m jmars`: what a process of a cluster does before its own work begins."""

import subprocess
import sys

import jmars
from jmars.__main__ import run

PROGRAM = """
import gc, sys, types
from jmars.__main__ import run
import jmars.tensor

told = types.ModuleType("told")
told.main = lambda: print(gc.isenabled(), gc.get_freeze_count() > 10_000)
sys.modules["jmars.deploy.host"] = told
assert run(["host"]) == 0
"""


def test_a_process_of_a_cluster_collects_garbage_but_not_of_modules():
    answer = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    assert answer.stdout.split() == ["True", "True"]


def test_help_and_version_are_no_mistakes(capsys):
    assert run(["--version"]) == 0 and capsys.readouterr().out == f"{jmars.__version__}\n"
    assert run(["--help"]) == 0 and "usage" in capsys.readouterr().out
    assert "usage" in run(["nonsense"])


def test_on_windows_the_import_says_where_jmars_runs():
    program = "import sys; sys.platform = 'win32'; import jmars"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert told.stderr.endswith("ImportError: jmars runs on Linux, and on Windows in WSL 2: install it there\n")
