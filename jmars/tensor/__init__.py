"""Lazy, distributed NumPy: what `np` means in a `%%jmars` cell. Names are NumPy's.

In reading order:

- source_line.py: the user's line behind an operand
- unknown.py: lengths that only a run can tell
- operand.py: `Operand`, `TensorData`, `TensorMeta`
- chunk.py: `ChunkGraphBuilder`, `ChunkGraph`, `ChunkGrid`
- from_array.py: NumPy arrays from outside
- tensor_graph.py: `TensorGraph`, what a client submits
- lineage.py: how computed tensors were made, without keeping what they were made of
- structure.py: what of a graph decides its plan, and what only fills it in
- dynamic.py: operands that become others once a run has told what they want
- engine.py: the slot for what computes tensors
- splits.py: chunk sizes
- infer.py: dtypes by NumPy's own rules
- overrides.py: objects that answer NumPy's functions themselves
- protocols.py: the table of functions
- display.py: a tensor as NumPy prints it
- temporaries.py: values that only the running statement holds
- aliases.py: Dask's and Mars's names
- methods.py, tensor.py: `Tensor`, the handle
- composite.py: values of several tensors
- closures.py: functions that use a tensor, refused by name
- atomic_file.py: files that get their names when they are complete
- ops: the operands
- files: arrays in files of other formats
- numpy_classes.py: NumPy's array classes as a cell sees them
- ma: masked arrays, imported when they are asked for
- linalg.py: the names of np.linalg
- strings.py: functions of text, imported when they are asked for
- array_api.py: the names of the array API standard
- deferring.py: functions of arrays of unknown length, put off to a later stage
- spawn: any function as an operand, any object as a chunk
- duck_arrays.py: arrays of other libraries, met where a tensor was expected
- chunk_types: chunks that are such arrays, imported when one is met
"""

import importlib as _importlib
from typing import Any

import numpy as _np

from jmars.tensor import array_api, deferring, files, linalg, numpy_classes, ops
from jmars.tensor.chunk import ChunkGraph, ChunkGraphBuilder, ChunkGrid, GraphLayer
from jmars.tensor.engine import Engine, get_engine, set_engine
from jmars.tensor.operand import Operand, TensorData, TensorMeta
from jmars.tensor.ops.create.convert import tensor  # over the module of that name
from jmars.tensor.ops.random import numpy_random as random
from jmars.tensor.ops.signal import fft
from jmars.tensor.protocols import FUNCTIONS as _FUNCTIONS
from jmars.tensor.protocols import unsupported as _unsupported
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import TensorGraph

__all__ = [
    "ChunkGraph",
    "ChunkGraphBuilder",
    "ChunkGrid",
    "Engine",
    "GraphLayer",
    "Operand",
    "Tensor",
    "TensorData",
    "TensorGraph",
    "TensorMeta",
    "array_api",
    "as_tensor",
    "deferring",
    "fft",
    "files",
    "get_engine",
    "linalg",
    "numpy_classes",
    "ops",
    "random",
    "set_engine",
    "tensor",
]

for _name, _own in list(vars(fft).items()):  # as they stand in the table: who answers himself is asked
    _offered = _FUNCTIONS.get("fft." + _name)
    if _offered is not None and getattr(_offered, "__wrapped__", None) is _own:
        setattr(fft, _name, _offered)

# NumPy's own, as they are: constants, dtypes, and what concerns no array's elements
_PASSED_ON = """
    pi e inf nan newaxis euler_gamma dtype finfo iinfo errstate seterr geterr printoptions set_printoptions
    get_printoptions generic number integer signedinteger unsignedinteger inexact floating complexfloating
    bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 intp uintp byte short intc int_ long longlong ubyte
    ushort uintc uint ulong ulonglong float16 float32 float64 longdouble half single double complex64 complex128
    clongdouble csingle cdouble datetime64 timedelta64 str_ bytes_ void s_ index_exp ndindex broadcast_shapes
    promote_types issubdtype isdtype isscalar typecodes exceptions testing typing
""".split()  # noqa: SIM905


def __getattr__(name: str) -> Any:
    if name in ("ma", "strings"):  # as in NumPy, whose own are imported with them
        return _importlib.import_module(f"jmars.tensor.{name}")
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name in _PASSED_ON and hasattr(_np, name):
        return getattr(_np, name)
    if hasattr(_np, name):
        raise AttributeError(str(_unsupported(name)))
    raise AttributeError(f"module 'jmars.tensor' has no attribute {name!r}, and neither has NumPy")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PASSED_ON, *(name for name in _FUNCTIONS if "." not in name)})
