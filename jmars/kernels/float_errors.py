"""Collects floating point errors of elementwise kernels, for the warnings that NumPy would give; describes exceptions.

NumPy calls a `FloatErrors` (`np.seterrcall`) when an operation divides by zero, overflows or has an invalid value, and
costs nothing otherwise. Only generated functions (numpy_backend.py) count; the line of the function that runs is the
node. Machine code and numexpr set the flags of the processor: `Suspicion` reads them, and NumPy computes the block
again where they tell of an error. The scheduler finds the user's line (`Compiled.source`).

An exception of a kernel becomes a `Failure`: class, text, frames of the user's code, and the operand that raised, of
those that are fused in the program. Executors and tasks on an engine use the same description, so the client shows the
same error wherever an operand ran.
Source: NumPy reference, "Floating point error handling"; docs/decisions/0055-warnings-of-workers.md;
docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import errno
import os
import pickle
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np

from jmars.errors import JmarsError, text_of
from jmars.model.messages import Failure

if TYPE_CHECKING:
    from types import CodeType

    from jmars.kernels.expression import Expression, Node

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
        self.found: list[tuple[GeneratedFrom, int, int]] = []  # (computed function, node, bit)
        self.unsure = False  # True: the error may stem from computed elements that are not read
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


_MEMBER, _IN_CHAIN, _ITEM = "_jmars_member", "_jmars_in_chain", "_jmars_item"


def note_member(error: BaseException, member: int, in_chain: bool = False) -> None:
    """Note on an exception the number of the fused operand that raised it; the last note holds, except of a chain.

    `in_chain`: in a chain (`row_chains`), so the region's own note, which comes next, has no effect.
    """
    with suppress(Exception):  # a user's exception may forbid attributes
        if in_chain or not error.__dict__.pop(_IN_CHAIN, False):
            error.__dict__[_MEMBER] = member
        if in_chain:
            error.__dict__[_IN_CHAIN] = True


def take_member(error: BaseException) -> int:
    """Number of the fused operand that raised an exception, -1 if unknown; removes the note."""
    try:
        error.__dict__.pop(_IN_CHAIN, False)
        member = error.__dict__.pop(_MEMBER, -1)
    except Exception:
        return -1
    return member if type(member) is int else -1


def item_text(item: int, function: str, args: tuple[Any, ...]) -> str:
    """A call of a map in words; shows numbers, and the types of other arguments: texts may be secret, arrays large."""
    return f"item {item}, {function}({', '.join(map(_argument_text, args))})"[:200]


def _argument_text(value: Any) -> str:
    kind = type(value)
    if kind is int and value.bit_length() <= 64 or kind in _NUMBERS or isinstance(value, np.number | np.bool_):
        return repr(value)
    return f"{kind.__name__} of length {len(value)}" if kind in _LISTS else kind.__name__


_NUMBERS, _LISTS = {bool, float, complex, type(None)}, {str, bytes, bytearray, list, tuple, dict, set}


def note_item(error: BaseException, text: str) -> None:
    """Note a map's failed item on the exception; the last note holds."""
    with suppress(Exception):  # a user's exception may forbid attributes
        error.__dict__[_ITEM] = text


def _take_item(error: BaseException) -> list[str]:
    with suppress(Exception):
        return [error.__dict__.pop(_ITEM)]
    return []


PACKAGE = str(Path(__file__).parents[1]) + os.sep
NUMPY = str(Path(np.__file__).parent) + os.sep


MOST_EARLIER = 4  # causes and contexts in a traceback
PASSING = (OSError, MemoryError, EOFError)  # errors that may pass; a connection that is lost is an OSError or EOFError


def describe(error: BaseException) -> Failure:
    """The failure of an exception; never raises."""
    users = _users_frames(error)
    frames = [] if isinstance(error, JmarsError) else traceback.extract_tb(error.__traceback__)  # our text says all
    trace = "".join(traceback.format_list((users or frames)[-8:])) + (_earlier(error) if users else "")
    member = take_member(error)
    item, notes = _take_item(error), list[str]()
    try:
        blob = cloudpickle.dumps(error)
        copy = pickle.loads(blob)
        for text in item:  # the original may be raised again
            copy.add_note(text)
            blob = cloudpickle.dumps(copy)
    except Exception:  # not picklable: name, text and notes are sent
        blob, notes = b"", [*_notes_of(error), *item]
    final = isinstance(error, JmarsError)
    own = not final and any(not frame.filename.startswith(NUMPY) for frame in users)
    is_of_store = isinstance(error, OSError) and error.errno == errno.EBUSY and error.filename is None
    # fsspec's clients of object stores raise it for 503, after many tries of their own, and for a conflict of writers
    transient = isinstance(error, PASSING) and not final and not is_of_store
    text = "\n".join([text_of(error), *notes])[:10_000]
    return Failure(type(error).__name__, text, trace[:20_000], blob, "", member, transient, final, own)


def _users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Frames of an error outside jmars."""
    return [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith((PACKAGE, FILE))]


def _earlier(error: BaseException) -> str:
    """Causes and contexts of an error with frames, latest first; a pickle drops both."""
    told = ""
    with suppress(Exception):  # a user's exception may override attributes
        for _ in range(MOST_EARLIER):
            cause, context = error.__cause__, None if error.__suppress_context__ else error.__context__
            if (earlier := cause or context) is None:
                break
            frames = _users_frames(earlier)
            if cause is None and not frames:
                break  # jmars handles an error of its own
            how = "while handling" if cause is None else "caused by"
            told += f"{how} {type(earlier).__name__}: {text_of(earlier)[:500]}\n"
            told += "".join(traceback.format_list(frames[-4:]))
            error = earlier
    return told


def _notes_of(error: BaseException) -> list[str]:
    with suppress(Exception):  # users may set other values
        return [str(note) for note in error.__notes__]
    return []
