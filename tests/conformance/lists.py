"""Reads `failing.txt` and `excluded.txt`: names of tests, each below its reason.

A line that begins with "# " is the reason of the names that follow it. A name without brackets means all cases of a
parametrized test; a class or a file means all its tests.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
FAILING, EXCLUDED = HERE / "failing.txt", HERE / "excluded.txt"
OUTCOMES = "JMARS_CONFORMANCE_OUTCOMES"  # a variable of the environment: a file for the outcome of each test, as JSON


def read(file: Path) -> dict[str, str]:
    """Reasons by name."""
    found: dict[str, str] = {}
    reason = ""
    for line in file.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            assert reason and line not in found, f"{file.name}: {line}"
            found[line] = reason
    return found


def write(file: Path, reasons: dict[str, str]) -> None:
    """Write reasons by name, grouped by reason."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(reason, []).append(name)
    texts = ["\n".join([f"# {reason}", *sorted(names)]) for reason, names in sorted(groups.items())]
    file.write_text("\n\n".join(texts) + "\n")


def name_of(nodeid: str) -> str:
    """The name of a test in the lists."""
    return nodeid.partition("tests/conformance/test_")[2]


def reason_of(name: str, reasons: dict[str, str]) -> str | None:
    """The reason of a test, `lib/test_arraypad.py::TestConstant::test_basic[a]`."""
    while name not in reasons:
        cut = name.rfind("[") if name.endswith("]") and "[" in name else name.rfind("::")
        if cut < 0:
            return None
        name = name[: name.find("[")] if name.endswith("]") and "[" in name else name[:cut]
    return reasons[name]
