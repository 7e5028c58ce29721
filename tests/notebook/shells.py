"""An IPython shell without a kernel, and what a cell run in it shows."""

from __future__ import annotations

import atexit
import builtins
import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config


@contextmanager
def new_shell() -> Iterator[InteractiveShell]:
    """The shell that `get_ipython()` gives, without colours and without a history file."""
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    hooks = {name: getattr(builtins, name, None) for name in ("get_ipython", "display")}
    shell = InteractiveShell.instance(config=settings)
    try:
        yield shell
    finally:
        shell.atexit_operations()
        atexit.unregister(shell.atexit_operations)
        InteractiveShell.clear_instance()
        for name, value in hooks.items():
            if value is None:
                builtins.__dict__.pop(name, None)


@dataclass
class Ran:
    """What came of a cell."""

    result: ExecutionResult
    text: str  # all that it printed, its traceback included

    @property
    def value(self) -> Any:
        return self.result.result

    @property
    def error(self) -> BaseException | None:
        return self.result.error_before_exec or self.result.error_in_exec


@dataclass
class Notebook:
    """Cells run one after another in one shell."""

    shell: InteractiveShell
    cells: list[Ran] = field(default_factory=list)

    def run(self, text: str) -> Ran:
        """Run a cell; an error is kept, not raised."""
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            result = self.shell.run_cell(text, store_history=True)
        ran = Ran(result, output.getvalue())
        self.cells.append(ran)
        return ran

    def __call__(self, text: str) -> Any:
        """Run a cell that must not fail; its value."""
        ran = self.run(text)
        assert ran.error is None, ran.text
        return ran.value

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.shell.user_ns
