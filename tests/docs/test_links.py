"""Every relative link, picture and file that README and docs name is there, and every page can be reached."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks, links, name


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docs" / "llms.txt"], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    relative = [target for target in links(page) if "://" not in target]
    assert [target for target in relative if not (page.parent / target).exists()] == []


def test_every_page_can_be_reached_from_readme() -> None:
    reached: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            todo += [(page.parent / target).resolve() for target in links(page) if "://" not in target]
    fragments = {page for page in PAGES if page.parent.name == "changelog.d"}  # of the next version
    assert set(PAGES) - fragments - reached == set()


@pytest.mark.parametrize("index", sorted((ROOT / "docs").glob("*/**/index.md")), ids=name)
def test_an_index_links_to_all_pages_of_its_folder(index: Path) -> None:
    """The navigation of the built pages is made from these links."""
    listed = {(index.parent / target).resolve() for target in links(index) if "://" not in target}
    assert set(index.parent.glob("*.md")) - {index} - listed == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_that_a_page_names_are_there(page: Path) -> None:
    for language, line, text in blocks(page):
        found = re.findall(r"(?:^|\s)(\.ci/\S+|tests/\S+\.py|notebooks/\S+\.ipynb)", text)
        for command in found if language == "sh" else []:
            assert (ROOT / command).exists(), f"{name(page)}:{line} names {command}"


PLACES = [
    *ROOT.glob("*.py"),
    *(ROOT / "jmars").rglob("*.py"),
    *(ROOT / "tests").rglob("*.py"),
    *(ROOT / "labextension").glob("src/**/*.ts"),
]
ENDS = {"/".join(path.parts[i:]) for path in PLACES for i in range(len(ROOT.parts), len(path.parts))}


def _gone(text: str) -> list[str]:
    """Files that a text names and that are not there, by any part of their path."""
    named = re.findall(r"(?<![\w/.])((?:\w+/)+(?!NAME)\w+\.(?:py|ts))\b", text)
    return [file for file in named if file not in ENDS and not (ROOT / file).exists()]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "0038-numpys-sine.md"], ids=name)
def test_files_of_the_source_that_a_page_names_are_there(page: Path) -> None:
    assert _gone(page.read_text()) == []  # but for that decision, which tells what went


def test_files_that_the_docstring_of_a_file_names_are_there() -> None:
    """But for sources, which are other projects' files."""
    for path in (ROOT / "jmars").rglob("*.py"):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        text = re.sub(r"Source: .*?(\n\n|\Z)|NumPy: \S*", "", text, flags=re.DOTALL)
        bare = [file for file in re.findall(r"(?<![\w/.])(\w+\.py)\b", text) if file not in ENDS]
        assert _gone(text) + bare == [], path
