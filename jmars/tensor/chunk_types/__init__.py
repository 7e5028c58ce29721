"""Chunks that are arrays of another library: sparse ones, those of a GPU, any with `__array_namespace__`.

Such an array does not lie in shared memory as it is: a chunk holds it packed, as what a spawned function gives. What a
library can do is asked of it, on arrays of a few elements, before anything runs.

kinds.py      what a foreign array is, and what its library offers
operand.py    a function of chunks at given places, as an operand (OnChunks)
guest.py      the handle (Guest), and arrays from outside
blocks.py     functions of chunks that stand at one place: elementwise ones, and the user's
parts.py      slices, other cuts, axes in another order, arrays side by side
reducing.py   sums and the like, in a tree
products.py   matrix products
functions.py  what there is by name: the namespace of a Guest, and what NumPy's functions of one are
"""

from jmars.tensor.chunk_types import functions
from jmars.tensor.chunk_types.guest import Guest
from jmars.tensor.foreign import set_answer

__all__ = ["Guest", "functions"]

set_answer(functions.answer)
