"""What tensors do: one file per family of operands. Importing it fills the table of protocols.py.

In reading order:

- rechunk.py: other chunks of the same array
- formula.py: elementwise functions as one operand, `Formula`
- creation.py: constants and ranges; the pattern for other operands
- elementwise.py: one row per ufunc
- reduction.py: sums, extremes, means, variances, positions
- statistics.py: reductions made of others
"""

from jmars.tensor.ops import creation, elementwise, reduction, statistics

__all__ = ["creation", "elementwise", "reduction", "statistics"]
