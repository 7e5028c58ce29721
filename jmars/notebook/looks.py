"""Computes the values that a `print` or an f-string of a cell shows by one job, not by a job for each.

`print(a.sum(), b.max())` asks for the text of one value after the other. So calls of `print` with several arguments,
and f-strings with several values, first compute these values together. Functions with a decorator stay as they are,
since other compilers may read them.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import cloudpickle
import numpy as np

from jmars.tensor.engine import can_compute, get_engine
from jmars.tensor.tensor import Tensor

__all__ = ["LOOKED", "looked", "with_looks"]

LOOKED = "__jmars_looked__"  # the name of `looked` in a cell
_CONVERSIONS: dict[int, Callable[[Any], Any]] = {115: str, 114: repr, 97: ascii}


class _Looked:
    """Computes the tensors among its arguments and returns the arguments; on a worker it only returns them.

    Examples
    --------
    >>> looked(1, "a"), looked.text(("x = ", looked.field(1.5, -1, ".2f"), ", ", looked.field("a", 114, "")))
    ((1, 'a'), "x = 1.50, 'a'")
    """

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        __tracebackhide__ = True
        _compute(values)
        return values

    def field(self, value: Any, conversion: int, spec: str) -> Any:
        """The text of a value of an f-string, at once, since a later field may change the value; of a tensor without
        a value, the tensor as it is now, with conversion and format.
        """
        __tracebackhide__ = True
        if value.__class__ is not Tensor or value._place.memory is not None:
            return _formatted(value, conversion, spec)
        now = Tensor(value.data)
        now._place.is_array = value._place.is_array
        return now, conversion, spec

    def text(self, parts: Sequence[Any]) -> str:
        """The text of an f-string of constants and fields."""
        __tracebackhide__ = True
        _compute([one[0] for one in parts if one.__class__ is tuple])
        return "".join([part if part.__class__ is str else _formatted(*part) for part in parts])

    def __reduce__(self) -> Any:
        return cloudpickle.loads, (_for_workers(),)


looked = _Looked()


def _formatted(value: Any, conversion: int, spec: str) -> str:
    return format(value if conversion < 0 else _CONVERSIONS[conversion](value), spec)


def _compute(values: Sequence[Any]) -> None:
    """Compute the values that are shown whole, where there are several."""
    __tracebackhide__ = True
    tensors = [one for one in values if one.__class__ is Tensor and one._place.memory is None]
    if len(tensors) < 2 or not can_compute():
        return
    most = np.get_printoptions()["threshold"]
    small = [one.data for one in tensors if not one.data.has_unknown_lengths and one.size <= most]
    if len(small) > 1:
        get_engine().look(small)


@functools.cache
def _for_workers() -> bytes:
    """A stand-in, pickled with its code, so that no worker imports this module."""
    formatted = FunctionType(_formatted.__code__, {"_CONVERSIONS": _CONVERSIONS})

    class Looked:
        def __call__(self, *values: Any) -> tuple[Any, ...]:
            return values

        def field(self, value: Any, conversion: int, spec: str) -> str:
            return str(formatted(value, conversion, spec))

        def text(self, parts: Sequence[str]) -> str:
            return "".join(parts)

    Looked.__module__ = "__main__"  # cloudpickle would else refer to this module
    return bytes(cloudpickle.dumps(Looked()))


def with_looks(tree: ast.Module) -> ast.Module:
    """Adds calls of `looked` to the code of a cell.

    Examples
    --------
    >>> print(ast.unparse(with_looks(ast.parse("print(a, b, sep='')\\nt = f'{a}: {b:.1f}'"))))
    print(*__jmars_looked__(a, b), sep='')
    t = __jmars_looked__.text((__jmars_looked__.field(a, -1, ''), ': ', __jmars_looked__.field(b, -1, f'.1f')))
    """
    return _Looks().visit(tree)  # type: ignore[no-any-return]


class _Looks(ast.NodeTransformer):
    def visit_FunctionDef(self, node: Any) -> Any:
        if not node.decorator_list:
            self.generic_visit(node)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "print" and len(node.args) > 1:
            call = ast.Call(ast.Name(LOOKED, ast.Load()), node.args, [])
            node.args = [_placed(ast.Starred(call, ast.Load()), node)]
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
        if sum(isinstance(part, ast.FormattedValue) for part in node.values) < 2:
            return node
        parts = [
            _call("field", part.value, ast.Constant(part.conversion), part.format_spec or ast.Constant(""))
            if isinstance(part, ast.FormattedValue) else part
            for part in node.values
        ]  # fmt: skip
        return _placed(_call("text", ast.Tuple(parts, ast.Load())), node)


def _call(method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(LOOKED, ast.Load()), method, ast.Load()), list(args), [])


def _placed(made: Any, node: ast.AST) -> Any:
    """A node at the place of another node."""
    return ast.fix_missing_locations(ast.copy_location(made, node))
