"""Compiles the C files to a shared library with the installed compiler: `python -m jmars.native`.

The wheel's build hook (`hatch_build.py`) runs this file alone, before jmars can be imported, so only the standard
library is used here. The library does not link to Python: a build serves every Python version. It carries a digest of
its sources, by which `loader` detects an outdated library.
Source: docs/decisions/0013-c-kernels-by-ctypes.md.
"""

from __future__ import annotations

import hashlib
import os
import re
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
    """Digest of the C files in a folder, without comments and layout: 16 hexadecimal digits."""
    state = hashlib.sha256()
    for path in sorted((*folder.glob("*.c"), *folder.glob("*.h"))):
        code = re.sub(rb"/\*.*?\*/|//[^\n]*", b" ", path.read_bytes(), flags=re.DOTALL)  # no kernel quotes these
        lines = (b" ".join(line.split()) for line in code.splitlines())
        state.update(path.name.encode() + b"\0" + b"\n".join(filter(None, lines)) + b"\0")
    return state.hexdigest()[:16]


def compiler() -> list[str] | None:
    """Command of the C compiler: $CC, cc, gcc or clang; None if no compiler is installed."""
    given = shlex.split(os.environ.get("CC", ""))
    for command in (given, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    return None


def build(target: Path = LIBRARY) -> str:
    """Builds the library; returns "" or a line with the reason of a failure.

    An existing library is replaced atomically, so running programs keep the old file; if the build fails, the existing
    library is removed.
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
