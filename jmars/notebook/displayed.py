"""`display(x)` inside a `%%jmars` cell shows values, as `print(x)` does: they are computed there and then.

IPython catches what goes wrong while it formats, so values are computed before it begins. Used by cell.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.notebook.namespace import tensors_in
from jmars.tensor.composite import Composite
from jmars.tensor.display import summary
from jmars.tensor.engine import get_engine
from jmars.tensor.tensor import Tensor

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["values_displayed"]


@contextmanager
def values_displayed(shell: InteractiveShell) -> Iterator[None]:
    """Within, what IPython is to display is computed first."""
    formatter: Any = shell.display_formatter
    before = vars(formatter).get("format")  # another cell's, where this one runs inside it
    own = formatter.format

    def format(obj: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return own(_computed(obj), *args, **kwargs)

    formatter.format = format
    try:
        yield
    finally:
        if before is None:
            del formatter.format
        else:
            formatter.format = before


def _computed(value: Any) -> Any:
    """`value` with its tensors held, so that they show what is in them; of a large one the text, for its corners do."""
    __tracebackhide__ = True
    largest = np.get_printoptions()["threshold"]
    if isinstance(value, Tensor | Composite) and value.size > largest:
        return _Text(summary(value, repr) if isinstance(value, Tensor) else value.formatted(repr))
    small = [x.data for x in tensors_in([value]) if x.size <= largest]
    if small:
        get_engine().execute(small)
    return value


class _Text:
    """What shows as this text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text
