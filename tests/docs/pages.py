"""The Markdown pages: their code blocks and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@dataclass(frozen=True)
class Snippet:
    """A block of Python, and what the block after it says that it shows."""

    line: int
    code: str
    shows: str | None


def name(page: Path) -> str:
    """The page as a test's name."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[str, int, str]]:
    """(language, first line, text) of each fenced block."""
    found = []
    text = page.read_text()
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        found.append((match[1], text.count("\n", 0, match.start()) + 2, match[2]))
    return found


def snippets(page: Path) -> list[Snippet]:
    """The page's Python, in order; a `text` block right after one is its output."""
    found: list[Snippet] = []
    for language, line, text in blocks(page):
        if language == "python":
            found.append(Snippet(line, text, None))
        elif language == "text" and found and found[-1].shows is None:
            found[-1] = Snippet(found[-1].line, found[-1].code, text)
    return found


def links(page: Path) -> list[str]:
    """Targets of links and pictures, without anchors."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [target for target in re.findall(r"\]\(([^)#\s]+)", prose) if target]
