"""Compiles LLVM assembly for this machine and loads the result, by numba's library (`llvmlite`, extra `jit`).

llvmlite's `ExecutionEngine` owns the target machine that it is made with, so the process keeps a single engine for
good.
Source: llvmlite documentation (llvmlite.readthedocs.io), "Binding layer".
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import xxhash

from jmars.model.collector import free_in_child

__all__ = ["llvm_there", "load"]

_one = free_in_child(threading.Lock())  # engine and machine serve one at a time


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
    import llvmlite.binding as llvm  # heavy, and only where something is compiled

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
    options.loop_vectorization = options.slp_vectorization = False  # it is written in vectors
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def load(text: str, inputs: int) -> Any:
    """The function `run` of a module that takes so many inputs: (out address, in address..., rows, columns) -> int."""
    name = f"jmars_{xxhash.xxh3_128_hexdigest(text.encode())}"  # all are loaded into one engine
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * (1 + inputs), ctypes.c_int64, ctypes.c_int64)
    with _one:
        llvm, _, engine = _library()
        address = engine.get_function_address(name)
        if not address:
            engine.add_object_file(llvm.ObjectFileRef.from_data(_compiled(text.replace("@run(", f"@{name}("))))
            engine.finalize_object()
            address = engine.get_function_address(name)
    return kind(address)
