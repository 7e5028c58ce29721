"""Every row of the documents has a test or a reason, and docs/explanation/sources.md lists it."""

from __future__ import annotations

import re
import runpy
from collections import Counter

from tests.house.source import ROOT
from tests.rows import __main__ as script
from tests.rows import must
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


def test_the_script_of_rows_can_say_no(monkeypatch, capsys):
    def fails():
        must(1 == 2, "one is not two")

    monkeypatch.setattr(script, "TRIES", {"S0.1": lambda: "4 chunks", "S0.2": fails, "S0.5": lambda: "3 operands"})
    monkeypatch.setattr(script.sys, "argv", ["rows", "S0.1", "S0.2", "S0.3", "S0.5"])
    assert script.main() == 1
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in shown[:2]] == ["yes", "no"] and shown[1].endswith("one is not two")
    assert shown[-1] == "1 yes, 1 no, 1 not tried, 1 weaker"


def test_the_script_tries_every_row():
    assert set(script.TRIES) == set(ROWS)
