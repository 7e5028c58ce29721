"""Compiles the text of a `%%jmars` cell: user's line numbers, NumPy imports rewritten, last value captured.

Magics, `!` and `?` are IPython's own transformations. `import numpy ...` becomes an import from
`jmars.notebook.numpy_names`, which gives jmars.tensor while a cell runs and NumPy otherwise (a function defined in the
cell may be called later). Functions with a decorator stay as they are, since other compilers may read them.

Errors that depend on values are raised where NumPy raises them, while the code handles errors. NumPy raises LinAlgError
or FloatingPointError in the call, jmars when the value is computed, by then perhaps after the `try`. So while the body
of a `try` runs, with all functions that it calls, and while `np.errstate` or `np.seterr` says "raise", results that may
raise errors are computed at once, in the call. Other values of the body are computed at its end: of expression
statements, of `return`, and of names that the body does not read again; their inputs are computed with them. At the
end of the body follow the values whose warnings no computation has told, since only a part of them was read.

The values that a `print` or an f-string shows are computed by one job. `print(a.sum(), b.max())` asks for the text of
one value after the other, so calls of `print` with several arguments, and f-strings with several values, first compute
these values together.
"""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import re
import weakref
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import cloudpickle
import numpy as np
from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell

from jmars.client.auto_persist import PARTLY, STREAMED
from jmars.errors import JmarsError
from jmars.notebook.namespace import tensors_in
from jmars.notebook.numpy_names import LIBRARIES, Import, imports_in
from jmars.tensor.buffers import Buffer
from jmars.tensor.engine import can_compute, get_engine
from jmars.tensor.operand import Operand, SourceLine, TensorData
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.ops.matrix_operands import Contraction
from jmars.tensor.protocols import set_result_hook
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import LinkedGraph, Stored

LAST_VALUE = "__jmars_last_value__"  # the last expression's name while the cell runs
_WORD = re.compile(r"[^\W\d]\w*")
_NAMES_MODULE = "jmars.notebook.numpy_names"


@dataclass(frozen=True)
class CellSource:
    """A compiled cell."""

    code: CodeType  # may be a coroutine (top-level await); binds LAST_VALUE when `shows`
    filename: str  # in tracebacks IPython writes it as `Cell In[n]`
    label: str  # "In [n]", the job's name
    lines: tuple[str, ...]  # as in tracebacks, the `%%jmars` line included
    words: Mapping[str, int]  # first line, from 1, of every identifier in the text: the names that the cell may read
    shows: bool  # the last statement is an expression whose value is shown
    imports: tuple[Import, ...]  # outside functions and classes

    @classmethod
    def read(cls, shell: InteractiveShell, line: str, body: str) -> CellSource:
        """Compiles the cell below a `%%jmars` line whose flags are `line`.

        Raises
        ------
        SyntaxError
            As for any cell, with the user's line number.
        """
        number, before = _place(shell, line, body)
        ipython: Any = shell  # half of its methods carry no types
        python = before + ipython.transform_cell(body)
        filename = shell.compile.cache(python, number=number, raw_code=before + body)
        with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
            tree = shell.compile.ast_parse(python, filename)
            tree = ipython.transform_ast(tree)
            imports = imports_in(tree) if "import" in python else ()
            if any(library in python for library in LIBRARIES):
                tree = ast.fix_missing_locations(_NumPyImports().visit(tree))
            if "try" in python or "with" in python:
                tree = with_guards(tree)
            if "print" in python or "{" in python:
                tree = with_looks(tree)
            shows = _capture_last(tree, shell.ast_node_interactivity)
            if shows and DisplayHook.semicolon_at_end_of_expression(body):  # type: ignore[no-untyped-call]
                shows = False
            code = ipython.compile(tree, filename, "exec")
        words: dict[str, int] = {}
        for at, text in enumerate((before + body).splitlines(), start=1):
            for word in _WORD.findall(text) if not text.startswith("# %%") else ():
                words.setdefault(word, at)
        return cls(code, filename, f"In [{number}]", tuple(python.splitlines()), words, shows, imports)

    def line_of(self, word: str) -> SourceLine | None:
        """The first line that mentions `word`; None if no line does."""
        at = self.words.get(word)
        text = self.lines[at - 1].strip() if at is not None and at <= len(self.lines) else ""
        return SourceLine(self.filename, at, text) if at is not None else None


