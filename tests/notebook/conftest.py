"""A notebook without a kernel, whose cells run in this process or on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from jmars.notebook.cell import run_cell
from jmars.notebook.cell_source import CellSource, computed
from jmars.notebook.flags import CellFlags
from jmars.tensor import Tensor, TensorData, get_engine, set_engine
from tests.notebook.shells import Notebook, new_shell
from tests.tensor.engine import OneByOne


class InProcess:
    """A cell's engine (`jmars.notebook.cell_engine.CellEngine`) without jobs: remembers what would have been one."""

    job = None

    def __init__(self, engine: OneByOne, jobs: list[Sequence[TensorData]]) -> None:
        self._engine, self._jobs = engine, jobs

    def execute(self, data: Sequence[TensorData]) -> None:
        missing = [one for one in data if not self._engine.held(one)]
        if missing:
            self._jobs.append(missing)
            try:
                self._engine.execute(missing)
            except Exception:
                computed.note_failure(missing, self._engine.chunks, None)
                raise

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        self.execute([data])
        return self._engine.fetch(data, copy)

    def fetch_each(self, data: Sequence[TensorData]) -> list[Any]:
        return [self._engine.fetch(one) for one in data]

    def held(self, data: TensorData) -> bool:
        return self._engine.held(data)

    def look(self, data: Sequence[TensorData]) -> None:
        self.execute(data)

    def shows(self, data: TensorData) -> bool:
        return True

    def small(self, data: TensorData, touched: int) -> None:
        """Elements are nodes."""

    def tries_on_worker(self) -> bool:
        return False

    def limits(self) -> tuple[int, int]:
        return self._engine.limits()

    def free_memory(self) -> int:
        return self._engine.free_memory()

    def finish(self, results: Sequence[Tensor]) -> bool:
        self.execute([tensor.data for tensor in results])
        return True


class CellNotebook(Notebook):
    """Cells whose jobs can be counted."""

    jobs: list[Sequence[TensorData]]

    def held(self, name: str) -> bool:
        return get_engine().held(self[name].data)


@contextmanager
def in_process() -> Iterator[CellNotebook]:
    """A notebook whose `%%jmars` cells run in this process."""
    before = get_engine()
    engine = OneByOne()
    with new_shell() as shell:
        ran = CellNotebook(shell)
        ran.jobs = []

        def magic(line: str, cell: str) -> Any:
            __tracebackhide__ = True
            source = CellSource.read(shell, line, cell)
            return run_cell(shell, source, InProcess(engine, ran.jobs), CellFlags.parse(line).lazy)

        shell.register_magic_function(magic, "cell", "jmars")
        set_engine(engine)
        try:
            yield ran
        finally:
            set_engine(before)


@pytest.fixture
def notebook() -> Iterator[CellNotebook]:
    """`in_process`, for a test."""
    with in_process() as made:
        yield made


@pytest.fixture(scope="module")
def lasting_notebook() -> Iterator[CellNotebook]:
    """`in_process`, for the examples of Hypothesis."""
    with in_process() as made:
        yield made
