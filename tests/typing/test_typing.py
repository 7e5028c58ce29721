"""A user's file passes `mypy --strict`, mistakes in it are found, and the stub follows the table of functions."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jmars.tensor.methods import MadeMethods
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.tensor import Tensor
from tests.house.source import ROOT

HERE = Path(__file__).parent
STUB = ROOT / "jmars" / "tensor" / "__init__.pyi"


def _mypy(*files: Path) -> str:
    """What mypy says of a user's files; jmars is silent, as every installed package is."""
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, files)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600).stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_users_file_passes_and_mistakes_are_found() -> None:
    told = _mypy(HERE / "users_file.py", HERE / "wrong_file.py")
    assert [line for line in told.splitlines() if "users_file" in line] == []
    first = (HERE / "wrong_file.py").read_text().splitlines().index("mt.sqrtt(1)") + 1
    found = {int(number) for number in re.findall(r"wrong_file\.py:(\d+): error", told)}
    assert found == {*range(first, first + 9)}, told


def test_the_stub_is_as_ci_stubs_writes_it() -> None:
    text = STUB.read_text() + (STUB.parent / "made_methods.pyi").read_text()
    (version,) = re.findall(r"with NumPy (\d+\.\d+)", text)
    if not np.__version__.startswith(version + "."):
        pytest.skip(f"the stub has the names of NumPy {version}")
    command = [sys.executable, "-W", "ignore", str(ROOT / ".ci" / "stubs"), "--print"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout == text


def test_methods_made_of_functions_show_numpys_parameters() -> None:
    for name in vars(MadeMethods):
        if name[0] != "_":
            theirs = inspect.signature(getattr(np, name))
            assert inspect.signature(getattr(Tensor, name)) == theirs, name
            ours = inspect.signature(FUNCTIONS[name]).parameters
            assert [*ours] == [*theirs.parameters], name
            assert getattr(Tensor, name).__doc__.endswith("."), name


def test_names_of_numpys_scalars_are_known_to_type_checkers() -> None:
    kinds = (np.float64, np.int64, np.complex128, np.bool, np.datetime64, np.timedelta64)
    theirs = {name for kind in kinds for name in dir(kind) if name[0] != "_"} - {*dir(Tensor), *dir(np.ndarray)}
    source = (ROOT / "jmars" / "tensor" / "methods.py").read_text()
    assert {name for name in theirs if f"        {name}: Any" not in source} == {"fromhex"}  # a classmethod
