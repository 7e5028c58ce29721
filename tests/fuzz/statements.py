"""Statements of NumPy as text: calls of every function by its signature, methods, operators, indexing, writes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.tensor.protocols import FUNCTIONS
from tests.fuzz.arguments import NEVER, NUMBERS, argument, array, number_or_array
from tests.fuzz.values import Drawing

# Not compared: memory that nobody wrote, text, and arguments that no row of arguments.py draws.
LEFT_OUT = set(
    "empty empty_like resize frombuffer fromiter fromfunction vectorize piecewise nditer apply_over_axes einsum_path "
    "mask_indices broadcast ndenumerate unique_values ndarray poly1d array2string array_repr array_str show_config "
    "polynomial.Polynomial".split(" ")
)
OTHER_MODULES = ("random.", "method.", "ma.", "char.", "strings.", "polynomial.")  # some fill the table when imported
FILES = ("load", "save", "fromfile", "fromregex", "genfromtxt", "fromstring", "memmap", "lib.format")
# NumPy 2.4 crashes, with `out` of an array without axes
CRASHES_OF_NUMPY = {"cumsum", "cumprod", "nancumsum", "nancumprod", "cumulative_sum", "cumulative_prod"}
METHODS = (
    "all any argmax argmin argpartition argsort astype byteswap choose clip compress conj copy cumprod cumsum diagonal "
    "dot flatten max mean min nonzero prod put ravel repeat reshape round searchsorted sort squeeze std sum "
    "swapaxes take tobytes tolist trace transpose var view fill partition item"
).split(" ")
WITHOUT_FUNCTION = {  # methods whose parameters are not those of a function of the same name
    "astype": ["dtype", "copy"], "view": ["dtype"], "reshape": ["shape"], "fill": ["val"], "item": [], "tobytes": [],
    "tolist": [], "transpose": [], "choose": ["choices"], "put": ["ind", "v"], "byteswap": [], "copy": ["order"],
    "flatten": ["order"], "conj": [], "dot": ["b"],
}  # fmt: skip
OPERATORS = "+ - * / // % ** @ & | ^ << >> == != < <= > >=".split(" ")
INDICES = (
    "0 | -1 | 1: | ::-1 | ... | None | ..., 0 | [0, 0] | [1, -1] | :, 0 | :, ::2 | 1:0 | [[0], [1]] | 9 | True | () | "
    "0, 0 | [True, False] | 'x' | ['x', 'y'] | :, [0, -1] | ..., None, 0 | -9:2 | 0:1, ..., [0] | [] | 1.5"
).split(" | ")
ATTRIBUTES = "real imag T mT flat[0] flat[:3] shape size dtype nbytes ndim".split(" ")
# Functions that write to `out` while they read the arguments, also where both share memory.
UNBUFFERED = {"stack", "concatenate", "concat", "take", "compress", "choose", "cumsum", "cumprod"}
MANY = {"einsum", "broadcast_arrays", "broadcast_shapes", "ix_", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d"}
SUBSCRIPTS = "'ij->ji' | 'i,i' | 'ij,jk' | 'ii' | 'i,j->ij' | '...i->...' | 'ij->' | 'ijk,ik->j'".split(" | ")


OF_FINITE = {name for name in FUNCTIONS if name.startswith("linalg.")} | {"roots", "polyfit", "corrcoef", "interp"}


@functools.cache
def functions() -> tuple[str, ...]:
    """Names of NumPy's functions that jmars has, but for those left out."""
    return tuple(name for name in sorted(FUNCTIONS) if _compared(name))


def _compared(name: str) -> bool:
    if name in LEFT_OUT or name.startswith((*OTHER_MODULES, *FILES)):
        return False
    try:
        return callable(numpys(name)) and _parameters(name) != []
    except (AttributeError, ValueError):
        return False


def numpys(name: str) -> Any:
    """NumPy's function of that name."""
    return functools.reduce(getattr, name.split("."), np)


@functools.cache
def _parameters(name: str) -> list[tuple[str, bool]]:
    """Names of parameters, and whether each is needed."""
    function = numpys(name)
    if isinstance(function, np.ufunc):
        return [(f"x{k}", True) for k in range(function.nin)] + [
            (k, False) for k in ("out", "where", "dtype", "casting")
        ]
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.default is p.empty) for p in found if p.name not in NEVER and p.kind is not p.VAR_KEYWORD]


