"""Compiles expressions to generated Python functions of NumPy calls, or to numexpr programs, and compares the costs.

Calls of NumPy write the output in place. Two forms: `whole` for chunks of at most a block, where NumPy allocates
intermediate values, and `block`, which takes buffers for them. All names in the generated text are ours (x0, t0, f0,
...); functions and constants are bound as globals, so that no text of a user is ever compiled. Blocked NumPy calls beat
numexpr by 1.5 to 6 times where NumPy has vector loops.

numexpr takes expressions where it gives exactly NumPy's values: only operations with NumPy's dtype and NumPy's bits, no
reductions, no unsigned or short integers, no float16 or complex, no powers, no transcendental functions, no integer
division. Constants enter as typed 0-d arrays, so that no literal promotes a dtype. numexpr is imported when the first
expression is compiled, and runs on a single thread: parallelism is the scheduler's.
Source: docs/explanation/seeds.md, "Graph fusion"; costs as measured, docs/decisions/0007-numpy-before-numexpr.md.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from msgspec import Struct

from jmars.kernels.elementwise import facts
from jmars.kernels.expression import CONSTANT, Expression, Node
from jmars.kernels.float_errors import FILE, GeneratedFrom
from jmars.kernels.program import Elementwise, Program
from jmars.model.limits import REMEMBERED_PROGRAMS

_KEYWORD_OUT = {"maximum", "minimum"}  # a third positional argument is deprecated there


class Body(Struct, frozen=True):
    """An expression on one block: `run(out, *inputs, *buffers)`."""

    run: Callable[..., None]
    buffers: tuple[np.dtype[Any], ...]  # dtype of each buffer; all have the block's shape


class _Writer:
    """Lines of a function and the globals they use."""

    def __init__(self, expression: Expression, twin: int) -> None:
        self.expression = expression
        self.lines: list[str] = []
        self.node_of: dict[int, int] = {}  # by number of the line, of lines that compute a node
        # `where` of records imports a part of NumPy at its first call, through the caller's `__import__`
        self.scope: dict[str, Any] = {
            "copyto": np.copyto,
            "where": np.where,
            "errstate": np.errstate,
            "origin": GeneratedFrom(expression, twin, self.node_of),
            "__builtins__": {"__import__": __import__},
        }
        self.names = [f"x{i}" for i in range(len(expression.inputs))]  # of each value

    def function(self, head: str) -> Callable[..., None]:
        text = "\n    ".join([head, *(self.lines or ["pass"])])
        exec(compile(text, FILE, "exec"), self.scope)
        run: Callable[..., None] = self.scope["run"]
        return run

    def value(self, node: Node) -> str:
        """Text that computes a node, NumPy allocating the result."""
        args = ", ".join(self.names[arg] for arg in node.args)
        match node.op:
            case "where":
                return f"where({args})"
            case "astype":
                return f"{args}.astype({self.bound('d', node.dtype)})"
            case "real" | "imag":
                return f"{args}.{node.op}"
        if node.ufunc is not None:
            part = f"[{int(node.ufunc.part)}]" if node.ufunc.nout > 1 else ""
            return f"{self.bound('f', node.ufunc.load())}({args}){part}"
        name, _, number = node.op.partition(".")
        return f"{self.bound('f', getattr(np, name))}({args})" + (f"[{int(number)}]" if number else "")

    def write(self, number: int, target: str) -> None:
        """A line that writes a node to the array `target`."""
        node = self.expression.nodes[number]
        args = ", ".join(self.names[arg] for arg in node.args)
        if node.op in (CONSTANT, "astype"):
            source = args or self.bound("c", node.value)
            self.line(number, f"copyto({target}, {source}, 'unsafe')")
        elif node.ufunc is not None and node.ufunc.nout == 1:
            self.line(number, f"{self.bound('f', node.ufunc.load())}({args}, {target})")
        elif node.op in ("where", "real", "imag") or "." in node.op:
            self.line(number, f"copyto({target}, {self.value(node)}, 'unsafe')")
        else:
            out = f"out={target}" if node.op in _KEYWORD_OUT else target
            self.line(number, f"{self.bound('f', getattr(np, node.op))}({args}, {out})")

    def line(self, number: int, text: str) -> None:
        """A line that computes a node, in which floating point errors raise as the node says."""
        node = self.expression.nodes[number]
        self.node_of[len(self.lines) + 2] = number  # the head is line 1
        checked = f"with errstate(**{self.bound('e', dict.fromkeys(node.raises, 'raise'))}): " if node.raises else ""
        self.lines.append(checked + text)

    def bound(self, kind: str, thing: Any) -> str:
        name = f"{kind}{len(self.scope)}"
        self.scope[name] = thing
        return name


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def whole_function(expression: Expression, slots: tuple[int, ...], twin: int = 0) -> Callable[..., None]:
    """`run(out, values, args=(), stop=None)`; input `i` is `values[slots[i]]`; `twin` as in `GeneratedFrom`."""
    writer = _Writer(expression, twin)
    if slots == tuple(range(len(slots))) and slots:
        exact = "".join(f"x{i}, " for i in slots)
        writer.lines.append(f"{exact}*_ = values" if len(slots) > 1 else "x0 = values[0]")
    else:
        writer.lines += [f"x{i} = values[{slot}]" for i, slot in enumerate(slots)]
    last = len(expression.nodes) - 1
    for k, node in enumerate(expression.nodes):
        if k == last:
            writer.write(k, "out")
        elif node.op == CONSTANT:
            writer.names.append(writer.bound("c", node.value))
        else:
            writer.line(k, f"v{k} = {writer.value(node)}")
            writer.names.append(f"v{k}")
    return writer.function("def run(out, values, args=(), stop=None):")


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def block_body(expression: Expression, twin: int = 0) -> Body:
    """The expression with a buffer for every intermediate value, reused as soon as the value has no reader left."""
    writer = _Writer(expression, twin)
    n, last = len(expression.inputs), len(expression.nodes) - 1
    last_use = {arg: k for k, node in enumerate(expression.nodes) for arg in node.args}
    buffers: list[np.dtype[Any]] = []
    free = {"out": expression.dtype}  # arrays that may be written, with their dtype
    held: dict[int, str] = {}  # value: name of its array
    for k, node in enumerate(expression.nodes):
        if node.op == CONSTANT and k < last:
            writer.names.append(writer.bound("c", node.value))
            continue
        ending = {arg: held.pop(arg) for arg in set(node.args) if arg in held and last_use[arg] == k}
        for array in ending.values():  # NumPy may write an output over an input of the same dtype
            free[array] = expression.dtype if array == "out" else buffers[int(array[1:])]
        if k == last:
            target = "out"
        else:
            fitting = [array for array, dtype in free.items() if dtype == node.dtype]
            target = next((array for array in fitting if array in ending.values()), fitting[-1] if fitting else "")
            if not target:
                target = f"t{len(buffers)}"
                buffers.append(node.dtype)
            free.pop(target, None)
        writer.write(k, target)
        held[n + k] = target
        writer.names.append(target)
    names = [f"x{i}" for i in range(n)] + [f"t{i}" for i in range(len(buffers))]
    return Body(writer.function(f"def run({', '.join(['out', *names])}):"), tuple(buffers))


MAX_OPS = 32  # compiling grows faster than linearly: 35 ms for 50
MAX_INPUTS = 31  # 64 are refused; room for the output and temporaries

_RANK = {np.dtype("?"): 0, np.dtype("i4"): 1, np.dtype("i8"): 2, np.dtype("f4"): 3, np.dtype("f8"): 4}
_CONVERSION = 0.15  # ns an element more, where NumPy converts an input on the way


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def numexpr_text(expression: Expression) -> str | None:
    """The expression in numexpr's language, or None where it would differ from NumPy or be refused."""
    constants = sum(node.op == CONSTANT for node in expression.nodes)
    if not 1 <= expression.ops <= MAX_OPS or len(expression.inputs) + constants > MAX_INPUTS:
        return None
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    if not all(dtype in _RANK and dtype.isnative for dtype in dtypes):
        return None
    texts = [f"x{i}" for i in range(len(expression.inputs))]
    for k, node in enumerate(expression.nodes):
        args, kinds = [texts[a] for a in node.args], [dtypes[a] for a in node.args]
        text = f"c{k}" if node.op == CONSTANT else _text(node, args, kinds)
        if text is None or len(text) > 4000:
            return None
        texts.append(text)
    inputs = {f"x{i}" for i in range(len(expression.inputs))}
    return texts[-1] if inputs <= _names(texts[-1]) else None  # numexpr refuses an input that is not read


