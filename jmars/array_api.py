"""The array API standard on jmars, the namespace of `x.__array_namespace__()`: `import jmars.array_api as xp`."""

import sys

from jmars.tensor import array_api

sys.modules[__name__] = array_api  # one module under both names
