"""Notes added to errors of a cell whose reason a NumPy user would not guess."""

from __future__ import annotations

import ast
import linecache
import math
import re
import sys
from collections.abc import Iterator
from types import FrameType

from jmars.tensor.composite import Composite
from jmars.tensor.source_line import SourceLine
from jmars.tensor.tensor import Tensor
from jmars.units import parse_bytes

__all__ = ["in_flags", "note_for_calls", "note_for_late_error", "note_for_lazy"]

_MORE = re.compile(r"raise memory_limit(?: by ([\d.]+ [KMGT]?i?B))?")
_NEEDS = re.compile(r"needs ([\d.]+ [KMGT]?i?B) in memory at once.* leaves ([\d.]+ [KMGT]?i?B)")
_SMALLEST = 2**12  # bytes of a chunk that is proposed
_STEP = 64 * 2**20  # bytes to which a proposed memory limit is rounded up

_UNHASHABLE = re.compile(r"unhashable type: '(MaskedTensor|DuckTensor)'")
_BYTES = re.compile(r"a bytes-like object is required, not '(Tensor|MaskedTensor|DuckTensor)'")
_BUFFER = re.compile(r"object supporting the buffer API required")  # of hashlib, which names no type
_NUMBA = re.compile(r"setitem\(tensor\(")


def note_for_lazy(error: BaseException) -> str | None:
    """A note for code that takes values and was given a lazy array: a dict key, a memoryview, numba."""
    text = str(error)
    if isinstance(error, TypeError) and _UNHASHABLE.search(text):
        return (
            "an element of a lazy array cannot be a dict key or in a set, since its value is not computed yet; "
            "use the number, x.item()"
        )
    if isinstance(error, TypeError) and (_BYTES.search(text) or _BUFFER.search(text) and _takes_tensor(error)):
        return "the bytes of a lazy array lie on the cluster; give the value, memoryview(x.fetch()), or x.tobytes()"
    if _NUMBA.search(text):
        return "a tensor is read-only in a function of numba; give the value, x.fetch(), to a function that writes"
    return None


def _takes_tensor(error: BaseException) -> bool:
    """Whether a name on the line that raised an error is a tensor."""
    link = error.__traceback__
    while link is not None and link.tb_next is not None:
        link = link.tb_next
    if link is None:
        return False
    frame = link.tb_frame
    words = re.findall(r"[^\W\d]\w*", linecache.getline(frame.f_code.co_filename, link.tb_lineno, frame.f_globals))
    return any(isinstance((frame.f_globals | frame.f_locals).get(word), Tensor | Composite) for word in words)


def in_flags(text: str, limit: int, chunk: int) -> str:
    """The text of an error in the flags of a cell.

    Parameters
    ----------
    text
        The text, with names of parameters.
    limit
        Memory limit of the cluster in bytes.
    chunk
        Bytes of the chunks of new arrays.

    Examples
    --------
    >>> in_flags("x needs 4.0 GiB in memory at once and ... leaves 200.0 MiB; use a smaller chunk_size", 2**28, 2**25)
    'x needs 4.0 GiB in memory at once and ... leaves 200.0 MiB; use a smaller chunk_size (%%jmars --chunk 512KiB)'
    >>> in_flags("raise memory_limit by 600.0 MiB", 2**30, 2**25)
    'give the cell more memory: %%jmars --memory 1.625GiB'
    """
    found = _NEEDS.search(text)
    need, room = (parse_bytes(found[1]), parse_bytes(found[2])) if found else (4, 1)
    smaller = 2 ** int(math.log2(max(_SMALLEST, chunk * room / need / 2)))
    if "use a smaller chunk_size" in text and smaller < chunk:
        size = f"{smaller // 2**20}MiB" if smaller >= 2**20 else f"{smaller // 2**10}KiB"
        text = text.replace("use a smaller chunk_size", f"use a smaller chunk_size (%%jmars --chunk {size})")

    def more(match: re.Match[str]) -> str:
        wanted = limit + parse_bytes(match[1]) if match[1] else 2 * limit
        steps = -(-wanted // _STEP) * _STEP
        size = f"{steps / 2**30:g}GiB" if steps >= 2**30 else f"{steps // 2**20}MiB"
        return f"give the cell more memory: %%jmars --memory {size}"

    return _MORE.sub(more, text).replace("memory_limit", "--memory").replace("n_workers", "--workers")


def note_for_late_error(error: BaseException, made: SourceLine | None) -> str | None:
    """A note for an error of the cluster that a `try` around the user's line no longer catches.

    Parameters
    ----------
    error
        The exception that an operand raised.
    made
        The line that made the operand; the file of that line is searched for a `try`.
    """
    if made is None:
        return None
    names = {kind.__name__ for kind in type(error).__mro__}
    frames = _lines_that_run()
    for start, stop, caught in _tries(made.filename):
        within = any(file == made.filename and start <= lineno <= stop for file, lineno in frames)
        if start <= made.lineno <= stop and not within and (caught is None or names & caught):
            return (
                f"line {made.lineno} is in a `try` that had ended when its value was computed; "
                "to catch the error there, compute the value there with .fetch()"
            )
    return None


def note_for_calls(made: SourceLine | None) -> str | None:
    """A note that says how the cell came to the line that made an operand; None where the traceback shows it.

    Examples
    --------
    >>> calls = "inverse\\n7\\touter\\tcell.py\\n9\\t<module>\\tcell.py"
    >>> note_for_calls(SourceLine("cell.py", 2, "return np.linalg.inv(a)", calls))
    'called from line 7 in outer, from line 9'
    """
    if made is None or not made.calls:
        return None
    callers = [one.split("\t") for one in made.calls.split("\n")[1:]]
    number, _, file = callers[-1]
    if (file, int(number)) in _lines_that_run():
        return None
    places = [f"from line {number}{'' if name.startswith('<') else f' in {name}'}" for number, name, _ in callers]
    return f"called {', '.join(places)}"


def _tries(filename: str) -> Iterator[tuple[int, int, set[str] | None]]:
    """Yields first line, last line and caught exception names of each `try` and `with suppress` of a file.

    None instead of names means all exceptions.
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
    """Names of exceptions without their modules; None without an expression."""
    if kind is None:
        return None
    parts = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    named = {one.id for one in parts if isinstance(one, ast.Name)}
    return named | {one.attr for one in parts if isinstance(one, ast.Attribute)}


def _lines_that_run() -> list[tuple[str, int]]:
    """File and line of each running frame."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found
