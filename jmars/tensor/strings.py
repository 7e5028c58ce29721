"""`jmars.tensor.strings`: the functions of `np.strings` and `np.char`, elementwise and lazy.

The length of most results follows from the dtypes of the arguments. Where it depends on the values (`replace`,
`multiply`, `encode`), the longest result is computed at once, and the results are lazy. `np.char.split` and its like
give lists, so NumPy's arrays of objects; `partition` and `rpartition` compute at once too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.numpy_modules import as_values, with_values
from jmars.tensor.ops.map_blocks import map_blocks
from jmars.tensor.protocols import FUNCTIONS, offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["FUNCTIONS_OF_TEXT"]

# function: kind of its results
FUNCTIONS_OF_TEXT: dict[str, str] = {
    **dict.fromkeys("upper lower swapcase capitalize title strip lstrip rstrip translate slice".split(), "like"),  # noqa: SIM905
    **dict.fromkeys("isalpha isdigit isspace isalnum islower isupper istitle isdecimal isnumeric".split(), "bool"),  # noqa: SIM905
    **dict.fromkeys("startswith endswith equal not_equal less less_equal greater greater_equal".split(), "bool"),  # noqa: SIM905
    **dict.fromkeys("str_len find rfind index rindex count".split(), "int"),  # noqa: SIM905
    **dict.fromkeys("ljust rjust center zfill".split(), "wide"),  # noqa: SIM905
    "add": "sum",
    **dict.fromkeys("replace expandtabs multiply mod encode decode".split(), "values"),  # noqa: SIM905
}
_AT_ONCE = "char.split char.rsplit char.splitlines char.partition char.rpartition strings.partition strings.rpartition"


def _function(module: ModuleType, name: str, gives: str) -> Callable[..., Any]:
    theirs = getattr(module, name)

    def function(a: Any, *args: Any, **kwargs: Any) -> Tensor:
        x = as_tensor(a)
        if x.dtype.kind not in "SU":
            raise TypeError(f"np.strings.{name} takes text, not {x.dtype}")
        given = [as_tensor(one) if np.ndim(one) else one for one in args]
        if gives == "values":
            if not x.size:
                return as_tensor(theirs(as_values(x), *as_values(given), **kwargs))
            dtype = _longest(theirs, x, *given, **kwargs)
        else:
            dtype = _dtype(name, gives, x, *given, **kwargs)
        return map_blocks(theirs, x, *given, dtype=dtype, name=name, **kwargs)

    function.__name__ = name
    function.__doc__ = f"`np.strings.{name}`, lazily and chunk by chunk."
    return function


def _longest(theirs: Callable[..., Any], *args: Any, **kwargs: Any) -> np.dtype[Any]:
    """NumPy's dtype of the results; it depends on the values, so that they are computed."""
    kind = {"encode": "S", "decode": "U"}.get(theirs.__name__, args[0].dtype.kind)
    lengths = map_blocks(partial(_lengths, theirs), *args, dtype=np.int64, name="length", **kwargs)
    return np.dtype(f"{kind}{max(1, int(lengths.max()))}")


def _lengths(theirs: Callable[..., Any], *blocks: Any, **kwargs: Any) -> Any:
    found = theirs(*blocks, **kwargs)
    return np.full(found.shape, found.dtype.itemsize // np.dtype(f"{found.dtype.kind}1").itemsize)


def _dtype(name: str, gives: str, x: Tensor, *args: Any, **kwargs: Any) -> np.dtype[Any]:
    """Return the dtype of the function's results."""
    if gives in ("bool", "int"):
        return np.dtype(bool if gives == "bool" else np.int64)
    if gives == "like":
        return x.dtype
    if gives == "sum":
        other = args[0].dtype if isinstance(args[0], Tensor) else np.asarray(args[0]).dtype
        return np.strings.add(np.zeros(1, x.dtype), np.zeros(1, other)).dtype
    width = args[0] if args else kwargs["width"]
    if np.ndim(width) or width < x.dtype.itemsize // np.dtype(f"{x.dtype.kind}1").itemsize:
        raise UnsupportedError(
            f"np.strings.{name} needs one width for all elements, at least that of {x.dtype}, since chunks hold text "
            "of a fixed length; make the text shorter first, x.astype(...)"
        )
    return np.dtype(f"{x.dtype.kind}{width}")


for _module in (np.strings, np.char):
    for _name, _gives in FUNCTIONS_OF_TEXT.items():
        if hasattr(_module, _name):
            # np.strings.add is np.add, which the table finds by an earlier registration that is not for text alone
            offers(f"{_module.__name__.removeprefix('numpy.')}.{_name}")(_function(_module, _name, _gives))


for _name in _AT_ONCE.split():
    offers(_name)(with_values(operator.attrgetter(_name)(np)))


def __getattr__(name: str) -> Any:
    if f"strings.{name}" in FUNCTIONS:
        return FUNCTIONS[f"strings.{name}"]
    raise AttributeError(f"module 'jmars.tensor.strings' has no attribute {name!r}")
