"""Cost signature of a program: a key of its steps without shapes, the size of its work, and an estimate of its seconds.

A `Profile` keeps costs under the key, which is the same in every session, and scales them with the size. A key names
functions and dtypes and never values, so no data of an array is in a key.

The estimate of an operand that was never measured is bytes over memory bandwidth plus operations over core speed
(roofline). `annotate` multiplies the estimate by `Profile.scale`, the error of the estimate for programs that were
measured. The seconds per element were measured on an AMD EPYC.
Source: Williams, Waterman and Patterson 2009 (roofline).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import xxhash

from jmars.kernels.elementwise import facts, is_exact
from jmars.kernels.expression import CONSTANT
from jmars.kernels.program import Call, Combine, Elementwise, Generate, Program, Reduce, Step
from jmars.model.limits import REMEMBERED_PROGRAMS

_NAME = 60  # characters of a program's name that a key shows
_PRODUCTS = "sum_products"  # matrix_operands.py: its work grows with all axes at once, not with its bytes


@dataclass(frozen=True)
class Signature:
    """Key and size of a program's cost.

    Attributes
    ----------
    key
        Equal for programs that differ in shapes and values only.
    family
        Equal also for functions of one name, as when a cell was edited.
    size
        Bytes of the inputs and of each step's value, fused or not; for sums of products 8 bytes for each product.
    """

    key: str
    family: str
    size: int


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def signature(program: Program) -> Signature:
    """The signature of a program.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.expression import Expression, Node
    >>> from jmars.kernels.program import ChunkType, single
    >>> f8 = np.dtype("f8")
    >>> def negative(n):
    ...     chunk = ChunkType((n,), f8)
    ...     return single("neg", (chunk,), Elementwise(Expression((f8,), (Node("negative", (0,), f8),)), (0,), chunk))
    >>> small, large = signature(negative(10)), signature(negative(1000))
    >>> small.key == large.key, small.family, small.size, large.size
    (True, 'cpu neg float64', 160, 16000)
    """
    types = [*program.inputs, program.output]
    dtypes = dict.fromkeys(str(one.dtype) for one in reversed(types))
    family = f"cpu {program.name[:_NAME]} {','.join(dtypes)}"
    digest = xxhash.xxh3_64()
    for one in types:
        digest.update(f"{one.dtype}{len(one.shape)};".encode())
    for step in program.steps:
        digest.update(_text(step).encode())
    if program.jit:
        digest.update(b"jit fast" if program.fast else b"jit")
    size = sum(one.nbytes for one in program.inputs) + sum(step.output.nbytes for step in program.steps)
    return Signature(f"{family} {digest.hexdigest()}", family, _products(program) or size)


def gpu_key(key: str) -> str:
    """Key of a program's seconds on a GPU, from `Signature.key` or `Signature.family`.

    Examples
    --------
    >>> gpu_key("cpu sin float64")
    'gpu sin float64'
    """
    return f"gpu {key.removeprefix('cpu ')}"


def is_gpu_key(key: str) -> bool:
    """Whether a key is of seconds on a GPU."""
    return key.startswith("gpu ")


def _text(step: Step) -> str:
    """Text of a step without shapes and values."""
    reads = f"{step.inputs}{step.output.dtype}{len(step.output.shape)}"
    if isinstance(step, Elementwise):
        nodes = [f"{node.op}{node.args}{node.dtype}" for node in step.expression.nodes if node.op != CONSTANT]
        return f"elementwise{reads}{nodes}"
    if isinstance(step, Generate):
        return f"generate{reads}{_named(step.open)}{_words(step.params)}"
    if isinstance(step, Reduce | Combine):
        axes = step.axes if isinstance(step, Reduce) else ()
        reducer = step.reducer
        return f"reduce{reads}{type(reducer).__name__}{getattr(reducer, 'ufunc', '')}{reducer.state}{axes}{step.last}"
    if isinstance(step, Call):
        return f"call{reads}{_named(step.function)}{_words(step.params)}"
    return f"{type(step).__name__}{reads}"


def _named(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"


def _words(params: Any) -> list[str]:
    """Parameters of a step that name a function; numbers are positions and values, and left out."""
    found = []
    for one in params if isinstance(params, tuple) else ():
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, bytes):
            found.append(xxhash.xxh3_64_hexdigest(one))
    return found


def _products(program: Program) -> int:
    """8 bytes for each product of a contraction of pairs; 0 for other programs."""
    types = [*program.inputs, *(step.output for step in program.steps)]
    total = 0
    for step in program.steps:
        if isinstance(step, Call) and getattr(step.function, "__name__", "") == _PRODUCTS and step.params[1] == 2:
            read = [types[slot].size for slot in step.inputs]
            # a, b and c elements of factors and product: ik, kj and ij, so that their product is ijk squared
            total += sum(math.isqrt(a * b * step.output.size) for a, b in zip(read[::2], read[1::2], strict=True))
    return 8 * total


KERNEL_CALL_SECONDS = 10e-6  # seconds: arrays made, a kernel called
_CORE_BANDWIDTH = 8e9  # bytes a second of a core while the other cores run too
# ns an element
_CHEAP = 0.3  # a plain operation
_SPECIAL = 20  # a ufunc of another library: erf of SciPy takes 8 ns, gammaln 25 ns
_NATIVE, _FORMULA = 0.03, 0.4  # in machine code, between registers
_RANDOM = 4
_CALLED = 1  # a function, for each element read or written
_PRODUCT = 0.1  # a product of a matrix multiplication and its addition


def prior(program: Program, size: int) -> float:
    """Estimated seconds of an operand of `program`; `size` is the size of the program's signature.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.expression import Expression, Node
    >>> from jmars.kernels.program import ChunkType, single
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((1_000_000,), f8)
    >>> sine = single("sin", (chunk,), Elementwise(Expression((f8,), (Node("sin", (0,), f8),)), (0,), chunk))
    >>> f"{prior(sine, 16_000_000):.3f} s"
    '0.018 s'
    """
    moved = sum(one.nbytes for one in program.inputs) + program.output.nbytes
    return KERNEL_CALL_SECONDS + moved / _CORE_BANDWIDTH + sum(_ns(step, program, size) for step in program.steps) / 1e9


def _ns(step: Step, program: Program, size: int) -> float:
    elements = step.output.size
    if isinstance(step, Elementwise):
        nodes = [node for node in step.expression.nodes if node.op != CONSTANT]
        if program.jit and (program.fast or is_exact(step.expression)):
            return elements * math.fsum(_FORMULA if facts(node.op).ns > _CHEAP else _NATIVE for node in nodes)
        return elements * math.fsum(facts(node.op).ns if node.ufunc is None else _SPECIAL for node in nodes)
    if isinstance(step, Generate):
        return elements * (_RANDOM if step.takes_args and "random" in step.open.__module__ else _CHEAP)
    types = [*program.inputs, *(one.output for one in program.steps)]
    read = sum(types[slot].size for slot in step.inputs)
    if isinstance(step, Reduce | Combine):
        return read * (_CHEAP if step.reducer.state.names is None else 5 * _CHEAP)
    assert isinstance(step, Call)
    if getattr(step.function, "__name__", "") == "sum_products":
        return size / 8 * _PRODUCT
    return (read + elements) * _CALLED
