"""Writes loops around an expression in LLVM assembly, over the elements of a chunk or summing its blocks; loads them.

`elementwise_text` and `sums_text` give a whole module with a single function, or None where the expression has no
machine code. Sums are added in the very order in which NumPy adds a block of this size, so that both give the same
bits: eight partial sums over 128 elements, then pairs of neighbours.

numba's library (`llvmlite`, extra `jit`) compiles the text for this machine. An `ExecutionEngine` owns the target
machine that it is made with, so the process keeps a single engine for good.
Source: NumPy `_core/src/umath/loops_utils.h.src`, pairwise sum; Higham 1993, "The accuracy of floating point
summation"; llvmlite documentation (llvmlite.readthedocs.io), "Binding layer".
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import xxhash

from jmars.kernels.blocks import BLOCK_SIZE
from jmars.kernels.elementwise import Code, Value, converted, facts, kind_of, loop_dtypes, truth
from jmars.kernels.expression import CONSTANT, Expression, Node
from jmars.model.collector import free_in_child

LANES = 16  # elements per iteration: two of the widest registers, so that their latencies overlap
LINE, AHEAD = 64, 16_384  # bytes of a cache line; bytes of prefetch distance
LEAF, PARTS = 128, 8  # as in NumPy's pairwise sum: elements of a leaf, partial sums in a leaf
Pattern = tuple[tuple[bool, bool], ...]  # of each input: whether it varies by row, and by column


def lane_code(expression: Expression, code: Code, inputs: Sequence[Value]) -> Value | None:
    """Write the expression over these lanes; None where a part of the expression has no machine code."""
    dtypes = [*expression.inputs, *(node.dtype for node in expression.nodes)]
    values = list(inputs)
    for node in expression.nodes:
        value = _node(node, code, [values[arg] for arg in node.args], [dtypes[arg] for arg in node.args])
        if value is None:
            return None
        values.append(value)
    return values[-1]


def _node(node: Node, code: Code, args: list[Value], dtypes: list[np.dtype[Any]]) -> Value | None:
    kind = kind_of(node.dtype)
    if kind is None:
        return None
    if node.op == CONSTANT:
        return code.constant(node.value[()], kind)
    if node.op == "astype":
        return converted(args[0], dtypes[0], node.dtype)
    if node.op == "where":
        a, b = (converted(one, dtype, node.dtype) for one, dtype in zip(args[1:], dtypes[1:]))
        return None if a is None or b is None else code.choose(truth(args[0]), a, b)
    code_of = facts(node.op).llvm
    if code_of is None or node.raises:  # machine code looks at no floating point errors
        return None
    kinds, operation = code_of
    loop = loop_dtypes(node.op, tuple(dtypes), node.dtype)
    if loop is None or any(kind_of(dtype) is None for dtype in loop) or len(set(loop[:-1])) > 1:
        return None
    if loop[0].kind not in kinds:
        return None
    ready = [converted(one, dtype, wanted) for one, dtype, wanted in zip(args, dtypes, loop)]
    return None if None in ready else operation(*ready, loop[0])


def _memory(kind: str) -> str:
    """LLVM's type of an element in memory."""
    return "i8" if kind == "i1" else kind


def _load(code: Code, dtype: np.dtype[Any], number: int, own: bool, head: list[str]) -> Value:
    """Load lanes of an input from `%i` on, or broadcast a single element, which `head` reads once."""
    kind = kind_of(dtype)
    assert kind is not None
    stored = _memory(kind)
    vector = code.type(stored)
    if own:
        code.lines.append(f"%a{number} = getelementptr {stored}, ptr %in{number}, i64 %i")
        code.lines.append(f"%x{number} = load {vector}, ptr %a{number}, align 1")
        _fetch_ahead(code, number, code.lanes * _size(stored))
    else:
        head.append(f"%s{number} = load {stored}, ptr %in{number}, align 1")
        head.append(f"%o{number} = insertelement {vector} poison, {stored} %s{number}, i32 0")
        zero = f"<{code.lanes} x i32> zeroinitializer"
        head.append(f"%x{number} = shufflevector {vector} %o{number}, {vector} poison, {zero}")
    value = Value(code, f"%x{number}", stored)
    return value.is_("ne", 0) if kind == "i1" else value


