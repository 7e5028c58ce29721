"""Elementwise functions.

In reading order:

- formula.py: `Formula` and the operand that computes it
- float_handling.py: how floating point errors are handled, as `np.errstate` says
- ufunc_keywords.py: `out`, `where`, `casting`, `order`, `dtype` of a ufunc's call
- ufuncs.py: the table of ufuncs, casts, `where`, `clip`
- library_ufuncs.py: ufuncs of other libraries, as `scipy.special.erf`
- python_objects.py: the results of `np.frompyfunc`
- complex_parts.py: `real` and `imag`
- bits.py: `packbits` and `unpackbits`
- emath.py: functions that give complex numbers out of the range of the real function
"""
