"""The planners' inner loops in C, with the same results as in Python to the last bit; no compiler is needed to run.

build     the C files to one shared library, with the compiler that there is
loader    whether that library is used
__main__  `python -m jmars.plan.native`: build it here
calls     one function for each kernel, on arrays

The C files stand beside these, each says which Python function it repeats: common, heap (headers), paths, order, eft,
bisect, search, simulate (with run, store, ports).
"""

from jmars.plan.native.calls import serves
from jmars.plan.native.loader import backend, forced

__all__ = ["backend", "forced", "serves"]