def _place(shell: InteractiveShell, line: str, body: str) -> tuple[int, str]:
    """Number of the cell, and the lines above the body in the user's cell, as comments."""
    history = shell.history_manager
    inputs = history.input_hist_raw if history is not None else [""]
    raw, typed = inputs[-1].rstrip(), body.rstrip()
    above = raw[: len(raw) - len(typed)]
    if raw.endswith(typed) and "%%" in above:
        return len(inputs) - 1, "".join(f"# {text}\n" for text in above.splitlines())
    return shell.execution_count, f"# %%jmars {line}".rstrip() + "\n"  # called by hand, or not kept in the history


def _capture_last(tree: ast.Module, interactivity: str) -> bool:
    """Binds the value that the cell shows to LAST_VALUE; False if the cell shows no value."""
    if not tree.body or interactivity == "none":
        return False
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        value: ast.expr = last.value
        tree.body.pop()
    elif interactivity == "last_expr_or_assign" and isinstance(last, ast.Assign | ast.AugAssign | ast.AnnAssign):
        target = last.targets[0] if isinstance(last, ast.Assign) else last.target
        if not isinstance(target, ast.Name):
            return False
        value = ast.copy_location(ast.Name(target.id, ast.Load()), last)
    else:
        return False
    name = ast.copy_location(ast.Name(LAST_VALUE, ast.Store()), last)
    tree.body.append(ast.copy_location(ast.Assign([name], value), last))
    return True


class _NumPyImports(ast.NodeTransformer):
    """Rewrites `import numpy.linalg as la` to `from jmars.notebook.numpy_names import <numpy.linalg> as la`."""

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        parts: list[ast.stmt] = []
        for alias in node.names:
            library = alias.name.split(".")[0]
            if library not in LIBRARIES:
                parts.append(ast.copy_location(ast.Import([alias]), node))
            elif alias.asname is None:  # `import numpy.linalg` binds `numpy`
                parts.append(_from_names(node, library, library))
            else:
                parts.append(_from_names(node, alias.name, alias.asname))
        return parts

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        module = node.module or ""
        if node.level or module.split(".")[0] not in LIBRARIES:
            return node
        names = [(alias.name, alias.asname or alias.name) for alias in node.names]
        if names[0][0] == "*":
            source = importlib.import_module(module)
            public = getattr(source, "__all__", [name for name in vars(source) if not name.startswith("_")])
            return [_from_names(node, f"?{module}.{name}", name) for name in public if not name.startswith("__")]
        return [_from_names(node, f"{module}.{name}", bound) for name, bound in names]


def _from_names(place: ast.stmt, path: str, bound: str) -> ast.stmt:
    """`from jmars.notebook.numpy_names import path as bound`, on the line of `place`."""
    return ast.copy_location(ast.ImportFrom(_NAMES_MODULE, [ast.alias(path, bound)], 0), place)