def _names(text: str) -> set[str]:
    """Names of inputs and constants in a text of `numexpr_text`."""
    return set(re.findall(r"\b[xc]\d+\b", text))


def _text(node: Node, args: list[str], dtypes: list[np.dtype[Any]]) -> str | None:
    """One operation, or None where numexpr's result is not NumPy's."""
    op, kinds = node.op, {dtype.kind for dtype in dtypes}
    if node.raises:  # numexpr looks at no floating point errors
        return None
    widest = max(dtypes, key=_RANK.__getitem__)
    text = facts(op).numexpr
    if text is not None and kinds <= set(text[0]) and np.result_type(*dtypes) == widest:
        return text[1].format(*args) if node.dtype in (widest, np.dtype("?")) else None
    if op == "where" and dtypes[0].kind == "b" and dtypes[1] == dtypes[2] == node.dtype:
        return f"where({', '.join(args)})"
    return None


def numexpr_costs(expression: Expression) -> tuple[float, float]:
    """Measured ns of each element: by NumPy in blocks, and by numexpr."""
    numpy_cost = numexpr_cost = 0.0
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    for node in expression.nodes:
        if node.op != CONSTANT:
            here, there = facts(node.op).in_cache
            numpy_cost += here + _CONVERSION * (len({dtypes[arg] for arg in node.args} - {np.dtype("?")}) > 1)
            numexpr_cost += there
    return numpy_cost, numexpr_cost


