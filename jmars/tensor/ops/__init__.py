"""Operands and functions on tensors, a sub-folder per family. Importing this package fills the table of protocols.py.

In reading order:

- out_argument.py: the argument `out=`
- written_values.py: values that are written into arrays
- attributes.py: shape, dtype and text of tensors
- chunks: tiling helpers, rechunking, chunks of unknown length
- elementwise: ufuncs and the operand that computes them
- shape: axes, reshaping, joining, padding
- index: reading and writing by index
- create: arrays from shapes, ranges and values
- blockwise: functions mapped over chunks
- reduce: sums, means, extremes, running sums, histograms
- sort: sorting, quantiles, distinct elements
- linalg: products and decompositions of matrices
- signal: Fourier transforms, convolution, polynomials
- random: `np.random`
- io: arrays read from and written to files
- ndenumerate.py: iteration over elements
- nditer.py: NumPy's loops over elements of several arrays
- passthrough.py: NumPy functions of few elements
- control_flow.py: `cond` and `while_loop`
"""

from jmars.tensor.ops import attributes, control_flow, ndenumerate, nditer, passthrough
from jmars.tensor.ops.blockwise import apply, gufuncs, map_blocks
from jmars.tensor.ops.create import constants, convert, datetimes, ranges
from jmars.tensor.ops.elementwise import bits, complex_parts, emath, library_ufuncs, ufuncs
from jmars.tensor.ops.index import boolean_mask, delete, flat_index, getitem, nonzero, put, select, setitem
from jmars.tensor.ops.io import from_blocks, npy
from jmars.tensor.ops.linalg import decompositions, matrix_products, norms, tensor_equations
from jmars.tensor.ops.random import numpy_random
from jmars.tensor.ops.reduce import (
    covariance,
    cumulative,
    derived_reductions,
    histograms,
    reduction,
    ufunc_methods,
)
from jmars.tensor.ops.shape import axes, concatenate, pad, repeat, reshape, resize, roll
from jmars.tensor.ops.signal import calculus, convolution, fft, polynomials, windows
from jmars.tensor.ops.sort import quantiles, sort, topk, unique

__all__ = [
    "apply",
    "attributes",
    "axes",
    "bits",
    "boolean_mask",
    "calculus",
    "complex_parts",
    "concatenate",
    "constants",
    "control_flow",
    "convert",
    "convolution",
    "covariance",
    "cumulative",
    "datetimes",
    "decompositions",
    "delete",
    "derived_reductions",
    "emath",
    "fft",
    "flat_index",
    "from_blocks",
    "getitem",
    "gufuncs",
    "histograms",
    "library_ufuncs",
    "map_blocks",
    "matrix_products",
    "ndenumerate",
    "nditer",
    "nonzero",
    "norms",
    "npy",
    "numpy_random",
    "pad",
    "passthrough",
    "polynomials",
    "put",
    "quantiles",
    "ranges",
    "reduction",
    "repeat",
    "reshape",
    "resize",
    "roll",
    "select",
    "setitem",
    "sort",
    "tensor_equations",
    "topk",
    "ufunc_methods",
    "ufuncs",
    "unique",
    "windows",
]
