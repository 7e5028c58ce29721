"""Pygments lexer of a `%%jmars` cell: the magic's line with its flags, then Python.

Registered as "jmars" among Pygments' lexers. nbconvert takes it for `%%jmars` cells by a setting, which
docs/how-to/run-headless.md gives: IPython's own lexer shows a cell under an unknown magic as plain text.
"""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, using
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, Name, Number, Operator, Text

__all__ = ["JmarsLexer"]


class JmarsLexer(RegexLexer):  # type: ignore[misc]
    """A `%%jmars` cell.

    Examples
    --------
    >>> [(str(kind)[6:], text) for kind, text in JmarsLexer().get_tokens("%%jmars -w 2\\nx") if text.strip()]
    [('Operator', '%%'), ('Keyword', 'jmars'), ('Name.Attribute', '-w'), ('Literal.Number', '2'), ('Name', 'x')]
    """

    name = "jmars cell"
    aliases: ClassVar = ["jmars"]
    tokens: ClassVar = {
        "root": [
            (r"(\s*)(%%)(jmars)\b", bygroups(Text, Operator, Keyword), "line"),
            (r"(?s).+", using(PythonLexer)),
        ],
        "line": [
            (r"\n", Text, "#pop"),
            (r"--?[a-z]+", Name.Attribute),
            (r"\d[\w.]*", Number),
            (r"[^\S\n]+", Text),
            (r"\S+", Text),
        ],
    }
