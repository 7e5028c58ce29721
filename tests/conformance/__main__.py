"""Runs NumPy's tests with jmars in NumPy's place and rewrites `failing.txt`.

    python -m tests.conformance [FILE ...] [--add REASON]

Takes the names of tests that pass from `failing.txt`, prints how many pass, fail as listed, and fail without being
listed, for each file, and the latter by name; `--add` lists them below a reason.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.conformance.lists import FAILING, HERE, OUTCOMES, read, write


def outcomes(file: Path) -> dict[str, str]:
    """The outcome of each test of a file, by name: passed, failed, skipped, xfailed or xpassed."""
    with tempfile.NamedTemporaryFile(suffix=".json") as found:
        command = [sys.executable, "-m", "pytest", "-q", "--all", "--no-summary", "--tb=no", "-p", "no:cacheprovider"]
        env = os.environ | {OUTCOMES: found.name}
        subprocess.run([*command, str(file)], stdout=subprocess.DEVNULL, check=False, env=env)
        return dict(json.loads(Path(found.name).read_text() or "{}"))


def shortened(names: set[str], every: set[str]) -> set[str]:
    """`names`, but a function without brackets in the place of all its cases."""
    cases: dict[str, set[str]] = {}
    for name in every:
        cases.setdefault(name.partition("[")[0], set()).add(name)
    whole = {function for function, its in cases.items() if its <= names and len(its) > 1}
    return {name for name in names if name.partition("[")[0] not in whole} | whole


def main() -> int:
    """Run the files, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=sorted(HERE.glob("test_*.py")))
    parser.add_argument("--add", metavar="REASON", help="list what fails below this reason")
    given = parser.parse_args()
    unlisted = 0
    for file in given.files:
        found = outcomes(file)
        counts = Counter(found.values())
        print(f"{file.stem}: {', '.join(f'{n} {outcome}' for outcome, n in sorted(counts.items()))}", flush=True)
        listed = read(FAILING)
        failed = {name for name, outcome in found.items() if outcome == "failed"}
        passes = {name for name, outcome in found.items() if outcome == "xpassed"}
        fails = {name for name, outcome in found.items() if outcome == "xfailed"}
        prefix = file.stem.removeprefix("test_") + ".py::"
        kept = {name: reason for name, reason in listed.items() if not name.startswith(prefix)}
        of = {name: listed.get(name) or listed.get(name.partition("[")[0], "") for name in fails | passes}
        reasons = sorted({of[name] for name in fails if of[name]})
        for reason in reasons:
            kept |= dict.fromkeys(sorted(shortened({name for name in fails if of[name] == reason}, set(found))), reason)
        if given.add:
            kept |= dict.fromkeys(sorted(shortened(failed, set(found))), given.add)
        else:
            unlisted += len(failed)
            print(*(f"    {name}" for name in sorted(failed)), sep="\n")
        write(FAILING, kept)
    return bool(unlisted)


if __name__ == "__main__":
    sys.exit(main())
