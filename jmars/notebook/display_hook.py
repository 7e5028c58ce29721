"""Makes `display(x)` inside a `%%jmars` cell show values, as `print(x)` does: they are computed at once.

IPython swallows exceptions while it formats, so values are computed before it begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.notebook.namespace import tensors_in
from jmars.tensor.composite import Composite
from jmars.tensor.engine import get_engine
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_format import summary

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["compute_displayed_values"]


@contextmanager
def compute_displayed_values(shell: InteractiveShell) -> Iterator[None]:
    """Within the block, computes tensors before IPython displays them."""
    formatter: Any = shell.display_formatter
    before = vars(formatter).get("format")  # the hook of an outer cell, if this cell runs inside another cell
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
    """Computes the small tensors in `value`; a large tensor is replaced by its text, for which the corners suffice."""
    __tracebackhide__ = True
    largest = np.get_printoptions()["threshold"]
    if isinstance(value, Tensor | Composite) and value.size > largest:
        return _Text(summary(value, repr) if isinstance(value, Tensor) else value.formatted(repr))
    small = [x.data for x in tensors_in([value]) if x.size <= largest]
    if small:
        get_engine().execute(small)
    return value


class _Text:
    """An object whose repr is the given text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text