def call(d: Drawing, name: str, names: Sequence[str]) -> str:
    """A call of one function."""
    args, options = [], {}
    for parameter, needed in _parameters(name):
        if needed:
            args.append(argument(d, parameter, names))
        elif d.rarely(4) and not (parameter == "out" and name in CRASHES_OF_NUMPY):
            options[parameter] = argument(d, parameter, names)
    if isinstance(numpys(name), np.ufunc) and options.get("out", "None") == "None":
        options.pop("where", "")  # the other elements are memory that nobody wrote
    if name in MANY:
        args = [array(d, names) for _ in range(d.int(1, 2))]
    if name == "searchsorted":  # of other arrays the results have no meaning
        args[0] = f"np.sort({args[0]})"
    out, given = options.get("out", "None"), " ".join(args)
    if not out.startswith("np.zeros") and any(part in given for part in "abc" if part in out):
        options.pop(
            "out" if name in UNBUFFERED else "where", ""
        )  # NumPy's copy of `out` has no elements beside `where`
    if name == "einsum":
        args.insert(0, d.one(*SUBSCRIPTS))
    return f"np.{name}({', '.join([*args, *(f'{key}={value}' for key, value in options.items())])})"


def method(d: Drawing, names: Sequence[str]) -> str:
    """A call of a method of an array."""
    name = d.one(*METHODS)
    if name in WITHOUT_FUNCTION:
        args = [argument(d, parameter, names) for parameter in WITHOUT_FUNCTION[name]]
        return f"{d.one(*names)}.{name}({', '.join(args)})"
    options = []
    for parameter, needed in _parameters(name)[1:]:
        if (needed or d.rarely(4)) and not (parameter == "out" and name in CRASHES_OF_NUMPY):
            options.append(f"{parameter}={argument(d, parameter, names)}")
    x = f"np.sort({d.one(*names)})" if name == "searchsorted" else d.one(*names)
    return f"{x}.{name}({', '.join(options)})"


def expression(d: Drawing, names: Sequence[str]) -> str:
    """An operator, an index or an attribute."""
    x = d.one(*names)
    return d.one(
        f"{x} {d.one(*OPERATORS)} {number_or_array(d, names)}",
        f"{d.one(*NUMBERS)} {d.one(*OPERATORS)} {x}",
        f"{x}[{index(d, names)}]",
        f"{d.one('-', '+', '~', 'abs')}({x})",
        f"{x}.{d.one(*ATTRIBUTES)}",
        f"divmod({x}, {number_or_array(d, names)})",
        f"np.{d.one('add', 'multiply', 'maximum', 'logical_or')}.{d.one('reduce', 'accumulate', 'outer', 'reduceat')}"
        f"({x}, {d.one('0', 'axis=0', '[0, 1]', x)})",
    )


def index(d: Drawing, names: Sequence[str]) -> str:
    """An index as text."""
    x = d.one(*names)
    return d.one(*INDICES) if d.int(0, 3) else d.one(f"{x} > 1", f"{x}.argsort()", x, f"({x} == {x}).nonzero()")


def write(d: Drawing, names: Sequence[str]) -> str:
    """A statement that writes to an array."""
    x = d.one(*names)
    value = number_or_array(d, names)
    return d.one(
        f"{x}[{index(d, names)}] = {value}",
        f"{x} {d.one(*OPERATORS[:13])}= {value}",
        f"{x}[{index(d, names)}] {d.one('+', '-', '*')}= {value}",
        f"np.copyto({x}, {value}, casting={argument(d, 'casting', names)})",
        f"np.put({x}, {argument(d, 'ind', names)}, {value})",
        f"np.putmask({x}, {argument(d, 'mask', names)}, {value})",
        f"np.place({x}, {argument(d, 'mask', names)}, {value})",
        f"np.fill_diagonal({x}, {value})",
        f"np.add.at({x}, {argument(d, 'ind', names)}, {value})",
        f"{x}.sort()",
        f"{x}.real = {value}",
        f"{x}.flat[{d.one('0', ':2', '[0, 1]', '::2')}] = {value}",
        f"np.nan_to_num({x}, copy=False)",
        f"{x}.T[...] = {value}",
    )


OTHERS = {"write": write, "method": method, "expression": expression}


def statement(name: str, d: Drawing, names: Sequence[str]) -> str:
    """A statement of a function, or of one of the other sorts."""
    return OTHERS[name](d, names) if name in OTHERS else call(d, name, names)
