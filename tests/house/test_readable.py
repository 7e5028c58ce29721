"""The source stays readable: the figures of `.ci/house` stay within their limits."""

from __future__ import annotations

import ast
import re

from tests.house import ledger, reach, readable
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


def test_comments_say_the_noun() -> None:
    assert readable.comment_rate() <= readable.MOST_IN_COMMENTS


def test_no_capability_outgrows_its_ceiling() -> None:
    assert ledger.failures() == []


def test_boundaries_have_one_class() -> None:
    assert len(readable.protocols()) <= readable.MOST_PROTOCOLS
    assert len(readable.forwards()) <= readable.MOST_FORWARDS


def test_few_constants_have_two_values_in_a_folder() -> None:
    assert len(readable.ambiguous_constants()) <= readable.MOST_AMBIGUOUS


def test_a_forward_has_no_word_of_its_own() -> None:
    def is_forward(text: str) -> bool:
        (method,) = ast.parse(text).body
        assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        return readable._is_forward(method)

    assert is_forward("def drop(self, keys):\n    'Drop.'\n    self._store.drop(keys)")
    assert is_forward(
        "async def ask(self, *args, timeout=None):\n    return await self.link.ask(*args, timeout=timeout)"
    )
    assert not is_forward("def drop(self, keys):\n    self._store.drop(keys, True)")
    assert not is_forward("def size(self):\n    return len(self._rows)")


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
