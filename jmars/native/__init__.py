"""Inner loops in C: planners, and random doubles; no compiler is needed to run.

build     compiles the C files to a shared library
loader    chooses between C and Python
__main__  `python -m jmars.native`: build it here

The C files stand beside these. Those of the planners (common, heap, run, store, ports, paths, order, eft, bisect,
search, simulate) name the Python function that they repeat to the last bit; plan/c_planners.py calls them;
tensor/ops/random/doubles.py calls draws.c.
"""

from jmars.native.loader import backend, forced, library

__all__ = ["backend", "forced", "library"]
