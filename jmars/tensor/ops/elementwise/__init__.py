"""Elementwise functions.

In reading order:

- formula.py: `Formula`, elementwise functions as one operand
- ufuncs.py: the table of ufuncs, casts, `where`, `clip`
- bits.py: `packbits` and `unpackbits`
"""
