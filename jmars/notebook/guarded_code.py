"""Has errors that depend on values raised where NumPy raises them, while a cell's code handles errors.

NumPy raises LinAlgError or FloatingPointError in the call, jmars when the value is computed, by then perhaps after the
`try`. So while the body of a `try` runs, with all functions that it calls, and while `np.errstate` or `np.seterr` says
"raise", results that may raise errors are computed at once, in the call. Other values of the body are computed at its
end: of expression statements, of `return`, and of names that the body does not read again; their inputs are computed
with them. Functions with a decorator stay as they are, since other compilers may read them.
"""

from __future__ import annotations

import ast
import functools
import weakref
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cloudpickle
import numpy as np

from jmars.client.auto_persist import STREAMED
from jmars.notebook.namespace import tensors_in
from jmars.tensor.buffers import Buffer
from jmars.tensor.engine import can_compute, get_engine
from jmars.tensor.operand import Operand, TensorData
from jmars.tensor.ops.elementwise.formula import ElementwiseOperand
from jmars.tensor.ops.linalg.contraction import Contraction
from jmars.tensor.protocols import set_result_hook
from jmars.tensor.source_line import SourceLine
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import LinkedGraph, Stored

__all__ = ["COMPUTED", "computed", "errors_at_once", "with_guards"]

