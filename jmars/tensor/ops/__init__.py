"""Operands and functions on tensors, a file per family. Importing this package fills the table of protocols.py.

In reading order:

- chunks.py: helpers for tiling, rechunking, shuffles, chunks of unknown length
- arguments.py: `out=`, `like=`, `dtype=`, values that are written into arrays
- attributes.py: shape, dtype and text of tensors
- blockwise.py: functions of chunks at the same grid position
- formula.py: elementwise expressions and the operand that computes them
- ufuncs.py: the table of ufuncs, casts, `where`, `clip`
- records_and_objects.py: structured arrays, the results of `np.frompyfunc`
- numpy_code.py: functions that run as NumPy wrote them, on tensors
- map_blocks.py: `map_blocks`, functions along axes, values on GPUs
- gufuncs.py: `apply_gufunc` and `vectorize`
- apply.py: `apply_along_axis`, `map_overlap`, `sliding_window_view`
- constants.py: `ones`, `zeros`, `full`
- create.py: `asarray`, `arange`, `eye`, `meshgrid`, datetimes
- indexing.py: operands for slices and positions
- getitem.py: `x[index]`
- setitem.py: `x[index] = value`
- select.py: `select`, `choose`, `put`, `delete`, `nonzero`
- shape.py: axes, `reshape`, joining, splitting, `roll`
- resize.py: `repeat`, `pad`, `insert`, bits
- reduction.py: sums, extremes, means, running sums
- groups.py: the same of groups
- ufunc_methods.py: `np.add.reduce`, `accumulate`, `outer`, `at`; ufuncs of other libraries, as `scipy.special.erf`
- statistics.py: averages, NaN-aware reductions, covariance, histograms
- sort.py: `sort`, `argsort`, `partition`, `topk`
- unique.py: `unique`, `isin` and set operations
- quantiles.py: `median`, `percentile`, `quantile`
- matrix_operands.py: products and factors of matrices, chunk by chunk
- matrix_products.py: `matmul`, `dot`, `einsum`, `cross`
- decompositions.py: `qr`, `svd`, `inv`, `solve`, norms, eigenvalues
- fft.py: `np.fft`
- signal.py: interpolation, convolution, windows, polynomials
- random_streams.py: random streams as data, cells, permutations
- random_draws.py: operands that draw chunks
- random_generator.py: `np.random.Generator`
- numpy_random.py: the functions of `np.random`
- npy.py: `.npy` files, arrays whose chunks a function reads
- nditer.py: NumPy's loops over elements
- control_flow.py: `cond` and `while_loop`
"""

from jmars.tensor.ops import (  # noqa: F401  # for the table
    apply,
    attributes,
    constants,
    control_flow,
    create,
    decompositions,
    fft,
    formula,
    getitem,
    gufuncs,
    map_blocks,
    matrix_products,
    nditer,
    npy,
    numpy_code,
    numpy_random,
    quantiles,
    reduction,
    resize,
    select,
    setitem,
    shape,
    signal,
    sort,
    statistics,
    ufunc_methods,
    ufuncs,
    unique,
)
