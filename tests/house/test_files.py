"""Files are one idea each, carry nothing of one machine, and agree on the version."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import jmars
from tests.house.source import ROOT, tracked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TEXT = {".py", ".ts", ".tsx", ".css", ".js", ".md", ".toml", ".json", ".cfg", ".ipynb", ".yml", ".txt", ""}


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_a_file_is_one_idea() -> None:
    """However long that is: 1,000 lines are a reason to look twice, and no file here has earned more."""
    sources = [path for path in tracked() if path.suffix in {".py", ".ts"}]
    lengths = {_shown(path): len(path.read_text().splitlines()) for path in sources}
    assert {name: n for name, n in lengths.items() if n > 1000} == {}


def test_no_path_of_one_machine_is_committed() -> None:
    pattern = re.compile(r"(?<![\w.~$}/])/(?:home|Users|root|mnt|srv|work)/\w")
    found = []
    for path in tracked():
        if path.suffix in TEXT and path != Path(__file__):
            lines = enumerate(path.read_text(errors="replace").splitlines(), 1)
            found += [f"{_shown(path)}:{n}: {line.strip()[:120]}" for n, line in lines if pattern.search(line)]
    assert found == []


def test_what_is_built_is_not_committed() -> None:
    names = [_shown(path) for path in tracked()]
    built = ("jmars/_labextension/", "jmars/notebook/static/", "labextension/lib/", "labextension/node_modules/")
    assert [name for name in names if name.startswith(built) or name.endswith((".pyc", ".so", ".whl"))] == []


def test_versions_agree() -> None:
    package = json.loads((ROOT / "labextension" / "package.json").read_text())
    assert package["version"] == version("jmars") == jmars.__version__
    changelog = (ROOT / "docs" / "changelog.md").read_text()
    assert f"## {jmars.__version__}" in changelog


def test_the_licence_is_stated() -> None:
    assert PROJECT["project"]["license"] == "BSD-3-Clause"
    assert "BSD-3-Clause" in (ROOT / "README.md").read_text()
    assert (ROOT / "LICENSE").read_text().startswith("BSD 3-Clause License")
    assert f"version: {jmars.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_commands_are_executable() -> None:
    text = {"constraints.txt"}
    commands = [path for path in (ROOT / ".ci").iterdir() if path.is_file() and path.name not in text]
    assert [path.name for path in commands if not path.stat().st_mode & 0o111] == []


def test_heavy_packages_are_extras() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert {"lab", "dask", "plan", "jit", "io", "xarray", "sparse", "yaml"} <= set(extras)
    core = {re.split(r"[><=\[]", line)[0] for line in PROJECT["project"]["dependencies"]}
    assert not core & {"dask", "distributed", "ray", "numba", "cupy", "jupyterlab", "scipy", "pandas"}
