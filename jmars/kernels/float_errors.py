"""Collects floating point errors of elementwise kernels, for the warnings that NumPy would give.

NumPy calls a `FloatErrors` (`np.seterrcall`) when an operation divides by zero, overflows or has an invalid value, and
costs nothing otherwise. Only generated functions (numpy_backend.py) count; the line of the function that runs is the
node. Machine code and numexpr set the flags of the processor: `Suspicion` reads them, and NumPy computes the block
again where they tell of an error. The scheduler finds the user's line (`Compiled.source`).
Source: NumPy reference, "Floating point error handling"; docs/decisions/0055-warnings-of-workers.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from types import CodeType

    from jmars.kernels.expression import Expression, Node

__all__ = ["BITS", "FILE", "WORDS", "FloatError", "FloatErrors", "GeneratedFrom"]
__all__ += ["expression_of", "message", "unsure"]

FILE = "<jmars kernel>"  # file name of generated functions
BITS = {"divide": 1, "over": 2, "under": 4, "invalid": 8}  # as `np.errstate` names the errors
WORDS = {1: "divide by zero", 2: "overflow", 4: "underflow", 8: "invalid value"}  # as NumPy tells the handler
_BIT_OF = {words: bit for bit, words in WORDS.items()}


class GeneratedFrom(NamedTuple):
    """What a generated function computes; the global `origin` of the function.

    Attributes
    ----------
    expression
        The expression.
    twin
        How many steps of the program before that have an equal expression: each has a function of its own.
    node_of
        Node that each line of the function computes.
    """

    expression: Expression
    twin: int
    node_of: dict[int, int]


class FloatError(NamedTuple):
    """A floating point error of a node that is told as a warning."""

    step: int  # of the program
    node: int  # of the step's expression
    bit: int  # of BITS


class FloatErrors:
    """NumPy's error handler of a thread that runs kernels; collects the errors of an operand.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.expression import Expression, Node
    >>> from jmars.kernels.numpy_backend import whole_function
    >>> f8 = np.dtype("f8")
    >>> expression = Expression((f8,), (Node("reciprocal", (0,), f8, warns=1),))
    >>> errors = FloatErrors()
    >>> with np.errstate(all="call", call=errors):
    ...     whole_function(expression, (0,))(np.empty(2), [np.array([0.0, 1.0])])
    >>> [(node, bit) for _, node, bit in errors.found]
    [(0, 1)]
    """

    __slots__ = ("_known", "found", "unsure")

    def __init__(self) -> None:
        self.found: list[tuple[GeneratedFrom, int, int]] = []  # what a function computes, node, bit
        self.unsure = False  # whether there was an error in a function that also computes elements that nobody reads
        self._known: dict[tuple[int, int, str], GeneratedFrom] = {}  # its values keep the ids in use

    def __call__(self, words: str, flags: int) -> None:
        """Note an error of a NumPy call; `words` name it, "divide by zero"."""
        frame = sys._getframe(1)
        if frame.f_code.co_filename != FILE:
            return
        if frame.f_back is not None and frame.f_back.f_code in _UNSURE:
            self.unsure = True
            return
        origin: GeneratedFrom = frame.f_globals["origin"]
        known = id(origin), frame.f_lineno, words
        if known in self._known:
            return
        self._known[known] = origin
        node = origin.node_of.get(frame.f_lineno)
        if node is not None and origin.expression.nodes[node].warns & _BIT_OF[words]:
            self.found.append((origin, node, _BIT_OF[words]))

    def take(self, steps: Sequence[Any]) -> list[FloatError]:
        """The errors of the operand that ended, by the steps of the program; the next operand begins."""
        found, self.found = self.found, []
        self._known.clear()
        told = [FloatError(_step(steps, origin), node, bit) for origin, node, bit in found]
        return [error for error in dict.fromkeys(told) if error.step >= 0]


def expression_of(step: Any) -> Expression | None:
    """The expression that a step computes; None for other steps.

    A step on chunks of unknown size is a `Call` with the expression as its parameter.
    """
    found: Expression | None = getattr(step, "expression", None)
    if found is None:
        params: tuple[Any, ...] = getattr(step, "params", ())
        found = params[0] if len(params) == 1 and hasattr(params[0], "nodes") else None
    return found


def _step(steps: Sequence[Any], origin: GeneratedFrom) -> int:
    """The step of a program that a generated function computes; -1 for none."""
    equal = [k for k, step in enumerate(steps) if expression_of(step) == origin.expression]
    return equal[origin.twin] if origin.twin < len(equal) else -1


_UNSURE: set[CodeType] = set()


def unsure(function: Any) -> None:
    """Mark a function that also computes elements without readers by generated functions."""
    _UNSURE.add(function.__code__)


def message(node: Node, bit: int) -> str:
    """The text of NumPy's warning.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.expression import Node
    >>> message(Node("divide", (0, 1), np.dtype("f8")), 1)
    'divide by zero encountered in divide'
    """
    if node.text:
        return node.text
    name = node.op.rpartition(".")[2] if node.ufunc is not None else node.op.partition(".")[0]
    return f"{WORDS[bit]} encountered in {'cast' if name == 'astype' else name}"
