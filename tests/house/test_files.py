"""Files are one idea each, carry nothing of one machine, and agree on the version."""

from __future__ import annotations

import ast
import json
import re
import runpy
import tomllib
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


def test_modules_become_fewer() -> None:
    """A new idea may take a new file: then raise the number with the reason in the commit."""
    assert len(list((ROOT / "jmars").rglob("*.py"))) <= 374


def test_the_name_of_a_test_fits_a_line_of_a_report() -> None:
    tests = [path for path in tracked() if path.suffix == ".py" and path.name.startswith("test_")]
    names = {name for path in tests for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(), re.M)}
    assert sorted(name for name in names if len(name) > 70) == []


# longer than a screen today; the list only becomes shorter
LONG = {
    "_run_batch",
    "_send_batch",
    "anneal",
    "candidates",
    "choose",
    "hosts",
    "pipeline",
    "placing_plugin",
    "prepare",
    "replan",
    "run_executor",
    "sums_text",
}


def test_a_function_fits_a_screen() -> None:
    found = set()
    for path in (ROOT / "jmars").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 80:
                found.add(node.name)
    assert found == LONG


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
    """`jmars/__init__.py` owns the version, pyproject.toml reads it there; `.ci/release --set` writes all of them."""
    assert "version" in PROJECT["project"]["dynamic"]
    package = json.loads((ROOT / "labextension" / "package.json").read_text())
    assert package["version"] == jmars.__version__
    assert f"\nversion: {jmars.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'\n  version: "{jmars.__version__}"\n' in (ROOT / "recipe" / "recipe.yaml").read_text()
    assert f"\n## {jmars.__version__} " in (ROOT / "docs" / "changelog.md").read_text()


def test_one_command_sets_the_version(tmp_path: Path) -> None:
    release = runpy.run_path(str(ROOT / ".ci" / "release"))
    names = list(release["_VERSIONS"])
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    release["set_version"].__globals__["ROOT"] = tmp_path
    release["set_version"]("9.8.7")
    for name in names:
        expected = (ROOT / name).read_text().replace(jmars.__version__, "9.8.7")
        assert (tmp_path / name).read_text() == expected and "9.8.7" in expected


def test_the_licence_is_stated() -> None:
    assert PROJECT["project"]["license"] == "BSD-3-Clause"
    assert "BSD-3-Clause" in (ROOT / "README.md").read_text()
    assert (ROOT / "LICENSE").read_text().startswith("BSD 3-Clause License")


def test_commands_are_executable() -> None:
    text = {"constraints.txt"}
    commands = [path for path in (ROOT / ".ci").iterdir() if path.is_file() and path.name not in text]
    assert [path.name for path in commands if not path.stat().st_mode & 0o111] == []


def test_the_environment_of_the_notebooks_has_the_extras_of_xarrays_page() -> None:
    page = (ROOT / "docs/how-to/xarray.md").read_text()
    extras = [set(found.split(",")) for found in re.findall(r"jmars\[([a-z,]+)\]", page)]
    (own,) = [line for line in PROJECT["dependency-groups"]["notebooks"] if line.startswith("jmars[")]
    assert {"xarray", "netcdf"} in extras
    assert set().union(*extras) <= {*own[len("jmars[") : -1].split(",")}


def test_heavy_packages_are_extras() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert {"lab", "dask", "plan", "jit", "io", "xarray", "sparse", "yaml"} <= set(extras)
    core = {re.split(r"[><=\[]", line)[0] for line in PROJECT["project"]["dependencies"]}
    assert not core & {"dask", "distributed", "ray", "numba", "cupy", "jupyterlab", "scipy", "pandas"}
