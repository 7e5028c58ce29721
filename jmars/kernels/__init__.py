"""Compiles expressions: the work of an operand on its chunks, as data and as code.

In reading order:

- elementwise.py: a row per elementwise operation: machine code, text for GPUs, measured times
- expression.py: an elementwise expression as typed nodes
- float_errors.py: collects floating point errors of generated NumPy calls
- reducers.py: reducers of a tree reduction: sums, extremes, moments, positions
- program.py: `Program`, `ChunkType`, the steps
- fusing.py: fuses several programs
- blocks.py: cuts a chunk into blocks that fit the cache
- numpy_backend.py: expressions as generated NumPy calls
- routines.py: loops around an expression, sums in NumPy's order
- cuda_text.py: an expression as a C++ function, for a GPU
- pipeline.py: generator, expression and reduction in a single pass over blocks
- native_pipeline.py: the same pass by machine code
- row_chains.py: functions of rows, and the expressions before them, a block of rows at a time
- compile.py: `compile_program`, the entry point of this folder
- group_run.py: runs a group of operands, one after the other, in this process
"""

from jmars.kernels.compile import Kernel, compile_program, executable, run_executable
from jmars.kernels.float_errors import FloatError, FloatErrors, describe, take_member
from jmars.kernels.fusing import compose, fuse, share_inputs
from jmars.kernels.native_pipeline import settled
from jmars.kernels.program import ChunkType, Pieces, Program

__all__ = [
    "ChunkType",
    "FloatError",
    "FloatErrors",
    "Kernel",
    "Pieces",
    "Program",
    "compile_program",
    "compose",
    "describe",
    "executable",
    "fuse",
    "run_executable",
    "settled",
    "share_inputs",
    "take_member",
]
