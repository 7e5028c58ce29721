"""The examples in docstrings run."""

from __future__ import annotations

import builtins
import doctest
import importlib
import os
import subprocess
import sys

import pytest

from tests.house.source import modules

WITH_EXAMPLES = [module.name for module in modules() if ">>>" in module.text]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

NEEDS_CLUSTER = ("tensor", "client", "deploy")

PROGRAM = """
import doctest, importlib, sys
import numpy
import jmars, jmars.tensor
flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
failed = 0
with jmars.Cluster(n_workers=1, memory_limit="512MiB"):
    for name in sys.argv[1:]:
        names = {"np": numpy, "numpy": numpy, "jmars": jmars, "mt": jmars.tensor}
        failed += doctest.testmod(importlib.import_module(name), extraglobs=names, optionflags=flags).failed
sys.exit(failed != 0)
"""


@pytest.mark.parametrize("name", [name for name in WITH_EXAMPLES if name.split(".")[1] not in NEEDS_CLUSTER])
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "_", None, raising=False)  # what an example shows is not left for IPython to find
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.attempted and not result.failed


def test_examples_on_a_cluster() -> None:
    names = [name for name in WITH_EXAMPLES if name.split(".")[1] in NEEDS_CLUSTER]
    environment = os.environ | {"JMARS_DISPLAY": "none"}
    command = [sys.executable, "-c", PROGRAM, *names]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert answer.returncode == 0, answer.stdout + answer.stderr
