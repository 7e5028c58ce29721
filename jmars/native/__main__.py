"""`python -m jmars.native`: build the library inside the package, and report whether jmars uses it."""

import sys

from jmars.native.build import build
from jmars.native.loader import backend

told = build()
print(told or f"the inner loops are in {backend()}", file=sys.stderr if told else sys.stdout)
sys.exit(bool(told))
