"""Retained: nodes with values that this client keeps on a cluster, until no Python object refers to the node."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any
from weakref import KeyedRef

from jmars.tensor.operand import TensorData

__all__ = ["Retained"]


class Retained(dict[str, "KeyedRef[str, TensorData]"]):
    """Weak references by the nodes' keys.

    Parameters
    ----------
    forget
        Called with the key of a node that is gone, in any thread; not at the end of the interpreter.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
    >>> x, gone = ones(4), []
    >>> retained = Retained(gone.append)
    >>> retained.add([x.data])
    >>> key = x.data.key
    >>> key in retained, gone == [key]
    (True, False)
    >>> del x
    >>> key in retained, gone == [key]
    (False, True)
    """

    def __init__(self, forget: Callable[[str], None]) -> None:
        super().__init__()
        self._forget = forget

    def add(self, nodes: Iterable[TensorData]) -> None:
        """Retain the values of nodes; no effect for keys that are retained."""
        for one in nodes:
            self.setdefault(one.key, KeyedRef(one, self._gone, one.key))

    def _gone(self, reference: Any) -> None:
        key = reference.key
        if self.get(key) is reference:
            self.pop(key, None)
            if not sys.is_finalizing():
                self._forget(key)
