"""Sow faults of one line, one at a time, and say which the tests find.

    .ci/faults                     all faults against the short run; what it leaves, against all tests
    .ci/faults --short             against the short run alone
    .ci/faults 3 17                two of the faults
    .ci/faults --reach             find anew which test files reach which fault
    .ci/faults --check             whether every row of the table still names one line of the source

A first run of the short tests, kept below `--cache`, finds the test files that reach each faulty line. Then each fault
is sown in a temporary copy of the tree, and only these files run: the file that mirrors the faulty one, its folder's,
all others, the quick ones first; the first failure ends the run. A failure counts where the same test fails again
alone, and passes without the fault. A line after each fault says `found by TEST` or `NOT FOUND`; the last one counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.sown.copies import Copy
from tests.sown.reach import HOUR, Reach
from tests.sown.table import FAULTS, ROOT, Fault

FIRST_BATCH = 20.0  # seconds that the tests of a first batch take; each further one takes twice as long
SLOWER = 10.0  # times as long as before a batch may take before it is ended
MARGIN = 300.0  # seconds more
MANY = 60.0  # seconds of a batch that is worth several processes


@dataclass(frozen=True)
class Study:
    """What is run and how."""

    copy: Copy
    reach: Reach
    jobs: int

    def finder(self, fault: Fault, everything: bool) -> str | None:
        """The first test that finds a fault, with what it says, or None."""
        flags = ["--all"] if everything else []
        path = fault.path()
        doubtful: list[str] = []
        for batch in self.batches(path, sorted(self.reach.of(fault.old, everything, self.copy.root))):
            expected = sum(self.reach.seconds.get(file, 0.0) for file in batch)
            within = SLOWER * expected + (HOUR if everything else MARGIN)
            while True:
                left_out = [f"--deselect={test}" for test in doubtful]
                with self.copy.sown(fault):
                    ran = self.copy.run(["-x", *flags, *self.processes(batch, expected), *left_out, *batch], within)
                if ran.passed:
                    break
                test = ran.failures[0]
                if "::" not in test:  # the run did not end, or a file cannot be imported
                    return test if self.copy.run([*flags, "-x", *batch], within).passed else None
                if self.explains(fault, test, flags, within):
                    return f"{test}: {ran.why[:120]}"
                print(f"   {test} fails, but not by this fault: {ran.why[:120]}", flush=True)
                doubtful.append(test)
        return None

    def explains(self, fault: Fault, test: str, flags: Sequence[str], within: float) -> bool:
        """Whether a test that has failed fails again alone, and passes without the fault."""
        with self.copy.sown(fault):
            again = self.copy.run([*flags, test], within)
        return not again.passed and self.copy.run([*flags, test], within).passed

    def processes(self, batch: Sequence[str], expected: float) -> list[str]:
        """Arguments of pytest for several processes, where these are worth their start."""
        several = self.jobs > 1 and len(batch) > 1 and expected > MANY
        return ["-n", str(self.jobs), "--dist", "loadfile", "--no-loadscope-reorder"] if several else []

    def batches(self, path: Path, files: Sequence[str]) -> Iterator[list[str]]:
        """Files in the order of their runs: near ones before far ones, of these quick ones before slow ones."""
        own = Path("tests", *path.parts[1:-1][:1])

        def distance(file: str) -> int:
            if not Path(file).is_relative_to(own) or own == Path("tests"):
                return 2
            return 0 if Path(file).name == f"test_{path.stem}.py" else 1

        ordered = sorted(files, key=lambda file: (distance(file), self.reach.seconds.get(file, HOUR)))
        batch: list[str] = []
        room = FIRST_BATCH
        for file, following in zip(ordered, [*ordered[1:], None]):
            batch.append(file)
            held = sum(self.reach.seconds.get(one, 0.0) for one in batch)
            if following is None or distance(file) != distance(following) or held > room:
                yield batch
                room = 2 * room if distance(file) == distance(following or file) else FIRST_BATCH
                batch = []


def stale() -> list[str]:
    """Rows whose line is not there, or is there more than once."""
    return [
        f"{number}: {fault.old!r} stands {len(fault.places())} times in {fault.files}"
        for number, fault in enumerate(FAULTS, 1)
        if len(fault.places()) != 1
    ]


def main() -> int:
    """Sow what is asked for."""
    parser = argparse.ArgumentParser(prog=".ci/faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, help="rows of the table, from 1; none for all")
    parser.add_argument("--short", action="store_true", help="do not run long tests for what the short run leaves")
    parser.add_argument("--jobs", type=int, default=2, help="processes of pytest")
    parser.add_argument("--reach", action="store_true", help="only find which test files reach the faults")
    parser.add_argument("--tests", nargs="*", default=[], help="what the run for the reach is limited to")
    parser.add_argument("--cache", type=Path, default=ROOT / ".pytest_cache" / "faults", help="where the reach is kept")
    parser.add_argument("--check", action="store_true", help="only look whether the rows name lines that are there")
    given = parser.parse_args()
    if wrong := stale():
        print("\n".join(wrong), file=sys.stderr)
        return 2
    if given.check:
        return 0
    reach = None if given.reach else Reach.kept(given.cache)
    if reach is None:
        several = ["-n", str(given.jobs), "--dist", "loadfile", "--no-loadscope-reorder"] if given.jobs > 1 else []
        reach = Reach.found(given.cache, [*several, *given.tests])
    if given.reach:
        for number, fault in enumerate(FAULTS, 1):
            print(f"{number:2} {fault.path()}: {len(reach.of(fault.old, False))} test files reach it")
        return 0
    short = whole = 0
    chosen = given.numbers or range(1, len(FAULTS) + 1)
    with Copy.made() as copy:
        study = Study(copy, reach, given.jobs)
        for number in chosen:
            fault = FAULTS[number - 1]
            began = time.monotonic()
            found = study.finder(fault, everything=False)
            short += found is not None
            told = f"found by {found}"
            if found is None and not given.short:
                found = study.finder(fault, everything=True)
                told = f"found by long tests alone, {found}"
            whole += found is not None
            took = time.monotonic() - began
            print(
                f"{number:2} {fault.path()}: {fault.breaks}: {told if found else 'NOT FOUND'} ({took:.0f} s)",
                flush=True,
            )
    print(f"{short} of {len(chosen)} found by the short run" + ("" if given.short else f", {whole} by all tests"))
    return 0
