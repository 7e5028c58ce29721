"""The array API standard on jmars, the namespace of `x.__array_namespace__()`: `import jmars.array_api as xp`."""

import sys
from typing import Any

from jmars.tensor import array_api


def __getattr__(name: str) -> Any:  # for type checkers: NumPy's functions have no written signatures
    return getattr(array_api, name)


sys.modules[__name__] = array_api  # one module under both names
