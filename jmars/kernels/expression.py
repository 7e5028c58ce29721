"""An elementwise expression as data: typed nodes with the numbers of the values that they read.

`tensor/ops/ufuncs.py` builds an `Expression`, fusing.py joins several, the back ends compile the result.
Values are numbered: first the inputs, then the nodes in order; the last node is the result. NumPy resolved every dtype,
so no back end decides about promotion. Constants are kept as bytes: 0.0 and -0.0 differ, NaN equals NaN. Equal
structures share a kernel.

A ufunc of another library, as `scipy.special.erf`, travels by pickle: for a ufunc of a module, the names of module and
ufunc. Only the processes that run a kernel load the pickle.
Source: Mars `tensor/fuse/numexpr.py` (names `V_0`, `V_1`, ... for the inputs of a fused expression).
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct

from jmars.kernels.elementwise import facts

CONSTANT = "constant"  # op of a node that holds a value and has no inputs


class Node(Struct, frozen=True):
    """An operation: NumPy's name, the values read, NumPy's dtype of the result.

    The operation of a ufunc of another library has a name with dots, as "scipy.special.erf".
    """

    op: str
    args: tuple[int, ...]
    dtype: np.dtype[Any]
    data: bytes = b""  # the value, for a constant
    ufunc: UfuncReference | None = None  # ufunc of a library other than NumPy
    raises: tuple[str, ...] = ()  # floating point errors that raise, as NumPy names them: "divide", "over", ...
    warns: int = 0  # floating point errors that are told as warnings: bits of `float_errors.BITS`
    text: str = ""  # text of the warnings; "" for NumPy's own

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The constant as a read-only 0-d array."""
        return np.ndarray((), self.dtype, self.data)

    def reading(self, args: tuple[int, ...]) -> Node:
        """The operation on other values."""
        return Node(self.op, args, self.dtype, self.data, self.ufunc, self.raises, self.warns, self.text)


class Expression(Struct, frozen=True):
    """Nodes over `inputs`; the last node is the result.

    Examples
    --------
    >>> f8 = np.dtype("f8")
    >>> e = Expression((f8, f8), (Node("add", (0, 1), f8), constant(2.0, f8), Node("multiply", (2, 3), f8)))
    >>> e.text()
    '(x0 + x1) * 2.0'
    """

    inputs: tuple[np.dtype[Any], ...]
    nodes: tuple[Node, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the result."""
        return self.nodes[-1].dtype

    @property
    def ops(self) -> int:
        """Operations that compute, constants not counted."""
        return sum(node.op != CONSTANT for node in self.nodes)

    def text(self, names: Sequence[str] = ()) -> str:
        """The expression in Python's notation, with inputs called `names` or x0, x1, ..."""
        texts = [names[i] if i < len(names) else f"x{i}" for i in range(len(self.inputs))]
        for node in self.nodes:
            texts.append(_node_text(node, [texts[arg] for arg in node.args]))
            if len(texts[-1]) > 2000:  # a value that is read twice doubles the text
                texts[-1] = f"{texts[-1][:200]}…"
        last = texts[-1]
        return last[1:-1] if facts(self.nodes[-1].op).sign else last


def _node_text(node: Node, args: list[str]) -> str:
    if node.op == CONSTANT:
        is_unitless = node.dtype.kind == "M" and np.datetime_data(node.dtype)[0] == "generic"  # has no text
        return str(node.value.astype(np.int64) if is_unitless else node.value[()])
    if sign := facts(node.op).sign:
        return f"({args[0]} {sign} {args[1]})"
    if node.op == "astype":
        return f"{node.dtype.name}({args[0]})"
    return f"{node.op}({', '.join(args)})"


def constant(value: Any, dtype: np.dtype[Any]) -> Node:
    """A constant of `dtype`; raises OverflowError where NumPy would."""
    is_unitless = dtype.kind == "M" and not isinstance(value, np.datetime64)  # NumPy casts numbers, and reads none
    is_void = dtype.kind == "V" and dtype.names is None and isinstance(value, int)
    number = np.array(value).astype(dtype) if is_unitless or is_void else np.array(value, dtype)
    return Node(CONSTANT, (), dtype, number.tobytes())


def same(dtype: np.dtype[Any]) -> Expression:
    """The identity, as an expression."""
    return Expression((dtype,), (Node("positive", (0,), dtype),))


def share(expression: Expression, slots: Sequence[int]) -> Expression:
    """Rename input `i` to input `slots[i]`; inputs with equal new numbers become a single input."""
    n = max(slots, default=-1) + 1
    inputs = [expression.inputs[list(slots).index(i)] for i in range(n)]
    value = list(slots) + [n + k for k in range(len(expression.nodes))]
    return Expression(tuple(inputs), tuple(_renumbered(node, value.__getitem__) for node in expression.nodes))


def _renumbered(node: Node, number: Any) -> Node:
    return node.reading(tuple(number(arg) for arg in node.args)) if node.args else node


class UfuncReference(Struct, frozen=True):
    """An output of a ufunc: the ufunc's name and pickle, and the number of the output.

    Examples
    --------
    >>> import numpy as np
    >>> UfuncReference("numpy.hypot", pickle.dumps(np.hypot), 2, 1).load()(3.0, 4.0)
    np.float64(5.0)
    """

    name: str  # with the public name of its module: "scipy.special.erf"
    blob: bytes
    nin: int
    nout: int
    part: int = 0

    def load(self) -> Any:
        """The ufunc; loaded once for each process."""
        return _loaded(self.blob)


@lru_cache(maxsize=256)
def _loaded(blob: bytes) -> Any:
    return pickle.loads(blob)
