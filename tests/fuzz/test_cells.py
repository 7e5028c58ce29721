"""Programs of drawn statements over two `%%jmars` cells leave each name as NumPy leaves it."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from jmars.config import config
from tests.fuzz import statements
from tests.fuzz.comparing import CLEAR, CONSTANTS, LENIENT, UNORDERED, differs, is_refusal
from tests.fuzz.test_statements import open_differences
from tests.fuzz.values import Drawing, drawn_arrays
from tests.notebook.conftest import CellNotebook, in_process

CHUNKS = (64, 24, 200, 4000)  # bytes of a chunk, in turn: small arrays are cut, and values up to a chunk are small
# Of elements that are equal, or not distinct as was promised, NumPy's order depends on its algorithm.
ANY_ORDER = (
    "overwrite_input=",
    *UNORDERED,
    "assume_unique=True",
    "unique_inverse(",
    "unique_all(",
    "argsort(",
    "partition(",
)
INEXACT = ("fft", "linalg", "mean", "std", "var", "norm", "median", "percentile", "quantile", "average", "cov", "corr")


@pytest.fixture(scope="module")
def cells() -> Iterator[CellNotebook]:
    with in_process() as made:
        yield made


def program(d: Drawing) -> tuple[dict[str, str], list[list[str]]]:
    """Texts of arrays by name, and statements of two cells; what NumPy refuses is in a `try`."""
    arrays = drawn_arrays(d)
    space: dict[str, Any] = {**OURS, **CONSTANTS, **{name: made.array.copy() for name, made in arrays.items()}}
    names, ended = list(arrays), []
    for number in range(2):
        lines: list[str] = []
        for k in range(d.int(2, 7)):
            text = statements.statement(sort := d.one(*SORTS), d, names)
            if sort in OPEN or sort.startswith(INEXACT) or any(words in text for words in ANY_ORDER):
                continue
            line = text if _is_statement(text) else f"r{number}{k} = {text}"
            trial = copy.deepcopy({name: value for name, value in space.items() if name not in OURS}) | OURS
            if not _runs(line, trial):
                line = f"try:\n    {line}\nexcept Exception as error:\n    r{number}{k} = refused(error)"
                if not _runs(line, trial | {"refused": _unless_lenient}):
                    continue
                _runs(line, trial)
                if any(differs(trial[name], space[name]) for name in names):
                    continue  # an error after a part of the writes
            lines.append(line)
            space = trial
        ended.append(lines)
    return {name: made.text for name, made in arrays.items()}, ended


SORTS, OPEN = (*statements.functions(), *statements.OTHERS), open_differences()


def refused(_: Exception) -> str:
    """What a cell notes of an error: any error of the arguments may come first."""
    return "refused"


def _unless_lenient(error: Exception) -> str:
    """Raise an error for which jmars may give a value."""
    if any(words in str(error) for words in (*LENIENT, *CLEAR)):
        raise error
    return "refused"


OURS: dict[str, Any] = {"np": np, "refused": refused}


def _is_statement(text: str) -> bool:
    try:
        compile(text, "<statement>", "eval")
    except SyntaxError:
        return True
    return False


def _runs(line: str, space: dict[str, Any]) -> bool:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(line, space)
    except Exception:
        return False
    return True


def checked(cells: CellNotebook, seed: int) -> str:
    """The program of a seed in words, if a name differs; empty if none does."""
    arrays, both = program(Drawing(random.Random(f"cells {seed}").randint))
    start = "\n".join(f"{name} = {text}" for name, text in arrays.items())
    theirs: dict[str, Any] = {**OURS, **CONSTANTS}
    exec(start, theirs)
    cells.cells.clear()
    cells.jobs.clear()
    for name in [name for name in cells.shell.user_ns if name[0] == "r" and name[1:].isdigit()]:
        del cells.shell.user_ns[name]
    cells.shell.user_ns.update(OURS | CONSTANTS)
    cells(start)
    shown = start
    for lines in both:
        text = "%%jmars\n" + "\n".join(lines)
        shown += "\n" + text
        if not lines:
            continue
        chunk = config.using(chunk_size_limit=CHUNKS[seed % len(CHUNKS)])
        with chunk, np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ran = cells.run(text)
        if is_refusal(ran.error):
            return ""  # the cell takes its writes back
        for line in lines:
            if not _runs(line, theirs):  # since a trial on copies, which lie otherwise in memory, ran
                return ""
        if ran.error is not None:
            return f"{shown}\n{ran.error!r}"
        for name, value in theirs.items():
            if name[0] in "abcr" and (found := _difference(cells.shell.user_ns[name], value)):
                return f"{shown}\n{name} is {found}"
    return ""


def _difference(ours: Any, theirs: Any) -> str:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return differs(ours, theirs)
        except Exception as error:
            return "" if is_refusal(error) else f"{error!r} in place of {theirs!r}"


def test_names_after_cells(cells: CellNotebook, request: pytest.FixtureRequest) -> None:
    programs = request.config.getoption("examples") or (1000 if request.config.getoption("--all") else 40)
    found = [text for seed in range(programs) if (text := checked(cells, seed))]
    assert not found, f"{len(found)} of {programs} differ, the shortest:\n{min(found, key=len)}"
