"""Runs a `%%jmars` cell: its code builds one tensor graph, and the end of the cell computes the results.

Jobs and waiting are in cell_engine.py, the user's names in namespace.py.

An error is shown at the user's lines, without frames of jmars. A traceback begins at the cell and leaves out frames
below calls of jmars, up to the next frame of the user's code. An error from the cluster, whose traceback never passed
the user's line, is raised again at the line that built the operand. If the error is a fault of jmars, all frames stay,
so that the fault can be reported. Errors whose reason a NumPy user would not guess get notes. IPython asks an exception
for `_render_traceback_`; IPython's debugger skips frames with `__tracebackhide__`.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import os
import re
import sys
import sysconfig
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from jmars.errors import ArrayChangedError, JmarsError
from jmars.notebook.cell_source import COMPUTED, LAST_VALUE, LOOKED, CellSource, computed, errors_at_once, looked
from jmars.notebook.kernel_access import Whole, run_coroutine
from jmars.notebook.namespace import Namespace, compute_displayed_values, lazy_results, tensors_in
from jmars.notebook.numpy_names import bound_imports, lazy_names
from jmars.tensor.engine import Engine, current_engine, set_engine
from jmars.tensor.from_array import Composite
from jmars.tensor.operand import SourceLine, following_calls, raise_along
from jmars.tensor.small_values import small_values
from jmars.tensor.tensor import Tensor
from jmars.units import parse_bytes

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jmars.notebook.cell_engine import CellEngine
    from jmars.notebook.magic import PlanEngine


def run_cell(
    shell: InteractiveShell,
    source: CellSource,
    engine: CellEngine | PlanEngine,
    lazy: bool = False,
    background: bool = False,
) -> Any:
    """Runs a cell, then computes and keeps the tensors that it assigned or shows.

    Parameters
    ----------
    shell
        The IPython shell, in whose namespace the cell runs.
    source
        The cell.
    engine
        Computes values that the cell needs while it runs, and its results.
    lazy
        Compute only the value that the cell shows.
    background
        Whether the engine does not wait for the results, so that results of them are lazy in plain cells, too.

    Returns
    -------
    object
        The value of the cell's last expression, or None.

    Raises
    ------
    BaseException
        Any exception of the cell; names and tensors are then as they were before the cell, but for names that its
        imports have bound.
    """
    __tracebackhide__ = True
    with Whole(lazy_results(are_kept=not (lazy or background))):
        return _run(shell, source, engine, lazy)


def _run(shell: InteractiveShell, source: CellSource, engine: CellEngine | PlanEngine, lazy: bool) -> Any:
    __tracebackhide__ = True
    names: dict[str, Any] = shell.user_ns
    names[COMPUTED], names[LOOKED] = computed, looked
    computed.begin()
    inside = Namespace.enter(names, source.line_of)
    try:
        with Whole(
            lazy_names(),
            _engine_is(engine),
            small_values(),
            errors_at_once(),
            following_calls(),
            compute_displayed_values(shell),
        ):
            result: Any = eval(source.code, names)
            if inspect.iscoroutine(result):
                run_coroutine(result)
            value = names.pop(LAST_VALUE, None) if source.shows else None
            assigned = inside.leave()
        results = [*assigned.values(), *inside.added, *inside.arrays.written(), value]
        wanted = tensors_in([value] if lazy else results)
        wanted = [tensor for tensor in wanted if tensor.data not in computed.failed]
        try:
            done = engine.finish(wanted)
            if done and not lazy:
                value = inside.write_back(engine, wanted, value)
        except ArrayChangedError as error:  # the current traceback is at the cell's end: show the line instead
            if error.line is None:
                raise
            raise_along(error, error.line)
    except BaseException as error:
        if hint := note_for_lazy(error):
            error.add_note(hint)
        inside.roll_back(bound_imports(source.imports, names))
        failed = engine.job.line if engine.job is not None else None
        shorten_traceback(shell, error, {source.filename, failed.filename if failed else source.filename})
        raise
    finally:
        names.pop(LAST_VALUE, None)
    return value


@contextmanager
def _engine_is(engine: Engine) -> Iterator[None]:
    """Within the block, tensors compute by `engine`."""
    before = current_engine()
    set_engine(engine)
    try:
        yield
    finally:
        set_engine(before)


E = TypeVar("E", bound=BaseException)


def show_as_one_line(error: E, text: str | None = None) -> E:
    """Makes IPython show `error` as one line without a traceback."""
    line = text or f"{type(error).__name__}: {error}"
    error._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
    return error


def shorten_traceback(shell: InteractiveShell, error: BaseException, files: Container[str]) -> None:
    """Makes IPython show the traceback of `error` from the first frame in `files` on, without frames of jmars."""
    if hasattr(error, "_render_traceback_") or isinstance(error, SyntaxError):
        return
    _tidy_notes(shell, error)
    links = traceback_links(error)
    first = next((i for i, link in enumerate(links) if link.tb_frame.f_code.co_filename in files), None)
    if first is None:
        return
    _forget_ours(error)
    _shorten_chained(shell, error)
    shown = _joined(filter_links(error, links[first:]))
    formatter: Any = shell.InteractiveTB  # untyped in IPython

    def render() -> Any:
        return formatter.structured_traceback(type(error), error, shown, tb_offset=0)

    try:
        error._render_traceback_ = render  # type: ignore[attr-defined]
    except AttributeError:
        pass  # an exception with slots: shown with jmars's frames


def _shorten_chained(shell: InteractiveShell, error: BaseException) -> None:
    """Takes frames of jmars out of the tracebacks of exceptions that are shown before `error`."""
    seen = {id(error)}
    one = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        _tidy_notes(shell, one)
        one.__traceback__ = _joined(filter_links(one, traceback_links(one)))
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _joined(links: Sequence[TracebackType]) -> TracebackType | None:
    """A traceback of these links."""
    found: TracebackType | None = None
    for link in reversed(links):
        found = TracebackType(found, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return found


def _tidy_notes(shell: InteractiveShell, error: BaseException) -> None:
    """Names cells in the notes of an error as IPython does, and drops notes that list frames of jmars."""
    if hasattr(error, "__notes__"):
        error.__notes__ = [_with_cells(shell, note) for note in error.__notes__ if not _only_ours(error, note)]


def shorten_plain_tracebacks(shell: InteractiveShell) -> None:
    """Makes IPython show errors of plain cells without frames of jmars, and with notes, too.

    Another handler that is registered stays.
    """
    ipython: Any = shell

    def handler(_: Any, kind: type[BaseException], value: BaseException, trace: Any, tb_offset: Any = None) -> None:
        if (hint := note_for_lazy(value)) and hint not in getattr(value, "__notes__", ()):
            value.add_note(hint)
        links = traceback_links(value)
        if any(is_ours(link) for link in links[1:]):  # the first is IPython's
            shorten_traceback(shell, value, {links[1].tb_frame.f_code.co_filename})
        ipython.showtraceback(running_compiled_code=True)

    if not ipython.custom_exceptions:
        ipython.set_custom_exc((Exception, KeyboardInterrupt), handler)


def _forget_ours(error: BaseException) -> None:
    """Hides exceptions that jmars caught before `error`; exceptions that the user's code caught stay shown."""
    before = error.__context__
    if error.__cause__ is not None or before is None or not caught_by_us(before):
        return
    while before is not None and caught_by_us(before):
        before = before.__context__
    error.__context__, error.__suppress_context__ = before, before is None


