"""Expressions compiled: what an operand does to its chunks, as data and as code.

In reading order:

- expression.py: an elementwise expression as typed nodes
- reducers.py: how many elements become one, in steps
- dtypes.py: dtypes that a chunk may have
- program.py: `Program`, `ChunkType`, the steps
- fusing.py: several programs as one
- unsized.py: chunks whose size is known only when they are there
- blocks.py: cutting a chunk into blocks that fit the cache
- scratch.py: block buffers of one thread
- numpy_backend.py: expressions as generated NumPy calls
- numexpr_backend.py: expressions as numexpr programs, where those equal NumPy
- code.py: LLVM's language, written by operators
- formulas.py: sin, cos, exp, log, ... without branches, for `jit="fast"`
- operations.py: what each NumPy operation is in LLVM's language
- routines.py: loops around an expression, sums in NumPy's order
- machine_code.py: such text compiled for this machine, and loaded
- reduction_kernel.py: leaves and combines of a tree reduction
- pipeline.py: generator, expression and reduction in one pass over blocks
- native_pipeline.py: the same by machine code
- worth.py: which programs are worth machine code
- compile.py: `compile_program`, the door of this floor
- executable.py: one operand as a document that runs apart from any cluster
"""

from jmars.kernels.compile import Kernel, compile_program, take_member
from jmars.kernels.executable import executable, run_executable
from jmars.kernels.fusing import compose, fuse, share_inputs
from jmars.kernels.native_pipeline import settled
from jmars.kernels.program import ChunkType, Program
from jmars.kernels.unsized import Pieces

__all__ = [
    "ChunkType",
    "Kernel",
    "Pieces",
    "Program",
    "compile_program",
    "compose",
    "executable",
    "fuse",
    "run_executable",
    "settled",
    "share_inputs",
    "take_member",
]
