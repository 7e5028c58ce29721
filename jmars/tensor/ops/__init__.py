"""What tensors do: one file per family of operands. Importing it fills the table of protocols.py.

In reading order:

- rechunk.py: other chunks of the same array
- shuffling.py: all to all where memory is short
- rolling.py: what leaves at one end comes in at the other
- formula.py: elementwise functions as one operand, `Formula`
- creation.py: constants; the pattern for other operands
- elementwise.py: one row per ufunc
- handing.py: what `out=` means
- chosen.py: `where=`, `initial=` and `mean=` of reductions
- reduction.py: sums, extremes, means, variances, positions
- statistics.py: reductions made of others
- tiling.py: what the tilings below share
- axes.py: axes in another order, added, removed
- reshape.py: elements in C order in another shape
- slicing.py: basic indices
- taking.py: elements at given positions of an axis
- joining.py: arrays side by side, in pieces, repeated
- padding.py: arrays made longer
- unsized.py: what tilings share about chunks of unknown size
- masking.py: `x[mask]`, and what is made of it
- nonzero.py: where elements are not zero
- unique_lines.py: different lines
- unique.py: different elements
- records.py: fields of records
- indexing.py: `x[index]`
- scattering.py: elements at positions, written
- writing.py: `x[index] = value`
- ufunc_methods.py: `np.add.reduce`, `accumulate`, `at` and the like
- ranges.py: ranges, grids, unit matrices, triangles
- cumulative.py: running sums, differences
- contraction.py: products summed along axes
- linalg.py: products of matrices and vectors
- distributions.py: parameters of random distributions
- random_cells.py: the boxes of an array that are drawn as wholes
- random_streams.py: streams of random numbers as data
- random_chunks.py: random chunks, drawn by executors
- random_doubles.py: uniform doubles, each at its place in one sequence
- random_given.py: draws by parameters that are tensors
- random_order.py: long orders, place by place
- generator.py: `np.random.Generator`
- random.py: `np.random`
- mapping.py: `map_blocks`
- whole.py: functions of whole lines
- fft.py: `np.fft`
- sample_sort.py: long lines in order
- selection.py: quantiles of all elements without a sort
- walking.py: one element after the other
- weighted.py: percentiles with weights
- order.py: sorting, medians, percentiles
- blockwise.py: functions of chunks at the same place
- largest.py: `topk`
- bordered.py: chunks with borders of their neighbours
- factorisation.py: `np.linalg` beyond products
- tensor_equations.py: equations of tensors as those of matrices
- bins.py: how many bins "auto" means
- histograms.py: counts of what lies where
- selecting.py: values chosen by conditions or positions
- signals.py: lines as signals
- covariance.py: how series vary together
- extending.py: elements put in, repeated, trimmed
- norms.py: norms, ranks, conditions, eigenvalues
- polynomials.py: values and fits
- places.py: positions, bits, writing by masks
- of_numbers.py: what concerns no tensor
- times.py: ranges of times, business days
- gufuncs.py: functions of numbers, lines, matrices
- applying.py: functions of lines, neighbourhoods
- npy.py: `.npy` files
- reading.py: arrays that a function gives box by box
- inquiry.py: questions that shape and dtype answer
- control.py: `cond` and `while_loop`
- converting.py: values of the user's as tensors
"""

from jmars.tensor.ops import (
    applying,
    axes,
    control,
    converting,
    covariance,
    creation,
    cumulative,
    elementwise,
    extending,
    factorisation,
    fft,
    gufuncs,
    histograms,
    indexing,
    inquiry,
    joining,
    largest,
    linalg,
    mapping,
    masking,
    nonzero,
    norms,
    npy,
    of_numbers,
    order,
    padding,
    places,
    polynomials,
    random,
    ranges,
    reading,
    reduction,
    reshape,
    rolling,
    selecting,
    signals,
    statistics,
    tensor_equations,
    times,
    ufunc_methods,
    unique,
    walking,
    writing,
)

__all__ = [
    "applying",
    "axes",
    "control",
    "converting",
    "covariance",
    "creation",
    "cumulative",
    "elementwise",
    "extending",
    "factorisation",
    "fft",
    "gufuncs",
    "histograms",
    "indexing",
    "inquiry",
    "joining",
    "largest",
    "linalg",
    "mapping",
    "masking",
    "nonzero",
    "norms",
    "npy",
    "of_numbers",
    "order",
    "padding",
    "places",
    "polynomials",
    "random",
    "ranges",
    "reading",
    "reduction",
    "reshape",
    "rolling",
    "selecting",
    "signals",
    "statistics",
    "tensor_equations",
    "times",
    "ufunc_methods",
    "unique",
    "walking",
    "writing",
]