def show_syntax_error(shell: InteractiveShell, error: SyntaxError) -> None:
    """Makes IPython show a cell's syntax error without frames, as it does for a plain cell.

    IPython adds frames to every SyntaxError that comes out of running code, but a custom handler may show the error;
    so a handler of ours shows this error and then restores the previous handler.
    """
    ipython: Any = shell
    before = ipython.custom_exceptions, ipython.CustomTB

    def handler(_: Any, kind: type[BaseException], value: BaseException, trace: Any, tb_offset: Any = None) -> None:
        ipython.custom_exceptions, ipython.CustomTB = before
        if value is error:
            ipython.showsyntaxerror()
        else:
            ipython.showtraceback(running_compiled_code=True)

    ipython.set_custom_exc((SyntaxError,), handler)


def _only_ours(error: BaseException, note: str) -> bool:
    """Whether a note lists only frames of jmars on a worker, below an error that says enough."""
    files = re.findall(r'^  File "([^"\n]+)", line \d+', note, flags=re.MULTILINE)
    return bool(files) and is_about_arguments(error, files)


def _with_cells(shell: InteractiveShell, note: str) -> str:
    """Rewrites file names of cells in `note` as IPython writes them; a worker knows only the file's name."""

    def named(match: re.Match[str]) -> str:
        filename, lineno = match[1], int(match[2])
        known = shell.compile.format_code_name(filename)
        text = linecache.getline(filename, lineno).strip()
        return f"{known[0]} {known[1]}, line {lineno}, in {match[3]}\n    {text}" if known else match[0]

    return re.sub(r'File "([^"\n]+)", line (\d+), in (\S+)$', named, note, flags=re.MULTILINE)


_OURS = str(Path(__file__).parents[1]) + os.sep  # the package's folder
_LIBRARIES = (sysconfig.get_path("stdlib") + os.sep, "<frozen ", "<__array_function__ ")
_KERNEL = "<jmars "  # file name of machine-made code
_RAISE = re.compile(r"\braise\b")
# Errors of NumPy's C code about its arguments, also where jmars asks NumPy for a shape or dtype.
ABOUT_ARGUMENTS = (JmarsError, ValueError, TypeError, IndexError, ArithmeticError, OSError)


