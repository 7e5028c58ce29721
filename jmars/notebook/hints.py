"""What is said beside an error of a cell whose reason a user of NumPy would not guess. Used by cell.py and live.py."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Iterator
from types import FrameType

from jmars.tensor.source_line import SourceLine

__all__ = ["about_keys", "about_left_try"]

_UNHASHABLE = re.compile(r"unhashable type: '(Tensor|MaskedTensor|DuckTensor)'")


def about_keys(error: BaseException) -> str | None:
    """A note for an element of an array that was to be a key of a dict or in a set."""
    if isinstance(error, TypeError) and _UNHASHABLE.search(str(error)):
        return "an element of a lazy array is no key, for its value is not known yet; take the number, x.item()"
    return None


def about_left_try(error: BaseException, made: SourceLine | None) -> str | None:
    """A note for an error of the cluster that a `try` of the user's would have caught, had it not been left.

    Parameters
    ----------
    error
        What an operand raised.
    made
        The line that made the operand; the `try` is looked for in its file.
    """
    if made is None:
        return None
    names = {kind.__name__ for kind in type(error).__mro__}
    frames = _lines_that_run()
    for start, stop, caught in _tries(made.filename):
        within = any(file == made.filename and start <= lineno <= stop for file, lineno in frames)
        if start <= made.lineno <= stop and not within and (caught is None or names & caught):
            return (
                f"line {made.lineno} stands in a `try` that was over when its value was computed; "
                "to catch the error there, ask for the value there, .fetch()"
            )
    return None


def _tries(filename: str) -> Iterator[tuple[int, int, set[str] | None]]:
    """First and last line of what stands in each `try` and `with suppress` of a file, and the names that it catches.

    None instead of names: whatever comes.
    """
    try:
        tree = compile("".join(linecache.getlines(filename)), filename, "exec", _AS_IN_CELLS)
    except SyntaxError:  # a cell of another language, or a file that has changed
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Try | ast.TryStar) and node.handlers:
            kinds = [_names(handler.type) for handler in node.handlers]
            yield _body(node.body, None if None in kinds else {name for found in kinds for name in found or ()})
        elif isinstance(node, ast.With | ast.AsyncWith):
            for call in (item.context_expr for item in node.items):
                if isinstance(call, ast.Call) and _names(call.func) == {"suppress"}:
                    yield _body(node.body, {name for one in call.args for name in _names(one) or ()})


_AS_IN_CELLS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def _body(body: list[ast.stmt], caught: set[str] | None) -> tuple[int, int, set[str] | None]:
    return body[0].lineno, body[-1].end_lineno or body[-1].lineno, caught


def _names(kind: ast.expr | None) -> set[str] | None:
    """Names of exceptions, without the modules before them; None where there is no expression."""
    if kind is None:
        return None
    parts = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    named = {one.id for one in parts if isinstance(one, ast.Name)}
    return named | {one.attr for one in parts if isinstance(one, ast.Attribute)}


def _lines_that_run() -> list[tuple[str, int]]:
    """File and line of each frame that runs now."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found
