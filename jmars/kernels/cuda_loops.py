"""Kernels for GPUs: loops of threads around the functions of `cuda_text`.

A thread of a map loads several elements before the thread computes them. A reduction has a block of threads for
a part of the reduced elements; a second launch reduces the parts. Arrays are those of C's order.
Source: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html; Harris 2007 (parallel reduction).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jmars.kernels.cuda_helpers import helper_text
from jmars.kernels.cuda_text import FUNCTION, cuda_text, cuda_type, truth
from jmars.kernels.expression import Expression
from jmars.model.limits import REMEMBERED_PROGRAMS

__all__ = ["BLOCK", "MAP", "PER_THREAD", "REDUCE", "map_source", "reduction_source"]

MAP, REDUCE = "jm_map", "jm_reduce"  # names of the kernels
BLOCK = 256  # threads of a block of a map
PER_THREAD = 8  # elements of a thread of a map
_JOIN = {
    "add": "a + b", "multiply": "a * b", "maximum": "jm_maximum(a, b)", "minimum": "jm_minimum(a, b)",
    "logical_and": "a && b", "logical_or": "a || b",
}  # fmt: skip
_MAP = """\
extern "C" __global__ void {name}({parameters}, long long n) {{
  const long long begin = (long long)blockIdx.x * {tile} + threadIdx.x;
  if (begin + {last} < n) {{
    {loads}
    {out} v[{per}];
    #pragma unroll
    for (int k = 0; k < {per}; ++k) v[k] = {each};
    #pragma unroll
    for (int k = 0; k < {per}; ++k) out[begin + k * {block}] = v[k];
  }} else
    for (long long i = begin; i < n && i < begin + {tile}; i += {block}) out[i] = {single};
}}"""
_REDUCE = """\
typedef {type} jm_reduced;
JM jm_reduced jm_join(jm_reduced a, jm_reduced b) {{ return {join}; }}
extern "C" __global__ void {name}({parameters}, long long rows, long long depth, long long width, long long part) {{
  __shared__ char raw[256 * sizeof(jm_reduced)];
  jm_reduced* shared = reinterpret_cast<jm_reduced*>(raw);
  const long long parts = (depth + part - 1) / part, blocks = (width + blockDim.x - 1) / blockDim.x;
  const long long column = (blockIdx.x % blocks) * blockDim.x + threadIdx.x;
  const long long p = blockIdx.x / blocks % parts, row = blockIdx.x / blocks / parts;
  const long long end = p * part + part < depth ? p * part + part : depth;
  jm_reduced s = (jm_reduced){identity};
  if (column < width)
    #pragma unroll 4
    for (long long j = p * part + threadIdx.y; j < end; j += blockDim.y) {{
      const long long i = (row * depth + j) * width + column;
      s = jm_join(s, {value});
    }}
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  shared[thread] = s;
  __syncthreads();
  for (int half = blockDim.y / 2; half > 0; half /= 2) {{
    if (threadIdx.y < half) shared[thread] = jm_join(shared[thread], shared[thread + half * blockDim.x]);
    __syncthreads();
  }}
  if (threadIdx.y == 0 && column < width) out[(row * parts + p) * width + column] = shared[thread];
}}"""


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def map_source(expression: Expression, flat: tuple[bool, ...], dims: int, indexed: bool) -> str:
    """The kernel `jm_map` of an expression with a text.

    Parameters are a pointer for each input, one for the output, with `indexed` the number `first` in place of the last
    input, then for each of `dims` dimensions its length and, for each input that is not `flat`, its stride in elements;
    last the number of elements. A `flat` input has an element for each of the output.
    """
    text = cuda_text(expression)
    assert text is not None
    types = [cuda_type(dtype) for dtype in expression.inputs]
    arrays = len(types) - indexed
    parameters = [f"const {types[x]}* __restrict__ x{x}" for x in range(arrays)]
    parameters.append(f"{cuda_type(expression.dtype)}* __restrict__ out")
    parameters += ["long long first"] * indexed
    strided = [x for x in range(arrays) if not flat[x]]
    for d in range(dims):
        parameters += [f"long long n{d}", *(f"long long s{x}_{d}" for x in strided)]
    places = "\n".join(_place(x, dims) for x in strided)
    index = "begin + k * BLOCK".replace("BLOCK", str(BLOCK))

    def element(x: int, at: str) -> str:
        return f"x{x}[{at}]" if flat[x] else f"x{x}[at{x}({at}, {_dimensions(x, dims)})]"

    loads = [
        f"{types[x]} v{x}[{PER_THREAD}];\n    #pragma unroll\n"
        f"    for (int k = 0; k < {PER_THREAD}; ++k) v{x}[k] = {element(x, index)};"
        for x in range(arrays)
    ]
    each = [*(f"v{x}[k]" for x in range(arrays)), *[f"first + {index}"] * indexed]
    single = [*(element(x, "i") for x in range(arrays)), *["first + i"] * indexed]
    kernel = _MAP.format(
        name=MAP, parameters=", ".join(parameters), tile=BLOCK * PER_THREAD, last=BLOCK * (PER_THREAD - 1),
        per=PER_THREAD, block=BLOCK, out=cuda_type(expression.dtype), loads="\n    ".join(loads),
        each=f"{FUNCTION}({', '.join(each)})", single=f"{FUNCTION}({', '.join(single)})",
    )  # fmt: skip
    return "\n".join(filter(None, [text, places, kernel]))


def _dimensions(x: int, dims: int) -> str:
    return ", ".join(f"n{d}, s{x}_{d}" for d in range(dims))


def _place(x: int, dims: int) -> str:
    """The function of an element's place in a broadcast input."""
    parameters = ", ".join(f"long long n{d}, long long s{d}" for d in range(dims))
    steps = [f"at += i % n{d} * s{d}; i /= n{d};" for d in reversed(range(1, dims))]
    return (
        f"JM long long at{x}(long long i, {parameters}) {{ long long at = 0; {' '.join(steps)} return at + i * s0; }}"
    )


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def reduction_source(expression: Expression, ufunc: str, dtype: np.dtype[Any]) -> str:
    """The kernel `jm_reduce` of an expression of flat inputs, by a ufunc of `devices.library.REDUCTIONS`, in a dtype.

    Inputs have the shape (rows, depth, width); a part of the depth gives an element of the output (rows, parts, width).
    Blocks have at most 256 threads, a power of two along the depth (`devices.launches.Reduction`).
    """
    text, kind = cuda_text(expression), cuda_type(dtype)
    assert text is not None and kind is not None
    if ufunc in ("maximum", "minimum") and f"jm_{ufunc}(" not in text:
        text += helper_text({ufunc})
    count = len(expression.inputs)
    call = f"{FUNCTION}({', '.join(f'x{x}[i]' for x in range(count))})"
    parameters = [f"const {cuda_type(old)}* __restrict__ x{x}" for x, old in enumerate(expression.inputs)]
    kernel = _REDUCE.format(
        name=REDUCE, parameters=", ".join([*parameters, f"{kind}* __restrict__ out"]), type=kind, join=_JOIN[ufunc],
        identity=_identity(ufunc, dtype),
        value=truth(call, expression.dtype) if ufunc.startswith("logical") else f"({kind}){call}",
    )  # fmt: skip
    return f"{text}\n{kernel}"


def _identity(ufunc: str, dtype: np.dtype[Any]) -> str:
    """The value with which a reduction begins, in C++."""
    if ufunc in ("maximum", "minimum"):
        if dtype.kind == "f":
            return f"({'-' if ufunc == 'maximum' else ''}jm_f8(0x7ff0000000000000ull))"
        if dtype.kind == "b":
            return "false" if ufunc == "maximum" else "true"
        info = np.iinfo(dtype)
        number = info.min if ufunc == "maximum" else info.max
        return f"({number + 1} - 1)" if number == -(2**63) else f"{number}{'ull' if dtype.kind == 'u' else 'll'}"
    return {"add": "0", "multiply": "1", "logical_and": "true", "logical_or": "false"}[ufunc]
