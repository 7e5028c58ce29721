"""What users install: one wheel with the package, the built front end and Jupyter's configuration, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from jmars.native.build import compiler
from tests.house.source import PACKAGE, ROOT, modules


def _build(folder: Path, **environment: str) -> Path:
    assert (PACKAGE / "_labextension" / "package.json").exists(), "no front end here: run .ci/environment test"
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, f"--wheel-dir={folder}", ROOT], check=True, timeout=110, env=os.environ | environment)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree with the front end that is in it."""
    return _build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """Its files."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_it_has_every_module(names: set[str]) -> None:
    assert {str(module.path.relative_to(ROOT)) for module in modules()} <= names


def test_it_has_the_built_front_end(names: set[str]) -> None:
    assert {"jmars/notebook/static/widget.js", "jmars/notebook/static/replay.js"} <= set(names)
    lab = {name.partition("/data/")[2] for name in names if "/data/" in name}
    assert "share/jupyter/labextensions/jmars-lab/package.json" in lab
    assert "share/jupyter/labextensions/jmars-lab/install.json" in lab
    assert any(name.startswith("share/jupyter/labextensions/jmars-lab/static/remoteEntry") for name in lab)


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
def test_it_has_the_compiled_kernels_for_this_machine(wheel: Path, names: set[str]) -> None:
    assert "jmars/native/kernels.so" in names
    assert wheel.name.startswith("jmars-") and "-py3-none-" in wheel.name and "-any" not in wheel.name


def test_without_them_it_serves_every_machine(tmp_path: Path) -> None:
    pure = _build(tmp_path, JMARS_NATIVE="0")
    assert pure.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(pure) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]


def test_jupyter_loads_the_server_part(names: set[str]) -> None:
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    settings = [name.partition("/etc/")[2] for name in names if "/etc/" in name]
    assert settings == [
        "jupyter/jupyter_server_config.d/jmars.json"
    ]  # no file that another package, or a user, may have


def test_it_has_nothing_else(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("jmars-")} == {"jmars"}
    assert not {name for name in names if "node_modules" in name or name.endswith((".pyc", ".ts", ".map", ".ipynb"))}


def test_its_metadata_states_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(path).decode())
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
