"""Compiles expressions: the work of an operand on its chunks, as data and as code.

In reading order:

- ufunc_reference.py: a ufunc of another library, by name and pickle
- expression.py: an elementwise expression as typed nodes
- float_errors.py: collects floating point errors of generated NumPy calls
- reducers.py: reducers of a tree reduction: sums, extremes, moments, positions
- dtypes.py: dtypes that a chunk may have
- program.py: `Program`, `ChunkType`, the steps
- shared_memory.py: values of a program that lie in the memory of others
- side_by_side.py: expressions of values that lie in several chunks
- fusing.py: fuses several programs
- unsized.py: chunks of unknown size
- blocks.py: cuts a chunk into blocks that fit the cache
- scratch.py: block buffers of a thread
- numpy_backend.py: expressions as generated NumPy calls
- float_flags.py: reads floating point flags behind machine code and numexpr
- numexpr_backend.py: expressions as numexpr programs, where numexpr equals NumPy
- code.py: writes LLVM assembly by Python operators
- formulas.py: sin, cos, exp, log, ... without branches, for `jit="fast"`
- operations.py: NumPy's operations in LLVM assembly
- routines.py: loops around an expression, sums in NumPy's order
- cuda_helpers.py: functions of C++ where NumPy has another rule
- cuda_text.py: an expression as a C++ function, for a GPU
- cuda_loops.py: loops of threads around such a function
- machine_code.py: compiles LLVM assembly for this machine and loads the result
- reduction_kernel.py: leaves and combines of a tree reduction
- pipeline.py: generator, expression and reduction in a single pass over blocks
- native_pipeline.py: the same pass by machine code
- flat_views.py: the same for slices of equal strides, as lines
- worth.py: chooses the programs that machine code makes faster
- row_chains.py: functions of rows, and the expressions before them, a block of rows at a time
- compile.py: `compile_program`, the entry point of this folder
- member_notes.py: which of a program's fused operands raised an exception
- describe.py: an exception of a kernel as a `Failure`
- loaded_programs.py: programs as pickles, loaded and compiled once by all threads of a process
- group_values.py: chunks of a group of operands while it runs
- group_run.py: runs a group of operands, one after the other, in this process
- executable.py: an operand as a document that runs apart from any cluster
"""

from jmars.kernels.compile import Kernel, compile_program
from jmars.kernels.describe import describe
from jmars.kernels.executable import executable, run_executable
from jmars.kernels.float_errors import FloatError, FloatErrors
from jmars.kernels.fusing import compose, fuse, share_inputs
from jmars.kernels.member_notes import take_member
from jmars.kernels.native_pipeline import settled
from jmars.kernels.program import ChunkType, Program
from jmars.kernels.unsized import Pieces

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
