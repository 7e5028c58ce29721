"""`python -m jmars.native`: builds the library in the package folder and reports whether it is used."""

import sys

from jmars.native.build import build
from jmars.native.loader import backend

told = build()
print(told or f"the inner loops are in {backend()}", file=sys.stderr if told else sys.stdout)
sys.exit(bool(told))
