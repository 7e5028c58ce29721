"""`jmars.tensor.linalg`: the functions of `np.linalg`, looked up in the table of protocols.py.

`np.linalg.trace`, `diagonal` and `outer` differ from `np.trace`, `diagonal` and `outer`; ops/matrix_products.py
has both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.protocols import FUNCTIONS, unsupported

_NAMES = sorted(name.removeprefix("linalg.") for name in FUNCTIONS if name.startswith("linalg."))
__all__ = ["LinAlgError", *_NAMES]

LinAlgError = np.linalg.LinAlgError


def __getattr__(name: str) -> Any:
    found = FUNCTIONS.get(f"linalg.{name}")
    if found is not None:
        return found
    if hasattr(np.linalg, name) and not name.startswith("_"):
        raise AttributeError(str(unsupported(f"linalg.{name}")))
    raise AttributeError(f"module 'jmars.tensor.linalg' has no attribute {name!r}, and neither has np.linalg")


def __dir__() -> list[str]:
    return sorted(__all__)
