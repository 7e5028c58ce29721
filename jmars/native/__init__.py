"""What is written in C: the planners' inner loops and random doubles; no compiler is needed to run.

build     the C files to one shared library, with the compiler that there is
loader    whether that library is used
__main__  `python -m jmars.native`: build it here

The C files stand beside these. Those of the planners (common, heap, run, store, ports, paths, order, eft, bisect,
search, simulate) each say which Python function they repeat to the last bit; plan/c_planners.py calls them; draws.c
is called by tensor/ops/random/doubles.py.
"""

from jmars.native.loader import backend, forced, library

__all__ = ["backend", "forced", "library"]
