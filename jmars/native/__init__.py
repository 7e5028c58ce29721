"""C kernels: the planners' inner loops and random doubles. Without them jmars runs in Python.

build     compiles the C files to a shared library
loader    loads the library, if it matches its sources
__main__  `python -m jmars.native`: builds the library in place

The C files are in this folder. Each planner file names the Python function that it repeats to the last bit;
plan/c_planners.py calls these kernels, and tensor/ops/random_streams.py calls draws.c.
"""

from jmars.native.loader import backend, forced, library

__all__ = ["backend", "forced", "library"]