def runs_in_numexpr(expression: Expression) -> bool:
    """Whether numexpr is installed and gives NumPy's bits for the expression."""
    return numexpr_there() and numexpr_text(expression) is not None


IMPORTING = 0.03  # seconds of an executor, once: twice the import of numexpr


def marked_numexpr(
    programs: Sequence[Program], counts: Sequence[int], always: bool, workers: int, block: int
) -> list[Program]:
    """Give numexpr programs of NumPy's: all that it can compute, or those worth it, of chunks beyond `block`."""

    def shall(program: Program, count: int) -> bool:
        gain = _numexpr_gain(program, block) if program.backend == "numpy" else None
        return gain is not None and (always or gain * count > IMPORTING * workers)

    return [
        replace(program, backend="numexpr") if shall(program, count) else program
        for program, count in zip(programs, counts, strict=True)
    ]


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def _numexpr_gain(program: Program, block: int) -> float | None:
    """Seconds that numexpr saves for an operand, 0 for less than a fifth; None where it computes nothing."""
    parts = [step for step in program.steps if isinstance(step, Elementwise) and runs_in_numexpr(step.expression)]
    costs = [(numexpr_costs(step.expression), step.output.size) for step in parts if step.output.size > block]
    numpy, numexpr = (sum(cost[way] * size for cost, size in costs) / 1e9 for way in (0, 1))
    return None if not parts else numpy - numexpr if numexpr < 0.8 * numpy else 0.0


@lru_cache(maxsize=1)
def numexpr_there() -> bool:
    """Whether numexpr is installed (extra `numexpr`); without numexpr NumPy runs all operands."""
    return find_spec("numexpr") is not None


def numexpr_function(expression: Expression) -> Callable[..., None]:
    """`run(out, *inputs)`; compiled once per thread, because a compiled NumExpr must not run in two at once."""
    text = numexpr_text(expression)
    assert text is not None
    import numexpr  # slow to import, and rarely needed

    kinds = {np.dtype(t): t for t in numexpr.necompiler.type_to_kind if t not in (str, bytes, complex)}
    kinds |= {np.dtype("f4"): float}  # numexpr calls float32 "float"
    kinds |= {np.dtype("f8"): np.float64}
    constants = [(f"c{k}", node) for k, node in enumerate(expression.nodes) if node.op == CONSTANT]
    read = [(name, node) for name, node in constants if name in _names(text)]
    signature = [(f"x{i}", kinds[dtype]) for i, dtype in enumerate(expression.inputs)]
    signature += [(name, kinds[node.dtype]) for name, node in read]
    values = [node.value for _, node in read]
    own = threading.local()

    def run(out: Any, *inputs: Any) -> None:
        compiled = own.__dict__.get("compiled")
        if compiled is None:
            compiled = own.compiled = numexpr.necompiler.NumExpr(text, signature)
        with _one_thread(numexpr):
            compiled(*inputs, *values, out=out, casting="no", order="K", ex_uses_vml=False)

    return run


_ALONE = threading.Lock()


@contextmanager
def _one_thread(numexpr: Any) -> Iterator[None]:
    """Run numexpr in one thread: floating point errors of other threads are lost. Executors have one thread anyway."""
    if numexpr.nthreads == 1 and not _ALONE.locked():
        yield
        return
    with _ALONE:
        before = numexpr.set_num_threads(1)
        try:
            yield
        finally:
            numexpr.set_num_threads(before)
