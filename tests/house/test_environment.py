"""The commands of README say what they miss by name, before they do anything."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder to be the whole PATH of a command: a bare machine, and not root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("bash", "dirname", "env", "cat"):
        found = shutil.which(tool)
        assert found
        (folder / tool).symlink_to(found)
    (folder / "python3").symlink_to(sys.executable)
    _program(folder / "id", "echo 1000")
    return folder


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _run(path: Path, *packages: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / ".ci" / "environment"), "test", *packages]
    environment = {"PATH": str(path), "JMARS_VENV": str(path / "venv")}
    stdin = subprocess.DEVNULL
    return subprocess.run(command, env=environment, stdin=stdin, capture_output=True, text=True, timeout=60)


def test_an_old_python_is_named(path: Path) -> None:
    (path / "python3").unlink()
    _program(path / "python3", '[ "$1" = --version ] && echo Python 3.9.2 || exit 1')
    answer = _run(path)
    assert answer.returncode == 1
    assert "needs Python >= 3.11, and here is Python 3.9.2" in answer.stderr


def test_no_python_is_named(path: Path) -> None:
    (path / "python3").unlink()
    answer = _run(path)
    assert answer.returncode == 1
    assert "needs Python >= 3.11, and here is no python3" in answer.stderr


def test_without_root_and_sudo_the_debian_package_is_named(path: Path) -> None:
    answer = _run(path, "chromium:chromium")
    assert answer.returncode == 1
    assert "needs the Debian package(s) chromium" in answer.stderr
    assert not (path / "venv").exists()


def test_a_missing_venv_module_is_a_debian_package(path: Path) -> None:
    (path / "python3").unlink()
    _program(path / "python3", f'case "$2" in "import ensurepip"*) exit 1;; esac\nexec {sys.executable} "$@"')
    answer = _run(path)
    major, minor = sys.version_info[:2]
    assert f"needs the Debian package(s) python{major}.{minor}-venv" in answer.stderr


def test_without_apt_the_package_is_named(path: Path) -> None:
    _program(path / "id", "echo 0")
    answer = _run(path, "chromium:chromium")
    assert answer.returncode == 1
    assert "needs chromium, and there is no apt-get here" in answer.stderr


def test_what_apt_cannot_install_is_named(path: Path) -> None:
    _program(path / "id", "echo 0")
    _program(path / "apt-get", "exit 100")
    answer = _run(path, "chromium:chromium")
    assert answer.returncode == 1
    assert "apt-get could not install chromium" in answer.stderr
