"""The C files to one shared library, with the compiler that there is: `python -m jmars.native`.

The wheel's build hook (`hatch_build.py`) runs this file alone, before jmars can be imported, so only the standard
library is used here. The library knows no Python: one build serves every version of it. It carries a digest of the
sources it was made from, by which `loader` knows one that is out of date.
Source: decision 0013.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path

__all__ = ["LIBRARY", "build", "compiler", "digest"]

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "kernels.so"

# No -ffast-math, and multiply-add is fused only where C says so: results are the same on every machine.
_FLAGS = ["-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off"]


def digest(folder: Path = FOLDER) -> str:
    """What the C files in a folder hold, as 16 hexadecimal digits."""
    state = hashlib.sha256()
    for path in sorted((*folder.glob("*.c"), *folder.glob("*.h"))):
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()[:16]


def compiler() -> list[str] | None:
    """The command that compiles C: $CC, cc, gcc or clang; None where there is none."""
    given = shlex.split(os.environ.get("CC", ""))
    for command in (given, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    return None


def build(target: Path = LIBRARY) -> str:
    """Make the library; returns "" or, in one line, why there is none.

    A library that was there is replaced at once, so programs that run keep theirs; it is removed where the new one
    cannot be made.
    """
    command = compiler()
    made = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if command is None:
            return _without(target, "there is no C compiler (cc, gcc, clang or $CC)")
        sources = [str(path) for path in sorted(FOLDER.glob("*.c"))]
        stamp = f'-DJM_SOURCES="{digest()}"'
        ran = subprocess.run(
            [*command, *_FLAGS, stamp, "-o", str(made), *sources, "-lm"], capture_output=True, text=True
        )
        if ran.returncode:
            said = (ran.stderr or ran.stdout).strip().splitlines()
            return _without(target, f"{shlex.join(command)} failed: {said[0] if said else ran.returncode}")
        made.replace(target)
        return ""
    finally:
        made.unlink(missing_ok=True)


def _without(target: Path, why: str) -> str:
    target.unlink(missing_ok=True)
    return f"jmars is built without its C kernels, plans are made by Python: {why}"
