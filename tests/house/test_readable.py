"""The source stays readable: the figures of `.ci/house` stay within their limits."""

from __future__ import annotations

import re

from tests.house import reach, readable
from tests.house.source import ROOT


def test_docstrings_say_the_noun() -> None:
    assert readable.rate() <= readable.MOST_INDEFINITE, readable.worst_files(10)


def test_every_source_resolves() -> None:
    assert readable.dangling_sources() == []


def test_a_class_name_stands_for_one_class() -> None:
    assert readable.class_names_twice() == {}


def test_the_folders_of_a_worker_are_flat() -> None:
    heights = {folder: readable.levels(folder) for folder in readable.MOST_LEVELS}
    assert {folder: n for folder, n in heights.items() if n > readable.MOST_LEVELS[folder]} == {}


def test_an_entry_point_reaches_every_definition() -> None:
    assert reach.unexplained() == []
    assert reach.unreached_lines() <= readable.MOST_UNREACHED


def test_indefinite_words_are_counted_outside_code_and_sections() -> None:
    text = "What it holds.\n\n`what` is code.\n\nParameters\n----------\nwhat\n    Which it is."
    assert readable.words(text) == (6, 2)


def test_a_private_document_or_a_missing_heading_dangles() -> None:
    assert not readable._resolves("PLANNING 3.5")
    assert not readable._resolves('docs/explanation/seeds.md, "No such heading"')
    assert readable._resolves('docs/explanation/seeds.md, "Memory management"')
    assert readable._resolves("Kahn 1962")


def test_files_named_in_the_docs_exist() -> None:
    missing = []
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        if page.parent.name in ("decisions", "changelog.d"):
            continue  # records of their day
        for name in re.findall(r"`((?:jmars|tests|labextension|\.ci)/[\w/.-]*\w/?)`", page.read_text()):
            if "NAME" not in name and not (ROOT / name).exists():
                missing.append(f"{page.relative_to(ROOT)}: {name}")
    assert missing == []
