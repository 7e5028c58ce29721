"""Every relative link and picture of README and docs is there, and every page can be reached."""

from __future__ import annotations

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
