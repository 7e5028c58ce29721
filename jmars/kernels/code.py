"""Writes LLVM assembly by Python operators: a `Value` is a vector of lanes, and `a * b` writes an instruction.

The code is exact: no reordering, and contraction only by `fma`, so that every operation rounds as NumPy's does. No text
of a user ever enters the code.
Source: LLVM Language Reference (llvm.org/docs/LangRef.html), "Instruction Reference" and "Vector Type".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Code", "Value", "kind_of"]

_KINDS = {"f8": "double", "f4": "float", "b1": "i1"} | {f"{s}{n}": f"i{8 * n}" for s in "iu" for n in (1, 2, 4, 8)}
_BITS = {"double": "i64", "float": "i32"}


def kind_of(dtype: np.dtype[Any]) -> str | None:
    """LLVM's type for an element, or None where no type computes as NumPy does."""
    return _KINDS.get(dtype.str[1:]) if dtype.isnative else None


class Code:
    """Instructions of a function that computes `lanes` elements at a time."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.flagged: list[Value] = []  # lanes that are outside of what a formula can do
        self._known: dict[tuple[str, str], Value] = {}

    def type(self, kind: str) -> str:
        """A vector of `kind`."""
        return f"<{self.lanes} x {kind}>"

    def write(self, text: str, kind: str) -> Value:
        """Append an instruction that gives a value; an equal instruction is written only once."""
        known = self._known.get((text, kind))
        if known is None:
            known = self._known[text, kind] = Value(self, f"%v{len(self._known)}", kind)
            self.lines.append(f"{known.name} = {text}")
        return known

    def constant(self, value: Any, kind: str) -> Value:
        """The same number in every lane."""
        if kind in _BITS:
            one = f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
        elif kind == "i1":
            one = str(bool(value)).lower()
        else:
            one = str(int(value))
        return Value(self, f"<{', '.join([f'{kind} {one}'] * self.lanes)}>", kind)

    def call(self, name: str, *args: Value) -> Value:
        """Call an LLVM function on vectors: `name` without types; the result has the type of the first argument."""
        kind, kinds = args[0].kind, [arg.kind for arg in args]
        short = {"double": "f64", "float": "f32"}
        full = f"@llvm.{name}.v{self.lanes}{short.get(kind, kind)}"
        flags = [", i1 false"] if name == "abs" and kind not in short else []  # the least integer stays itself
        self.declared.add(f"declare {self.type(kind)} {full}({', '.join(map(self.type, kinds))}{', i1' * len(flags)})")
        return self.write(
            f"call {self.type(kind)} {full}({', '.join(arg.typed for arg in args)}{''.join(flags)})", kind
        )

    def fma(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """`a * b + c`, rounded once."""
        return self.call("fma", a, a.like(b), a.like(c))

    def choose(self, condition: Value, a: Value, b: Value | float) -> Value:
        """Lanes of `a` where the condition holds, of `b` elsewhere."""
        return self.write(f"select {condition.typed}, {a.typed}, {a.like(b).typed}", a.kind)

    def convert(self, how: str, value: Value, kind: str) -> Value:
        """Convert a value by an LLVM conversion instruction."""
        return self.write(f"{how} {value.typed} to {self.type(kind)}", kind)


@dataclass(frozen=True, eq=False)
class Value:
    """A vector of lanes; arithmetic with a Python number makes a constant of the number."""

    code: Code
    name: str
    kind: str

    @property
    def typed(self) -> str:
        """The value with its type, as instructions spell an operand."""
        return f"{self.code.type(self.kind)} {self.name}"

    @property
    def is_float(self) -> bool:
        """Whether the lanes are floating point."""
        return self.kind in _BITS

    def like(self, other: Value | float) -> Value:
        """`other` as a value of the same type."""
        return other if isinstance(other, Value) else self.code.constant(other, self.kind)

    def then(self, how: str, other: Value | float) -> Value:
        """Append an LLVM instruction of two operands of equal type."""
        return self.code.write(f"{how} {self.typed}, {self.like(other).name}", self.kind)

    def is_(self, how: str, other: Value | float) -> Value:
        """Compare lane by lane, by LLVM's name of the comparison."""
        instruction = "fcmp" if self.is_float else "icmp"
        return self.code.write(f"{instruction} {how} {self.typed}, {self.like(other).name}", "i1")

    def __add__(self, other: Value | float) -> Value:
        return self.then("fadd" if self.is_float else "add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self.then("fsub" if self.is_float else "sub", other)

    def __rsub__(self, other: float) -> Value:
        return self.like(other) - self

    def __mul__(self, other: Value | float) -> Value:
        return self.then("fmul" if self.is_float else "mul", other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Value | float) -> Value:
        return self.then("fdiv", other)

    def __rtruediv__(self, other: float) -> Value:
        return self.like(other) / self

    def __neg__(self) -> Value:
        return self.code.write(f"fneg {self.typed}", self.kind) if self.is_float else self.like(0) - self

    def __abs__(self) -> Value:
        return self.code.call("fabs" if self.is_float else "abs", self)

    def __and__(self, other: Value | int) -> Value:
        return self.then("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self.then("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self.then("xor", other)

    def __lshift__(self, by: int) -> Value:
        return self.then("shl", by)

    def __rshift__(self, by: int) -> Value:
        """Zeros come in from above."""
        return self.then("lshr", by)

    @property
    def bits(self) -> Value:
        """A floating point number's bits."""
        return self.code.convert("bitcast", self, _BITS[self.kind])

    @property
    def as_double(self) -> Value:
        """Bits as the number that they are of."""
        return self.code.convert("bitcast", self, "double")
