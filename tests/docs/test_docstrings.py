"""The examples in docstrings run."""

from __future__ import annotations

import builtins
import doctest
import importlib
import os
import re
import subprocess
import sys

import pytest

from tests.house.source import modules

WITH_EXAMPLES = [module.name for module in modules() if ">>>" in module.text]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
STARTS_CLUSTER = {
    module.name for module in modules() if re.search(r">>> with jmars\.(Cluster|new_session)\(", module.text)
}
NEEDS_CLUSTER = ("jmars", "jmars.tensor", "jmars.client", "jmars.deploy", "jmars.annex")

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


@pytest.mark.parametrize("name", [name for name in WITH_EXAMPLES if ".".join(name.split(".")[:2]) not in NEEDS_CLUSTER])
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "_", None, raising=False)  # what an example shows is not left for IPython to find
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.attempted and not result.failed


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("own", [False, True], ids=["open before", "of their own"])
def test_examples_on_a_cluster(own: bool) -> None:
    modules = [name for name in WITH_EXAMPLES if ".".join(name.split(".")[:2]) in NEEDS_CLUSTER]
    names = [name for name in modules if (name in STARTS_CLUSTER) == own]
    environment = os.environ | {"JMARS_DISPLAY": "none"}
    command = [sys.executable, "-c", PROGRAM, *names]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert answer.returncode == 0, answer.stdout + answer.stderr