def traceback_links(error: BaseException) -> list[TracebackType]:
    """The links of an error's traceback, outermost first."""
    found: list[TracebackType] = []
    link = error.__traceback__
    while link is not None:
        found.append(link)
        link = link.tb_next
    return found


def filter_links(error: BaseException, links: list[TracebackType]) -> list[TracebackType]:
    """The links to show, of `links` that begin at a user's frame."""
    shown, below_us = [], False
    for link in links:
        below_us = is_ours(link) or (below_us and _is_library(link))
        if not below_us:
            shown.append(link)
    return links if below_us and not _is_meant(error, links[-1]) else shown


def caught_by_us(error: BaseException) -> bool:
    """Whether jmars caught `error`: its traceback begins at the frame that caught it."""
    return error.__traceback__ is not None and is_ours(error.__traceback__)


def is_about_arguments(error: BaseException, files: Iterable[str]) -> bool:
    """Whether an error raised in these files, none of them the user's, still tells the user about wrong arguments."""
    return isinstance(error, ABOUT_ARGUMENTS) and all(
        one.startswith((_OURS, _KERNEL)) or _is_installed(one) for one in files
    )


def is_ours(link: TracebackType) -> bool:
    """Whether the frame is code of jmars."""
    return link.tb_frame.f_code.co_filename.startswith(_OURS)


def _is_library(link: TracebackType) -> bool:
    """Whether the frame is code of an installed library; for compiled modules, Cython names the source file."""
    written = link.tb_frame.f_code.co_filename
    compiled = written.endswith((".pyx", ".pxd", ".pxi"))
    file = str(link.tb_frame.f_globals.get("__file__", written)) if compiled else written
    return _is_installed(file)


def _is_installed(file: str) -> bool:
    return file.startswith(_LIBRARIES) or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _is_meant(error: BaseException, last: TracebackType) -> bool:
    """Whether an error tells about the user's code: by its class, or because a `raise` statement raised it.

    Errors that Python raises by itself (an AttributeError of None, a KeyError of a dict) and failed asserts are faults
    of the library.
    """
    if isinstance(error, (*ABOUT_ARGUMENTS, KeyboardInterrupt)):
        return True
    line = linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno, last.tb_frame.f_globals)
    return not isinstance(error, AssertionError) and _RAISE.search(line) is not None


_MORE = re.compile(r"raise memory_limit(?: by ([\d.]+ [KMGT]?i?B))?")
_NEEDS = re.compile(r"needs ([\d.]+ [KMGT]?i?B) in memory at once.* leaves ([\d.]+ [KMGT]?i?B)")
_SMALLEST = 2**12  # bytes of a chunk that is proposed
_STEP = 64 * 2**20  # bytes; a proposed memory limit is rounded up to a multiple

_UNHASHABLE = re.compile(r"unhashable type: '(MaskedTensor|DuckTensor)'")
_BYTES = re.compile(r"a bytes-like object is required, not '(Tensor|MaskedTensor|DuckTensor)'")
_BUFFER = re.compile(r"object supporting the buffer API required")  # of hashlib, without the type's name
_JSON = re.compile(r"Object of type (Tensor|MaskedTensor|DuckTensor) is not JSON serializable")
_NAMESPACES = re.compile(r"^Multiple namespaces for array inputs.*jmars\.tensor\.array_api")  # of array_api_compat
_NUMBA = re.compile(r"setitem\(tensor\(")
_MASK = re.compile(r"None of \[Index\(\[ *(True|False),.*dtype='bool'", flags=re.DOTALL)  # of pandas
_CALLED = re.compile(r"'(Tensor|MaskedTensor|DuckTensor)' object is not callable")  # of pandas' groupby


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
    if _JSON.search(text):
        return "a result is a lazy array until the cell ends; give the value, float(x), x.item() or x.tolist()"
    if _NAMESPACES.search(text):
        return "a list or an array of NumPy stands beside a tensor; make it a tensor too, jmars.tensor.asarray(x)"
    if (_MASK.search(text) or _CALLED.search(text)) and _comes_through(error, "pandas."):
        return "pandas selects and groups by arrays of NumPy; give the value of a tensor, frame[x.fetch()]"
    if _NUMBA.search(text):
        return "a tensor is read-only in a function of numba; give the value, x.fetch(), to a function that writes"
    return None


def _comes_through(error: BaseException, package: str) -> bool:
    """Whether code of a package was running."""
    names = (str(link.tb_frame.f_globals.get("__name__")) for link in traceback_links(error))
    return any(name.startswith(package) for name in names)


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
    except SyntaxError:  # a cell in a foreign language, or a changed file
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
