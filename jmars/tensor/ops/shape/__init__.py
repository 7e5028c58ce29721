"""Shapes: axes, reshaping, joining, padding, rolling.

In reading order:

- axes.py: axes permuted, added, removed
- reshape.py: `reshape` and `ravel`
- concatenate.py: joining, splitting
- repeat.py: `repeat` and `tile`
- roll.py: `roll`
- pad.py: `pad`
- resize.py: `resize`, `insert`, `trim_zeros`
"""
