"""Chunks that are duck arrays: sparse arrays, GPU arrays, any array with `__array_namespace__`.

A chunk holds a duck array pickled (spawn.py), since only NumPy arrays lie in shared memory as they are. Before a run,
functions are tried on arrays of a few elements, so that a function that the library lacks is refused at the user's
call.

duck_tensor.py       DuckTensor: the handle, and conversion of duck arrays
operations.py        elementwise functions, map_blocks, slices, joins, products, reductions
scipy_sparse.py      the namespace of SciPy's sparse arrays
functions.py         the array namespace of a DuckTensor
"""

from jmars.tensor.chunk_types import functions
from jmars.tensor.chunk_types.duck_tensor import DuckTensor
from jmars.tensor.from_array import set_dispatcher

__all__ = ["DuckTensor", "functions"]

set_dispatcher(functions.dispatch)
