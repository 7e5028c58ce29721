"""The library is built where there is a compiler, used where it fits, and never missed silently."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jmars.errors import SettingError
from jmars.native import backend, build, forced, loader

needs_cc = pytest.mark.skipif(build.compiler() is None, reason="there is no C compiler here")


@pytest.fixture
def native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the C files, to build in."""
    for path in (*build.FOLDER.glob("*.c"), *build.FOLDER.glob("*.h")):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    return tmp_path


@needs_cc
def test_a_library_is_built_and_used(native: Path) -> None:
    target = native / "kernels.so"
    assert build.build(target) == ""
    assert loader._choose("", target) is not None
    assert not list(native.glob(".kernels*"))


def test_without_a_compiler_one_line_says_so(native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = native / "kernels.so"
    target.write_text("old")
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    told = build.build(target)
    assert "plans are made by Python" in told and "there is no C compiler" in told and "\n" not in told
    assert not target.exists()


def test_a_compiler_that_fails_is_quoted_in_one_line(native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{sys.executable} -c 'import sys; sys.exit(\"no\\nwarm sun\")'")
    told = build.build(native / "kernels.so")
    assert told.endswith("failed: no")


def test_a_missing_library_is_no_reason_to_warn(tmp_path: Path) -> None:
    assert loader._choose("", tmp_path / "kernels.so") is None


@pytest.mark.long
@needs_cc
def test_a_library_of_other_sources_is_left_alone_with_a_warning(native: Path) -> None:
    target = native / "kernels.so"
    build.build(target)
    with (native / "eft.c").open("a") as file:
        file.write("/* changed */\nstatic int changed;\n")
    with pytest.warns(RuntimeWarning, match="made from other sources; `python -m jmars.native` makes it anew"):
        assert loader._choose("", target) is None


def test_a_library_that_cannot_be_loaded_is_left_alone_with_a_warning(tmp_path: Path) -> None:
    target = tmp_path / "kernels.so"
    target.write_text("no library")
    with pytest.warns(RuntimeWarning, match="made in Python, several times slower: .* cannot be loaded"):
        assert loader._choose("", target) is None


def test_the_environment_may_ask_for_one_or_the_other(tmp_path: Path) -> None:
    assert loader._choose("0", build.LIBRARY) is None
    with pytest.raises(SettingError, match=r"JMARS_NATIVE=1 asks for the C kernels, and .* is not there"):
        loader._choose("1", tmp_path / "kernels.so")
    with pytest.raises(SettingError, match="JMARS_NATIVE is 'yes'"):
        loader._choose("yes", build.LIBRARY)


def test_a_backend_is_forced_for_a_while() -> None:
    before = backend()
    with forced("python"):
        assert backend() == "python"
    assert backend() == before
    with pytest.raises(SettingError, match="choose c or python"), forced("fortran"):
        pass


def test_it_is_switched_off_by_the_environment() -> None:
    program = "from jmars.native import backend; print(backend())"
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, env={"JMARS_NATIVE": "0"}, capture_output=True, text=True, timeout=60)
    assert answer.stdout == "python\n", answer.stderr
