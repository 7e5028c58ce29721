"""The recipe for conda-forge, Binder and the Dockerfile follow pyproject.toml and call .ci."""

from __future__ import annotations

import os
import tomllib

import yaml

from tests.house.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
_CONDA = {"msgpack": "msgpack-python", "xxhash": "python-xxhash", "jupyter-core": "jupyter_core"}  # its names


def _conda(requirement: str) -> str:
    name, _, versions = requirement.partition(">=")
    return f"{_CONDA.get(name, name)} >={versions}"


def test_conda_asks_for_what_pyproject_asks() -> None:
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    asked = recipe["requirements"]
    assert asked["run"] == ["python >=${{ python_min }}", *map(_conda, PROJECT["project"]["dependencies"])]
    assert asked["host"][2:] == [*map(_conda, PROJECT["build-system"]["requires"])]
    assert PROJECT["project"]["requires-python"] == f">={recipe['context']['python_min']}"
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {place}" for name, place in PROJECT["project"]["scripts"].items()
    ]


def test_images_are_made_by_the_command_that_makes_environments() -> None:
    script = ROOT / "binder" / "postBuild"
    assert os.access(script, os.X_OK)
    for path in (script, ROOT / "Dockerfile"):
        assert ".ci/environment notebooks" in path.read_text()
    assert "notebooks" in PROJECT["dependency-groups"]
