"""Drawn statements of NumPy, compared with NumPy: value, dtype, kind of error, and what became of every name.

`values.py` draws arrays, `arguments.py` draws arguments by the names that NumPy's signatures give to parameters,
`statements.py` makes statements of both, `comparing.py` runs a statement on both sides and says what differs.
"""
