"""Which of our functions answers which NumPy name: the table behind `jmars.tensor.*`, NumPy's protocols and methods.

tensor/ops fills it by `@offers(...)`; tensor.py looks methods and operators up in it; `__array_ufunc__` and
`__array_function__` come in through it. What is not in the table raises `UnsupportedError` by name.
Source: NEP 13, NEP 18.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.duck_arrays import DuckArrayError, dispatch
from jmars.tensor.overrides import call_numpy, is_overridable, overriding_args
from jmars.tensor.unknown import Origin

__all__ = ["FUNCTIONS", "call", "find", "numpys", "offers", "set_call_hook", "set_mask_hook", "unsupported"]

F = TypeVar("F", bound=Callable[..., Any])
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # name in jmars.tensor, or "method.<name>" for what is only a method
_BY_NUMPY: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {}  # NumPy's: ours, and ours that asks nobody


def offers(*names: str) -> Callable[[F], F]:
    """Put a function into the table under `names`, and under NumPy's functions of these names ("linalg.norm" too).

    Examples
    --------
    >>> @offers("method.example")
    ... def example(x):
    ...     return x
    >>> call("method.example", 1)
    1
    """

    def register(function: F) -> F:
        known = [theirs for name in names if (theirs := _named(name)) is not None]
        alone = _hooked(names[0], function)
        offered = next((_hooked(names[0], function, theirs) for theirs in known if is_overridable(theirs)), alone)
        FUNCTIONS.update(dict.fromkeys(names, offered))
        for theirs in known:  # np.ma.expand_dims is np.expand_dims: who came first answers
            _BY_NUMPY.setdefault(theirs, (offered, alone))
        return function

    return register


def _named(name: str) -> Any:
    """What NumPy has under that name, or None."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


CallHook = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_call_hook: CallHook | None = None


def set_call_hook(hook: CallHook) -> None:
    """Let calls of the table go through `guard(name, function, args, kwargs)` once there are unknown lengths."""
    global _call_hook
    _call_hook = hook


MaskHook = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]
_mask_hook: MaskHook | None = None


def set_mask_hook(hook: MaskHook) -> None:
    """Ask `guard(name, args, kwargs)` first, once there are masked arrays; it gives NotImplemented where none is."""
    global _mask_hook
    _mask_hook = hook


def _hooked(name: str, function: Callable[..., Any], theirs: Any = None) -> Callable[..., Any]:
    """The function as it is called; objects that answer NumPy's `theirs` themselves are asked through it."""

    @functools.wraps(function)
    def offered(*args: Any, **kwargs: Any) -> Any:
        if theirs is not None and next(overriding_args((*args, *kwargs.values())), None) is not None:
            return call_numpy(theirs, args, kwargs, _entering)
        if _mask_hook is not None and (found := _mask_hook(name, args, kwargs)) is not NotImplemented:
            return found
        try:
            if Origin.met and _call_hook is not None:
                return _call_hook(name, function, args, kwargs)
            return function(*args, **kwargs)
        except DuckArrayError as error:  # sparse arrays and the like: who knows them answers
            return dispatch(error, name, args, kwargs)

    return offered


def _entering(value: Any) -> Any:
    """An array of NumPy's as one of ours. By name: what pickles a function of ours must not take the table along."""
    return call("asarray", value)


def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """What the function of that name gives."""
    function = FUNCTIONS.get(name)
    if function is None:
        raise unsupported(name.removeprefix("method."))
    return function(*args, **kwargs)


def find(theirs: Any) -> Callable[..., Any] | None:
    """Our function for NumPy's, which has asked the arguments already, or None."""
    return _BY_NUMPY.get(theirs, (None, None))[1]


def numpys(ours: Any) -> Any:
    """NumPy's function or class for ours, or None; None too for those that draw from NumPy's one generator."""
    if not str(getattr(ours, "__module__", "")).startswith("jmars."):
        return None  # a user's own, as nearly all are
    if isinstance(ours, type):
        return vars(ours).get("theirs")
    found = (theirs for theirs, (offered, alone) in _BY_NUMPY.items() if ours is offered or ours is alone)
    return next((one for one in found if not isinstance(getattr(one, "__self__", None), np.random.RandomState)), None)


def unsupported(name: str) -> UnsupportedError:
    """The error for a NumPy function that jmars lacks."""
    on_arrays = "" if name.startswith("random.") else ", on the value, x.fetch(), or on chunks with map_blocks"
    return UnsupportedError(
        f"np.{name} is not in jmars yet, and nothing is computed behind your back; "
        f"compute it in a cell without %%jmars, where numpy is NumPy{on_arrays}"
    )
