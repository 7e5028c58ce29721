"""Lazy, distributed NumPy, with NumPy's names: the module that `np` refers to in a `%%jmars` cell.

In reading order:

- operand.py: `Operand`, `TensorData`, and what they carry: the user's line, annotations, unknown lengths, dtypes
- chunk.py: `ChunkGraphBuilder`, `ChunkGraph`, `ChunkGrid`; functions with several outputs
- from_array.py: arrays of NumPy and of other libraries, values of several tensors
- tensor_graph.py: `TensorGraph`, as a client submits it; operands that are replaced by a graph during the run
- structure.py: a graph split into structure, which decides the plan, and bindings; how computed tensors were made
- parts.py: positions that are kept of a tensor, and by which operand a part is computed
- engine.py: the engine that computes tensors
- small_parts.py, small_values.py: small values in a cell, computed at once, without nodes
- splits.py: chunk sizes
- protocols.py: the table of functions; overrides by other libraries
- tensor_text.py: a tensor as text, and in a notebook
- buffers.py: handles that share memory in NumPy share a buffer
- batches.py: batches of rows for training loops (Batches)
- aliases.py, methods.py, tensor.py: `Tensor`, the handle, with Dask's and Mars's names
- atomic_file.py: atomic file writes
- ops: the operands and functions
- files.py: arrays in files of several formats
- remote_files.py: files at URLs
- zarr_arrays.py, whole_zarr.py: Zarr arrays; whole or not there
- formats: images, telescopes and weather
- numpy_modules.py: NumPy's modules with the functions of jmars
- ma: masked arrays, imported on first use
- linalg.py: the names of np.linalg
- numba_values.py: tensors as arguments of functions of numba, imported on first use
- strings.py: functions of text, imported on first use
- polynomial.py: the class of polynomials, imported on first use
- ndimage: filters, labels and measurements of images, imported on first use
- array_api.py: the names of the array API standard
- deferring.py: functions of arrays of unknown length, deferred to a later stage
- spawn.py: Python functions as operands, objects as chunks
- chunk_types: chunks that are duck arrays, imported on first use
"""

import importlib as _importlib
from typing import Any

import numpy as _np

from jmars.errors import UnsupportedError as _UnsupportedError
from jmars.tensor import array_api, deferring, files, formats, linalg, ops, small_values, zarr_arrays
from jmars.tensor.chunk import ChunkGraph, ChunkGraphBuilder, ChunkGrid, GraphLayer
from jmars.tensor.engine import Engine, get_engine, set_engine
from jmars.tensor.numpy_modules import PASSED_ON as _PASSED_ON
from jmars.tensor.numpy_modules import NumPyModule as _NumPyModule
from jmars.tensor.operand import Operand, TensorData, TensorMeta
from jmars.tensor.ops import numpy_random as random
from jmars.tensor.ops.create import tensor  # over the module of that name
from jmars.tensor.protocols import FUNCTIONS as _FUNCTIONS
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
    "formats",
    "get_engine",
    "linalg",
    "ops",
    "random",
    "set_engine",
    "small_values",
    "tensor",
    "zarr_arrays",
]

fft = _NumPyModule.of("numpy.fft")


def __getattr__(name: str) -> Any:
    if name in ("ma", "strings", "polynomial", "ndimage"):  # imported on first use
        return _importlib.import_module(f"jmars.tensor.{name}")
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if hasattr(_np, name):
        try:
            return _NumPyModule.of("numpy").look_up(name)
        except _UnsupportedError as error:
            raise AttributeError(str(error), name=name) from None
    raise AttributeError(f"module 'jmars.tensor' has no attribute {name!r}, and neither has NumPy")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PASSED_ON, *(name for name in _FUNCTIONS if "." not in name)})
