"""Reductions for GPUs: CUDA's compiler takes all texts, and compiled for this machine they give NumPy's values."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from jmars.devices.library import REDUCTIONS
from jmars.devices.reduction_text import reduction_text
from jmars.kernels.cuda_helpers import PRELUDE
from jmars.kernels.cuda_text import cuda_text, cuda_type
from jmars.kernels.expression import Expression, Node
from tests.kernels.nvrtc import compiled

NAMES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
BLOCK = 512  # threads of a block, as CuPy has them

# The loop around the parts: a block of threads reduces a row.
ON_A_GPU = """
extern "C" __global__ void {name}(const {old}* in, {new}* result, long long n) {{
  __shared__ char raw[{block} * sizeof(reduced)];
  reduced* shared = reinterpret_cast<reduced*>(raw);
  unsigned int thread = threadIdx.x;
  reduced s = reduced({identity});
  for (long long j = thread; j < n; j += {block}) {{
    const {old} x0 = in[blockIdx.x * n + j];
    reduced a = static_cast<reduced>({value});
    s = REDUCE(s, a);
  }}
  shared[thread] = s;
  __syncthreads();
  for (unsigned int half = {block} / 2; half > 0; half /= 2) {{
    if (thread < half) {{
      reduced a = shared[thread], b = shared[thread + half];
      shared[thread] = REDUCE(a, b);
    }}
    __syncthreads();
  }}
  if (thread == 0) {{
    {new}& out = result[blockIdx.x];
    out = shared[0];
  }}
}}"""
HERE = """
extern "C" void {name}(const {old}* in, {new}* result, long long n) {{
  reduced s = reduced({identity});
  for (long long j = 0; j < n; ++j) {{
    const {old} x0 = in[j];
    reduced a = static_cast<reduced>({value});
    s = REDUCE(s, a);
  }}
  *result = s;
}}"""


class Case(NamedTuple):
    ufunc: str
    old: np.dtype
    new: np.dtype
    op: str  # of the expression


@cache
def cases() -> list[Case]:
    found = []
    for ufunc in REDUCTIONS:
        for name in NAMES:
            old = np.dtype(name)
            found.append(Case(ufunc, old, getattr(np, ufunc).reduce(np.ones(1, old)).dtype, "positive"))
    wide = [Case(ufunc, np.dtype(name), np.dtype("f8"), "positive") for ufunc in ("add", "multiply") for name in NAMES]
    fused = [
        Case(ufunc, np.dtype("f8"), np.dtype("f8"), op) for ufunc in ("add", "maximum") for op in ("exp", "maximum")
    ]
    return [case for case in dict.fromkeys([*found, *wide, *fused]) if cuda_text(_expression(case)) is not None]


def _expression(case: Case) -> Expression:
    return Expression((case.old,), (Node(case.op, (0, 0) if case.op == "maximum" else (0,), case.old),))


def source(loop: str) -> str:
    parts = [PRELUDE]
    for number, case in enumerate(cases()):
        text = reduction_text(_expression(case), case.ufunc, case.new)
        body = loop.format(
            name=f"k{number}", old=cuda_type(case.old), new=cuda_type(case.new), block=BLOCK, value=text.value,
            identity=text.identity,
        )  # fmt: skip
        parts += [f"#define REDUCE(a, b) ({text.join})", f"namespace n{number} {{", text.preamble.removeprefix(PRELUDE)]
        parts += [f"typedef {text.type} reduced;", body, "}", "#undef REDUCE"]
    return "\n".join(parts)


def test_cudas_compiler_takes_all_reductions() -> None:
    machine_code = compiled(source(ON_A_GPU))
    assert machine_code.count(".visible .entry") == len(cases()) >= 70


def test_reductions_compiled_here_give_numpys_values(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++ (Debian package g++)")
    text, library = tmp_path / "reductions.cpp", tmp_path / "reductions.so"
    text.write_text(source(HERE))
    options = ["-O1", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC", "-w"]
    subprocess.run(["g++", *options, "-o", str(library), str(text)], check=True, timeout=120)
    loaded = ctypes.CDLL(str(library))
    rng = np.random.default_rng(0)
    for number, case in enumerate(cases()):
        values = rng.integers(-3, 4, 50).astype(case.old)
        extremes = np.array([np.inf, -np.inf]) if case.old.kind == "f" else np.array([], case.old)
        rows = [values, np.abs(values).clip(1).astype(case.old), values[:1], values[:0], extremes.astype(case.old)]
        if case.old.kind == "f":
            rows += [np.array([1, np.nan, 2], case.old), np.array([-np.inf], case.old), np.array([np.inf], case.old)]
        elif case.old.kind in "iu":
            rows += [np.array([bound], case.old) for bound in (np.iinfo(case.old).min, np.iinfo(case.old).max)]
        for row in rows:
            if not row.size and case.ufunc in ("maximum", "minimum"):
                continue  # NumPy has no value
            result = np.empty(1, case.new)
            pointers = [ctypes.c_void_p(one.ctypes.data) for one in (row, result)]
            getattr(loaded, f"k{number}")(*pointers, ctypes.c_longlong(row.size))
            with np.errstate(all="ignore"):
                mapped = np.exp(row) if case.op == "exp" else row
                if case.ufunc in ("add", "multiply"):
                    expected = getattr(np, case.ufunc).reduce(mapped, dtype=case.new)
                else:
                    expected = getattr(np, case.ufunc).reduce(mapped)
            np.testing.assert_allclose(
                result[0], expected, rtol=1e-6 if case.new.itemsize == 4 else 1e-14, err_msg=str(case)
            )
