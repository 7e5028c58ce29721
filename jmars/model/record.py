"""record: a class decorator for frozen dataclasses that are made often, or that `import jmars` defines.

A frozen dataclass sets fields by name through `object.__setattr__`; a record sets its slots directly, in about 60 % of
the time. Reports are made for every batch of operands. Records share the methods of frozen dataclasses instead of
compiling their own, which would take a third of a millisecond for each class at every start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, dataclass_transform

__all__ = ["record", "values_of"]

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=False)
def record(cls: Class) -> Class:
    """Makes a class a frozen dataclass with slots and a fast constructor.

    Defaults are values, not factories; methods of the class itself stay. It has no cached properties, no references of
    `weakref`, and no `__post_init__`.

    Examples
    --------
    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1)
    Point(x=1, y=0)
    >>> Point(1).x = 2
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: cannot assign to field 'x'
    """
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    names = [one.name for one in fields(made)]
    defaults = {one.name: one.default for one in fields(made) if one.default is not MISSING}
    scope: dict[str, Any] = {f"_set_{name}": made.__dict__[name].__set__ for name in names}
    scope |= {f"_default_{name}": value for name, value in defaults.items()}
    arguments = ", ".join(f"{name}=_default_{name}" if name in defaults else name for name in names)
    body = "\n    ".join(f"_set_{name}(self, {name})" for name in names) or "pass"
    exec(f"def __init__(self, {arguments}):\n    {body}\n", scope)  # as dataclasses makes its own
    made.__init__ = scope["__init__"]
    made._values = _reader(names)
    for name, method in _METHODS.items():
        if vars(cls).get(name) is None:  # a class with `__eq__` has no hash of its own
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def values_of(record: Any) -> tuple[Any, ...]:
    """The values of a record's fields, in order.

    Examples
    --------
    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> values_of(Point(3))
    (3, 0)
    """
    found: tuple[Any, ...] = record._values(record)
    return found


def _reader(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads the fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return staticmethod(lambda record: tuple([getattr(record, name) for name in names]))


def _set(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    return self._values(self) == self._values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._values(self))


def _reduce(self: Any) -> tuple[Any, tuple[Any, ...]]:
    """Pickled as the call that makes it: the state of slots would be set field by field."""
    return type(self), self._values(self)


_METHODS: dict[str, Callable[..., Any]] = {
    "__setattr__": _set,
    "__delattr__": _delete,
    "__reduce__": _reduce,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
}