COMPUTED = "__jmars_computed__"  # the name of `computed` in a cell
MAX_FETCHED_BYTES = 2**20  # bytes; a smaller value may be fetched without a job
_GUARDS = frozenset(
    ["assert_raises", "assert_raises_regex", "assert_warns", "catch_warnings", "raises", "suppress", "warns"]
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class _Computed:
    """Computes the tensors in a value and returns the value; on a worker, in a user's function, it returns the value.

    As a context it stands around the body of a `try`, or of a `with` that sees warnings or errors.

    Attributes
    ----------
    failed
        Nodes that a computation failed to compute, since `failed` was cleared. Names that still refer to them, which in
        NumPy would have no value, are not computed again at the end of the cell.
    depth
        Number of bodies that run.
    journal
        Writes of the bodies that run, each with the value before: a write that fails is taken back.
    made
        Tensors that calls in the bodies that run have made, numbered in order.
    whole
        Nodes of which all elements were computed meanwhile, so that their warnings were told.

    Examples
    --------
    >>> computed(3)
    3
    """

    def __init__(self) -> None:
        self.failed: weakref.WeakSet[TensorData] = weakref.WeakSet()
        self.depth = 0
        self.journal: list[tuple[Buffer, TensorData]] = []
        self.made: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
        self.whole: weakref.WeakSet[TensorData] = weakref.WeakSet()
        self._numbers = itertools.count()
        self._begun: list[tuple[int, int]] = []  # of each body that runs: first number of `made`, length of `journal`

    def begin(self) -> None:
        """Note that a cell begins."""
        self.failed.clear()
        self._forget()
        self.depth = 0

    def _forget(self) -> None:
        self.journal.clear()
        self.made.clear()
        self.whole.clear()
        self._begun.clear()

    def __enter__(self) -> None:
        self.depth += 1
        self._begun.append((next(self._numbers), len(self.journal)))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        __tracebackhide__ = True
        begun = self._begun.pop() if self._begun else None
        try:
            is_over = kind is None or issubclass(kind, Exception) and not issubclass(kind, JmarsError)
            if is_over and begun and can_compute():
                self._tell_warnings(*begun)
        finally:
            self.depth = max(0, self.depth - 1)  # a generator of an earlier cell may end in this cell
            if not self.depth:
                self._forget()

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Note tensors that a call in a body has made."""
        self.made.update((next(self._numbers), one) for one in tensors)

    def note_whole(self, nodes: Sequence[TensorData]) -> None:
        """Note computed nodes, and their inputs that were computed whole."""
        if self.depth:
            todo = list(nodes)
            for one in todo:  # grows during the loop
                if one not in self.whole:
                    self.whole.add(one)
                    todo += () if isinstance(one.op, PARTLY) else one.op.inputs

    def _tell_warnings(self, first: int, n_writes: int) -> None:
        """Compute what a body has made and written, and what may warn, unless it was computed."""
        __tracebackhide__ = True
        found = [one for number, one in list(self.made.items()) if number > first and one._place.memory is None]
        written = dict.fromkeys(buffer for buffer, _ in self.journal[n_writes:] if buffer.memory is None)
        found += [Tensor(buffer.node) for buffer in written]
        wanted: list[Tensor] = []
        for one in reversed(found):  # readers before what they read
            if one.data not in self.failed and _may_tell(one.data, self.whole):
                wanted.append(one)
                self.note_whole([one.data])
        self(wanted)

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
            (large if one.data.has_unknown_lengths or one.nbytes > MAX_FETCHED_BYTES else small).append(one)
        try:
            if large:
                get_engine().execute([one.data for one in large])
            for one in small:
                one.fetch(copy=False)
            self.note_whole([one.data for one in tensors])
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
        lazy = [one for one in tensors_in([found]) if one._place.memory is None]  # others have their values
        if computed.depth:
            computed.add(lazy)
        risky = [one for one in lazy if _may_raise(one.data, checked)]
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
    for one in todo:  # grows during the loop
        if one not in checked:
            checked.add(one)
            found = found or _is_risky(one.op)
            todo += one.op.inputs
    return found


def _may_tell(node: TensorData, whole: Container[TensorData]) -> bool:
    """Whether a node that reads nodes outside of `whole` may give warnings, or raise errors that depend on values."""
    todo = dict.fromkeys([node])
    for one in (order := list(todo)):  # grows during the loop
        if one not in whole:
            if (
                _is_risky(one.op)
                or isinstance(one.op, ElementwiseOperand)
                and any(part.warns for part in one.op.expression.nodes)
            ):
                return True
            order += [each for each in one.op.inputs if each not in todo]
            todo.update(dict.fromkeys(one.op.inputs))
    return False


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
        return "".join([_formatted(*part) if part.__class__ is tuple else part for part in parts])

    def __reduce__(self) -> Any:
        return cloudpickle.loads, (_looked_for_workers(),)


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
def _looked_for_workers() -> bytes:
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
