"""Indexing: `x[index]`, `x[index] = value`, `take`, `put`, `choose`.

In reading order:

- basic_indexing.py: slices and integers
- exchange.py: many integer positions, held by a tensor
- take.py: integer positions along one axis
- selected_rows.py: rows of a chunk that a mask selects
- boolean_mask.py: `x[mask]`
- nonzero.py: positions of true elements
- structured.py: fields of structured arrays
- getitem.py: `x[index]`
- delete.py: removing elements at positions along one axis
- scatter.py: writing at integer positions
- setitem.py: `x[index] = value`
- put.py: `put`, `place`, `putmask`, `fill_diagonal`
- flat_index.py: `unravel_index` and `ravel_multi_index`
- select.py: `select`, `choose`, `piecewise`, `take_along_axis`
"""
