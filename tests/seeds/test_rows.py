"""Every row of the documents has a test or a reason, and docs/explanation/sources.md lists it."""

from __future__ import annotations

import re
import runpy
from collections import Counter

from tests.house.source import ROOT
from tests.seeds.rows import ROWS

COUNTS = {"S0": 18, "S1": 5, "S2": 17, "S3": 39, "S4": 26}


def test_every_row_is_here_in_order() -> None:
    assert list(ROWS) == [f"{seed}.{number}" for seed, n in COUNTS.items() for number in range(1, n + 1)]


def test_a_row_has_a_test_or_a_reason_and_no_test_is_of_an_unknown_row() -> None:
    tested = Counter(f"S{seed}.{row}" for seed, row, *_ in runpy.run_path(str(ROOT / ".ci" / "map"))["tests_of_rows"]())
    assert set(tested) <= set(ROWS)
    assert {name for name in ROWS if not tested[name]} <= {name for name, row in ROWS.items() if row.open}
    assert not [name for name, row in ROWS.items() if row.open and row.weaker]


def test_the_page_lists_every_row_once_with_its_state() -> None:
    page = (ROOT / "docs" / "explanation" / "sources.md").read_text()
    table = page[page.index("## All rows") : page.index("## Tests of rows")]
    assert re.findall(r"^\| (S\d\.\d+) \|", table, flags=re.MULTILINE) == list(ROWS)
    for name, row in ROWS.items():
        (line,) = re.findall(rf"^\| {re.escape(name)} \|.*", table, flags=re.MULTILINE)
        state = "open" if row.open else "weaker" if row.weaker else "shown"
        assert f"| {state} |" in line and row.asks in line and (row.open or row.weaker) in line
