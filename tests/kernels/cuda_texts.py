"""Texts of `cuda_text` as functions of this machine: compiled by g++, called on NumPy arrays."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jmars.kernels.cuda_text import FUNCTION, PRELUDE, cuda_text, cuda_type
from jmars.kernels.expression import Expression

__all__ = ["HostKernels", "loop_text"]


def loop_text(expression: Expression, name: str, head: str, at: str) -> str:
    """A function `name` that runs the expression on each of n elements, element `at`."""
    inputs = [f"const {cuda_type(dtype)}* x{i}" for i, dtype in enumerate(expression.inputs)]
    parameters = ", ".join(["long long n", *inputs, f"{cuda_type(expression.dtype)}* out"])
    call = f"{name}_text::{FUNCTION}({', '.join(f'x{i}[i]' for i in range(len(inputs)))})"
    return f"{head} void {name}({parameters}) {{ {at} out[i] = {call}; }}"


class HostKernels:
    """A library of kernels for this machine, one for each expression that has a text."""

    def __init__(self, expressions: Sequence[Expression], folder: Path) -> None:
        loop = "for (long long i = 0; i < n; ++i)"
        parts, self._names = [PRELUDE], dict[Expression, str]()
        for number, expression in enumerate(dict.fromkeys(expressions)):
            text = cuda_text(expression)
            if text is None:
                continue
            name = self._names[expression] = f"k{number}"
            parts += [f"namespace {name}_text {{ {text.removeprefix(PRELUDE)} }}"]
            parts += [loop_text(expression, name, 'extern "C"', loop)]
        source, library = folder / "kernels.cpp", folder / "kernels.so"
        source.write_text("\n".join(parts))
        options = ["-O1", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC", "-w"]
        subprocess.run(["g++", *options, "-o", str(library), str(source)], check=True, timeout=120)
        self._library = ctypes.CDLL(str(library))

    def __contains__(self, expression: Expression) -> bool:
        return expression in self._names

    def __call__(self, expression: Expression, inputs: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """The expression of contiguous arrays of one shape."""
        out = np.empty(inputs[0].shape, expression.dtype)
        pointers = [ctypes.c_void_p(one.ctypes.data) for one in (*inputs, out)]
        getattr(self._library, self._names[expression])(ctypes.c_longlong(out.size), *pointers)
        return out
