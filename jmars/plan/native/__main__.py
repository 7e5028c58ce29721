"""`python -m jmars.plan.native`: build the library, where the package lies, and say what plans are made with."""

import sys

from jmars.plan.native.build import build
from jmars.plan.native.loader import backend

told = build()
print(told or f"plans are made in {backend()}", file=sys.stderr if told else sys.stdout)
sys.exit(bool(told))
