"""Tells which test files reach a line: part of a copy of the tree, as jmars/_probe.py, and a plugin of pytest there.

Each process of pytest writes the test file that it is at into a file of its own, which `hit` maps: executors, servers
and kernels that a test starts find it by xdist's variable, which they inherit. A process without the variable, where
several may be meant, names the files of all.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
from pathlib import Path
from typing import Any

FOLDER = Path(os.path.abspath(__file__)).parents[1] / ".probe"  # made by reach.py
SIZE = 256  # bytes of a path, at most
VARIABLE = "PYTEST_XDIST_WORKER"

_now: list[Any] = []  # the mapped files, as arrays of characters
_last: dict[int, list[bytes]] = {}  # what was told last, by fault
seconds: dict[str, float] = {}  # by test file


def hit(number: int) -> None:
    """The line of a fault is reached."""
    now = [one.value for one in _now or _mapped()]
    if _last.get(number) != now:
        _last[number] = now
        lines = "".join(f"{number} {path.decode()}\n" for path in now if path)
        with open(FOLDER / "hits", "a") as file:  # one write, appended: processes do not mix
            file.write(lines)


def _mapped() -> list[Any]:
    """Mapped without `mmap.mmap`, which would keep a descriptor open that the leak check finds."""
    name = os.environ.get(VARIABLE)
    _now[:] = [_map(path) for path in ([FOLDER / f"at-{name}"] if name else sorted(FOLDER.glob("at-*")))]
    return _now


def _map(path: Path) -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    descriptor = os.open(path, os.O_RDWR)
    try:
        begin = libc.mmap(None, SIZE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
        if begin == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), f"no map of {path}")
    finally:
        os.close(descriptor)
    return (ctypes.c_char * SIZE).from_address(begin)


# -- the plugin


def pytest_configure() -> None:
    """This process is at no test file."""
    path = FOLDER / f"at-{os.environ.get(VARIABLE, 'main')}"
    path.write_bytes(bytes(SIZE))
    _now[:] = [_map(path)]


def pytest_collectstart(collector: Any) -> None:
    """An import of a test file counts as well."""
    _is_at(collector.nodeid)


def pytest_runtest_logstart(nodeid: str) -> None:
    """A test begins."""
    _is_at(nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """A test, or its setup or teardown, has ended."""
    path = report.nodeid.split("::")[0]
    seconds[path] = seconds.get(path, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    """The process that hears of all tests keeps their times."""
    if VARIABLE not in os.environ:
        (FOLDER / "seconds").write_text(json.dumps(seconds))


def _is_at(nodeid: str) -> None:
    _now[0].value = nodeid.split("::")[0].encode()