COMPUTED = "__jmars_computed__"  # the name of `computed` in a cell
SMALL = 2**20  # bytes of a value that is fetched, which may take no job
_GUARDS = frozenset(
    ["assert_raises", "assert_raises_regex", "assert_warns", "catch_warnings", "raises", "suppress", "warns"]
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class _Computed:
    """Computes the tensors in a value and returns the value; on a worker, in a user's function, it returns the value.

    As a context it stands around the body of a `try`.

    Attributes
    ----------
    failed
        Nodes that a computation failed to compute, since `failed` was cleared. Names that still refer to them, which in
        NumPy would have no value, are not computed again at the end of the cell.
    depth
        Number of bodies that run.
    journal
        Writes of the bodies that run, each with the value before: a write that fails is taken back.

    Examples
    --------
    >>> computed(3)
    3
    """

    def __init__(self) -> None:
        self.failed: weakref.WeakSet[TensorData] = weakref.WeakSet()
        self.depth = 0
        self.journal: list[tuple[Buffer, TensorData]] = []

    def begin(self) -> None:
        """Note that a cell begins."""
        self.failed.clear()
        self.journal.clear()
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth = max(0, self.depth - 1)  # a generator of an earlier cell may end in this cell
        if not self.depth:
            self.journal.clear()

    def note_failure(self, data: Sequence[TensorData], held: Container[str], line: SourceLine | None) -> None:
        """Note a computation that failed at a line of the user; None: at an unknown line."""
        linked = LinkedGraph.of(data, held)
        bad = [False] * len(linked.nodes)
        for k, operand in enumerate(linked.operands):
            is_there = line is None or operand.line == line
            bad[k] = not isinstance(operand, Stored) and is_there or any(bad[i] for i in linked.inputs[k])
        self.failed.update(node for node, is_bad in zip(linked.nodes, bad, strict=True) if is_bad or not any(bad))

    def __call__(self, value: Any) -> Any:
        __tracebackhide__ = True
        tensors = tensors_in([value])
        if not tensors or not can_compute():
            return value
        small: list[Tensor] = []
        large: list[Tensor] = []
        for one in tensors:
            (large if one.data.has_unknown_lengths or one.nbytes > SMALL else small).append(one)
        try:
            if large:
                get_engine().execute([one.data for one in large])
            for one in small:
                one.fetch(copy=False)
        except BaseException:
            nodes = {one.data for one in tensors}
            for buffer, before in reversed(self.journal.copy()):
                if buffer.node in nodes:
                    buffer.take_back(before)
            raise
        return value

    def __reduce__(self) -> Any:
        return cloudpickle.loads, (_for_workers(),)


computed = _Computed()


@functools.cache
def _for_workers() -> bytes:
    """A stand-in, pickled with its code, so that no worker imports this module."""

    class Computed:
        def __call__(self, value: Any) -> Any:
            return value

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    Computed.__module__ = "__main__"  # cloudpickle would else refer to this module
    return bytes(cloudpickle.dumps(Computed()))


@contextmanager
def errors_at_once() -> Iterator[None]:
    """Within the block, where code handles errors, results that may raise errors are computed in the call."""
    checked: weakref.WeakSet[TensorData] = weakref.WeakSet()

    def check(found: Any) -> Any:
        __tracebackhide__ = True
        if not computed.depth and "raise" not in np.geterr().values():
            computed.journal.clear()
            return found
        risky = [one for one in tensors_in([found]) if _may_raise(one.data, checked)]
        if risky:
            computed(risky)
        return found

    set_result_hook(check)
    Buffer.journal = computed.journal
    try:
        yield
    finally:
        Buffer.journal = None
        computed.journal.clear()
        set_result_hook(None)


def _may_raise(node: TensorData, checked: weakref.WeakSet[TensorData]) -> bool:
    """Whether the computation of a node may raise an error that depends on values; notes the nodes that were seen."""
    todo = [node]
    found = False
    for one in todo:  # grows while it is read
        if one not in checked:
            checked.add(one)
            found = found or _is_risky(one.op)
            todo += one.op.inputs
    return found


def _is_risky(op: Operand) -> bool:
    """Whether an operand may raise an error that depends on values."""
    if isinstance(op, ElementwiseOperand):
        nodes = op.expression.nodes
        is_text = any(one.dtype.kind in "SU" for one in op.inputs)
        return is_text or any(
            one.raises or one.ufunc is not None or one.op == "power" and one.dtype.kind == "i" for one in nodes
        )
    return bool(op.inputs) and not isinstance(op, (*STREAMED, Contraction))


def with_guards(tree: ast.Module) -> ast.Module:
    """Adds calls of `computed` to the code of a cell.

    Examples
    --------
    >>> tree = ast.parse("try:\\n    q = np.linalg.inv(m)\\nexcept np.linalg.LinAlgError:\\n    q = None")
    >>> print(ast.unparse(with_guards(tree)))
    try:
        with __jmars_computed__:
            q = __jmars_computed__(np.linalg.inv(m))
    except np.linalg.LinAlgError:
        q = None
    """
    return _Guards().visit(tree)  # type: ignore[no-any-return]


class _Guards(ast.NodeTransformer):
    def __init__(self) -> None:
        self._guarded = 0  # depth of bodies around a statement
        self._last: set[ast.AST] = set()  # assignments to names that their body does not read again

    def visit_Try(self, node: Any) -> Any:
        node.body = self._body(node.body, handles=bool(node.handlers))
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)
        return node

    visit_TryStar = visit_Try

    def visit_With(self, node: ast.With) -> ast.AST:
        if any(_is_guard(item.context_expr) for item in node.items):
            node.body = self._body(node.body)
            return node
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: Any) -> Any:
        if node.decorator_list:
            return node
        before, self._guarded = self._guarded, 0
        self.generic_visit(node)
        self._guarded = before
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        before, self._guarded = self._guarded, 0
        self.generic_visit(node)
        self._guarded = before
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if self._guarded and not isinstance(node.value, ast.Constant | ast.Await | ast.Yield | ast.YieldFrom):
            node.value = self._call(node.value)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if self._guarded and node.value is not None and not isinstance(node.value, ast.Constant):
            node.value = self._call(node.value)
        return node

    def visit_Assign(self, node: Any) -> Any:
        if self._guarded and node in self._last:
            node.value = self._call(node.value)
        return node

    visit_AnnAssign = visit_Assign

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if not self._guarded or node not in self._last:
            return node
        name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)  # type: ignore[union-attr]
        return [node, ast.copy_location(ast.Expr(self._call(name)), node)]

    def _body(self, body: list[ast.stmt], handles: bool = True) -> list[ast.stmt]:
        order = _Order()
        for statement in body:
            order.visit(statement)
        before, self._last = self._last, self._last | order.last()
        self._guarded += 1
        visited = [self.visit(statement) for statement in body]
        found = [one for made in visited for one in (made if isinstance(made, list) else [made])]
        self._guarded -= 1
        self._last = before
        if not handles or all(isinstance(one, ast.Import | ast.ImportFrom | ast.Pass) for one in body):
            return found
        guard = ast.With([ast.withitem(ast.Name(COMPUTED, ast.Load()))], found)
        return [ast.fix_missing_locations(ast.copy_location(guard, body[0]))]

    def _call(self, value: ast.expr) -> ast.expr:
        call = ast.Call(ast.Name(COMPUTED, ast.Load()), [value], [])
        return ast.fix_missing_locations(ast.copy_location(call, value))


class _Order(ast.NodeVisitor):
    """Finds assignments to names that the rest of a body does not read, in the order in which code runs."""

    def __init__(self) -> None:
        self._loaded: dict[str, int] = {}
        self._stored: list[tuple[ast.AST, str, int]] = []
        self._at = 0

    def last(self) -> set[ast.AST]:
        """The assignments."""
        return {node for node, name, at in self._stored if at > self._loaded.get(name, 0)}

    def visit_Name(self, node: ast.Name) -> None:
        self._at += 1
        if isinstance(node.ctx, ast.Load):
            self._loaded[node.id] = self._at

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for part in node.targets:
            self._store(node, part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._store(node, node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self._store(node, node.target)

    def _store(self, node: ast.AST, target: ast.expr) -> None:
        self.visit(target)
        self._at += 1
        names = [one for one in ast.walk(target) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        self._stored += [(node, name.id, self._at) for name in names]

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, _FUNCTIONS):
            super().visit(node)


def _is_guard(node: ast.expr) -> bool:
    """Whether an expression makes a context in which errors or warnings of its body are handled."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    raises = any(isinstance(word.value, ast.Constant) and word.value.value == "raise" for word in node.keywords)
    return name in _GUARDS or name == "errstate" and raises