def _fetch_ahead(code: Code, number: int, size: int) -> None:
    """Prefetch the cache lines that hold an input's lanes some iterations ahead.

    The processor's own prefetcher stops at a page, 4 KiB in shared memory. The prefetches bypass the outer caches
    ("non-temporal"), where each line would push out data that is read again; prefetching beyond the end does no harm.
    """
    code.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for line in range(size // LINE):
        code.lines.append(f"%h{number}_{line} = getelementptr i8, ptr %a{number}, i64 {AHEAD + LINE * line}")
        code.lines.append(f"call void @llvm.prefetch.p0(ptr %h{number}_{line}, i32 0, i32 0, i32 1)")


def _written(expression: Expression, pattern: Pattern) -> tuple[Code, list[str], Value] | None:
    """Write the expression: the body of a loop over `%i`, the code before the loop, and the result."""
    if any(kind_of(dtype) is None for dtype in expression.inputs):
        return None
    code, head = Code(LANES), list[str]()
    inputs = [_load(code, dtype, k, pattern[k][1], head) for k, dtype in enumerate(expression.inputs)]
    value = lane_code(expression, code, inputs)
    return None if value is None else (code, head, value)


def _flagged(code: Code) -> str:
    """Write the instructions that add lanes outside a formula's domain to earlier flags."""
    seen = code.constant(False, "i1")
    for one in code.flagged:
        seen = seen | one
    mask = code.type("i1")
    return f"%flags = or {mask} %before, {seen.name}"


def _any(code: Code) -> str:
    """Write whether some lane was flagged, to %any."""
    n = code.lanes
    return f"%flag = bitcast <{n} x i1> %flags to i{n}\n%any = zext i{n} %flag to i64"


def _module(code: Code, text: str) -> str:
    memory = [
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    ]
    return "\n".join([*sorted(code.declared), *memory, text, ""])


def elementwise_text(expression: Expression, pattern: Pattern) -> str | None:
    """A module with `i64 run(out, in..., rows, columns)`; it returns 0, or nonzero where NumPy must compute the block.

    Parameters
    ----------
    expression
        What to compute for each element of `out`, shape (rows, columns), C-contiguous.
    pattern
        Which inputs have rows and columns of their own; the others are read again and again.
    """
    written = _written(expression, pattern)
    if written is None:
        return None
    code, head, value = written
    if value.kind == "i1":
        value = code.convert("zext", value, "i8")
    code.lines.append(f"%to = getelementptr {value.kind}, ptr %out, i64 %i")
    code.lines.append(f"store {value.typed}, ptr %to, align 1")
    flags = _flagged(code)
    ins = "".join(f", ptr %in{k}" for k in range(len(pattern)))
    mask = code.type("i1")
    strip = f"""
define internal i64 @strip(ptr noalias %out{ins}, i64 %n) noinline {{
entry:
{_lines(head)}
br label %loop
loop:
%i = phi i64 [0, %entry], [%next, %loop]
%before = phi {mask} [zeroinitializer, %entry], [%flags, %loop]
{_lines(code.lines)}
{flags}
%next = add i64 %i, {LANES}
%more = icmp ult i64 %next, %n
br i1 %more, label %loop, label %end
end:
{_any(code)}
ret i64 %any
}}
"""
    return _module(code, strip + _rows(expression, pattern, value.kind))


def _rows(expression: Expression, pattern: Pattern, out: str) -> str:
    """`run`: rows in strips of whole vectors; the remainder of a row goes through buffers of a vector's length."""
    kinds = [_memory(str(kind_of(dtype))) for dtype in expression.inputs]
    n = len(kinds)
    own = [k for k in range(n) if pattern[k][1]]
    ins = "".join(f", ptr %in{k}" for k in range(n))
    start = [f"%b{k} = alloca [{LANES} x {kinds[k]}], align 64" for k in own]
    start.append(f"%bout = alloca [{LANES} x {out}], align 64")
    start += [f"call void @llvm.memset.p0.i64(ptr %b{k}, i8 0, i64 {LANES * _size(kinds[k])}, i1 false)" for k in own]
    row, rest = [], []
    for k, kind in enumerate(kinds):
        rows, columns = pattern[k]
        if rows:
            row.append(f"%d{k} = {'mul i64 %r, %columns' if columns else 'add i64 %r, 0'}")
            row.append(f"%p{k} = getelementptr {kind}, ptr %in{k}, i64 %d{k}")
        else:
            row.append(f"%p{k} = getelementptr {kind}, ptr %in{k}, i64 0")
    for k in own:
        rest.append(f"%q{k} = getelementptr {kinds[k]}, ptr %p{k}, i64 %whole")
        rest.append(f"%n{k} = mul i64 %left, {_size(kinds[k])}")
        rest.append(f"call void @llvm.memcpy.p0.p0.i64(ptr %b{k}, ptr %q{k}, i64 %n{k}, i1 false)")
    main = "".join(f", ptr %p{k}" for k in range(n))
    last = "".join(f", ptr %{'b' if k in own else 'p'}{k}" for k in range(n))
    return f"""
define i64 @run(ptr noalias %out{ins}, i64 %rows, i64 %columns) {{
entry:
{_lines(start)}
%whole = and i64 %columns, {-LANES}
%left = and i64 %columns, {LANES - 1}
%some = icmp ne i64 %whole, 0
%odd = icmp ne i64 %left, 0
br label %row
row:
%r = phi i64 [0, %entry], [%following, %after]
%f0 = phi i64 [0, %entry], [%f2, %after]
%dout = mul i64 %r, %columns
%pout = getelementptr {out}, ptr %out, i64 %dout
{_lines(row)}
br i1 %some, label %main, label %between
main:
%fm = call i64 @strip(ptr %pout{main}, i64 %whole)
br label %between
between:
%g = phi i64 [0, %row], [%fm, %main]
%f1 = or i64 %f0, %g
br i1 %odd, label %rest, label %after
rest:
{_lines(rest)}
%fr = call i64 @strip(ptr %bout{last}, i64 {LANES})
%qout = getelementptr {out}, ptr %pout, i64 %whole
%nout = mul i64 %left, {_size(out)}
call void @llvm.memcpy.p0.p0.i64(ptr %qout, ptr %bout, i64 %nout, i1 false)
br label %after
after:
%h = phi i64 [0, %between], [%fr, %rest]
%f2 = or i64 %f1, %h
%following = add i64 %r, 1
%again = icmp ult i64 %following, %rows
br i1 %again, label %row, label %end
end:
ret i64 %f2
}}
"""


def sums_text(expression: Expression, pattern: Pattern, state: np.dtype[Any]) -> str | None:
    """A module with `i64 run(out, in..., 1, blocks)`: the sum of each block of `BLOCK_SIZE` elements, in NumPy's order.

    None also where NumPy would convert the elements in another order than that of the addition.
    """
    if expression.dtype != state and not (expression.dtype.kind in "biu" and state.kind in "iu"):
        return None
    written = _written(expression, pattern)
    if written is None:
        return None
    code, head, elements = written
    value = converted(elements, expression.dtype, state)
    assert value is not None, "numbers of such kinds are converted"
    flags = _flagged(code)
    kind, add = value.kind, "fadd" if value.is_float else "add"
    part, zero = f"<{PARTS} x {kind}>", "-0.0" if value.is_float else "0"
    sums, before = [], "%acc"
    for k in range(LANES // PARTS):  # in order: each partial sum takes every eighth element
        lanes = ", ".join(f"i32 {PARTS * k + lane}" for lane in range(PARTS))
        sums.append(f"%w{k} = shufflevector {value.typed}, {value.typed}, <{PARTS} x i32> <{lanes}>")
        sums.append(f"%acc{k} = {add} {part} {before}, %w{k}")
        before = f"%acc{k}"
    ins = "".join(f", ptr %in{k}" for k in range(len(pattern)))
    mask, leaves = code.type("i1"), BLOCK_SIZE // LEAF
    first = ", ".join([f"{kind} {zero}"] * PARTS)
    aligned = f"align {PARTS * _size(kind)}"
    text = f"""
define i64 @run(ptr noalias %out{ins}, i64 %rows, i64 %blocks) {{
entry:
%parts = alloca [{leaves * PARTS} x {kind}], align 64
{_lines(head)}
br label %block
block:
%b = phi i64 [0, %entry], [%bnext, %done]
%fb = phi {mask} [zeroinitializer, %entry], [%flags, %done]
br label %leafstart
leafstart:
%l = phi i64 [0, %block], [%lnext, %leafend]
%fl = phi {mask} [%fb, %block], [%flags, %leafend]
%bstart = mul i64 %b, {BLOCK_SIZE}
%lstart = mul i64 %l, {LEAF}
%start = add i64 %bstart, %lstart
%stop = add i64 %start, {LEAF}
br label %loop
loop:
%i = phi i64 [%start, %leafstart], [%next, %loop]
%before = phi {mask} [%fl, %leafstart], [%flags, %loop]
%acc = phi {part} [<{first}>, %leafstart], [{before}, %loop]
{_lines(code.lines)}
{_lines(sums)}
{flags}
%next = add i64 %i, {LANES}
%more = icmp ult i64 %next, %stop
br i1 %more, label %loop, label %leafend
leafend:
%at = mul i64 %l, {PARTS}
%to = getelementptr {kind}, ptr %parts, i64 %at
store {part} {before}, ptr %to, {aligned}
%lnext = add i64 %l, 1
%lmore = icmp ult i64 %lnext, {leaves}
br i1 %lmore, label %leafstart, label %level
level:
%width = phi i64 [{leaves * PARTS // 2}, %leafend], [%narrower, %levelend]
br label %pairs
pairs:
%j = phi i64 [0, %level], [%jnext, %pairs]
%twice = shl i64 %j, 1
%pl = getelementptr {kind}, ptr %parts, i64 %twice
%pr = getelementptr {kind}, ptr %pl, i64 {PARTS}
%vl = load {part}, ptr %pl, {aligned}
%vr = load {part}, ptr %pr, {aligned}
{_pairs(kind, "%vl", "%vr", PARTS, "%vs", add)}
%ps = getelementptr {kind}, ptr %parts, i64 %j
store {part} %vs, ptr %ps, {aligned}
%jnext = add i64 %j, {PARTS}
%jmore = icmp ult i64 %jnext, %width
br i1 %jmore, label %pairs, label %levelend
levelend:
%narrower = lshr i64 %width, 1
%wmore = icmp uge i64 %narrower, {PARTS}
br i1 %wmore, label %level, label %done
done:
{_pairs(kind, "%vs", "%vs", 4, "%four", add)}
{_pairs(kind, "%four", "%four", 2, "%two", add)}
{_pairs(kind, "%two", "%two", 1, "%one", add)}
%sum = extractelement <1 x {kind}> %one, i32 0
%pout = getelementptr {kind}, ptr %out, i64 %b
store {kind} %sum, ptr %pout
%bnext = add i64 %b, 1
%bmore = icmp ult i64 %bnext, %blocks
br i1 %bmore, label %block, label %end
end:
{_any(code)}
ret i64 %any
}}
"""
    return _module(code, text)


def _pairs(kind: str, left: str, right: str, count: int, to: str, add: str) -> str:
    """Sums of `count` pairs of neighbours in the lanes of `left` and `right`, or of a single vector given as both."""
    size = 2 * count if left == right else count
    both = f"<{size} x {kind}> {left}, <{size} x {kind}> {right}"
    evens, odds = (", ".join(f"i32 {2 * k + odd}" for k in range(count)) for odd in (0, 1))
    return _lines(
        [
            f"{to}even = shufflevector {both}, <{count} x i32> <{evens}>",
            f"{to}odd = shufflevector {both}, <{count} x i32> <{odds}>",
            f"{to} = {add} <{count} x {kind}> {to}even, {to}odd",
        ]
    )


def _size(kind: str) -> int:
    """Bytes of an element."""
    return {"double": 8, "float": 4}.get(kind) or int(kind[1:]) // 8


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines)


_one = free_in_child(threading.Lock())  # engine and target machine are not thread-safe


@lru_cache(maxsize=1)
def llvm_there() -> bool:
    """Whether llvmlite is installed, without importing it: the import is slow."""
    return find_spec("llvmlite") is not None


def _machine(llvm: Any) -> Any:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        codemodel="jitdefault",
        jit=True,
    )


@lru_cache(maxsize=1)
def _library() -> tuple[Any, Any, Any]:
    """llvmlite's binding, the target machine, and the engine that holds loaded functions."""
    import llvmlite.binding as llvm  # slow to import, and rarely needed

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm, _machine(llvm), llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(llvm))


def _compiled(text: str) -> bytes:
    """An object file for this machine."""
    llvm, machine, _ = _library()
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False  # the text is vectorised already
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def load(text: str, inputs: int) -> Any:
    """The function `run` of a module that takes so many inputs: (out address, in address..., rows, columns) -> int."""
    name = f"jmars_{xxhash.xxh3_128_hexdigest(text.encode())}"  # unique among the functions of the shared engine
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * (1 + inputs), ctypes.c_int64, ctypes.c_int64)
    with _one:
        llvm, _, engine = _library()
        address = engine.get_function_address(name)
        if not address:
            engine.add_object_file(llvm.ObjectFileRef.from_data(_compiled(text.replace("@run(", f"@{name}("))))
            engine.finalize_object()
            address = engine.get_function_address(name)
    return kind(address)
