"""Elementwise functions.

In reading order:

- formula.py: `Formula` and the operand that computes it
- ufuncs.py: the table of ufuncs, casts, `where`, `clip`
- complex_parts.py: `real` and `imag`
- bits.py: `packbits` and `unpackbits`
"""
