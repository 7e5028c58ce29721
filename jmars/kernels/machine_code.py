"""LLVM's text compiled for this machine and loaded; the library is that of numba (`llvmlite`, extra `jit`).

Used by native_pipeline.py. Source: llvmlite documentation, "Binding layer".
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

__all__ = ["Routine", "llvm_there", "load"]


class Routine(NamedTuple):
    """A function that was loaded, and what must live as long as it may be called."""

    call: Any  # (out address, in address..., rows, columns) -> 0, or not
    engine: Any


@lru_cache(maxsize=1)
def llvm_there() -> bool:
    """Whether machine code can be made: llvmlite is installed; its size alone keeps it from being imported here."""
    return find_spec("llvmlite") is not None


@lru_cache(maxsize=1)
def _library() -> tuple[Any, Any]:
    """llvmlite's binding, and this machine."""
    import llvmlite.binding as llvm  # heavy, and only where something is compiled

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=features.flatten(),
        opt=2,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )
    return llvm, machine


def compiled(text: str) -> bytes:
    """An object file for this machine."""
    llvm, machine = _library()
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False  # it is written in vectors
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def load(text: str, inputs: int) -> Routine:
    """The function `run` of a module, which takes so many inputs."""
    llvm, machine = _library()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(compiled(text)))
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * (1 + inputs), ctypes.c_int64, ctypes.c_int64)
    return Routine(kind(engine.get_function_address("run")), engine)
