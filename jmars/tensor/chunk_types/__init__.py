"""Chunks that are arrays of another library: sparse ones, those of a GPU, any with `__array_namespace__`.

Such an array does not lie in shared memory as it is: a chunk holds it packed, as what a spawned function gives. What a
library can do is asked of it, on arrays of a few elements, before anything runs.

array_libraries.py      what a foreign array is, and what its library offers
on_chunks.py    a function of chunks at given calls, as an operand (OnChunks)
duck_tensor.py      the handle (DuckTensor), and arrays from outside
blockwise.py     functions of chunks that stand at one place: elementwise ones, and the user's
manipulation.py      slices, other cuts, axes in another order, arrays side by side
tree_reduction.py   sums and the like, in a tree
products.py   matrix products
functions.py  what there is by name: the namespace of a DuckTensor, and what NumPy's functions of one are
"""

from jmars.tensor.chunk_types import functions
from jmars.tensor.chunk_types.duck_tensor import DuckTensor
from jmars.tensor.duck_arrays import set_dispatcher

__all__ = ["DuckTensor", "functions"]

set_dispatcher(functions.dispatch)
