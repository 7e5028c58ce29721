"""record: a class decorator for frozen dataclasses that are made often, or that `import jmars` defines.

A frozen dataclass sets fields by name through `object.__setattr__`; a record sets its slots directly, in about 60 % of
the time. Reports are made for every batch of operands. Four methods of a record are compiled together and the others
are shared, which takes 0.1 ms for each class at every start; a frozen dataclass, whose methods are compiled one by one,
takes 0.3 ms.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from typing import Any, NoReturn, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=False)
def record(cls: Class) -> Class:
    """Makes a class a frozen dataclass with slots and a fast constructor.

    Methods that the class defines stay. Its objects have no `__dict__`, and no weak references.

    Raises
    ------
    TypeError
        If the class inherits, has `__init__` or `__post_init__`, or a field with a factory or with `init`, `repr` or
        `compare` off.

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
    own = vars(cls)
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    plain = all(one.default_factory is MISSING and one.init and one.repr and one.compare for one in fields(made))
    if not plain or cls.__bases__ != (object,) or not {"__init__", "__post_init__"}.isdisjoint(own):
        why = "it inherits, has a constructor, or a field with a factory or with init, repr or compare off"
        raise TypeError(f"{cls.__qualname__} cannot be a record, since {why}; use dataclass(frozen=True)")
    names = [one.name for one in fields(made)]
    defaults = {one.name: one.default for one in fields(made) if one.default is not MISSING}
    scope: dict[str, Any] = {f"_set_{name}": made.__dict__[name].__set__ for name in names}
    scope |= {f"_default_{name}": value for name, value in defaults.items()}
    exec(_METHODS.format(
        arguments=", ".join(["self", *(f"{name}=_default_{name}" if name in defaults else name for name in names)]),
        body="; ".join(f"_set_{name}(self, {name})" for name in names) or "pass",
        mine="".join(f"self.{name}, " for name in names), theirs="".join(f"other.{name}, " for name in names),
    ), scope)  # fmt: skip  # as dataclasses makes its own
    scope["__init__"].__annotations__ = {name: cls.__annotations__[name] for name in names} | {"return": None}
    scope["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    methods = {name: scope[name] for name in ("__init__", "__eq__", "__hash__", "__reduce__")}
    methods |= {"__setattr__": _set, "__delattr__": _delete, "__repr__": _repr}
    for name, method in methods.items():
        if own.get(name) is None:  # Python gives None as the hash of a class with `__eq__`
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


_METHODS = """
def __init__({arguments}):
    {body}
def __eq__(self, other):
    return ({mine}) == ({theirs}) if other.__class__ is self.__class__ else NotImplemented
def __hash__(self):
    return hash(({mine}))
def __reduce__(self):  # as the call that makes it: the state of slots would be set field by field
    return self.__class__, ({mine})
"""


def values_of(record: Any) -> tuple[Any, ...]:
    """The values of a record's fields, in order.

    Examples
    --------
    >>> from jmars.model.messages import Started
    >>> values_of(Started("job-1", (3, 4), worker=0))
    ('job-1', (3, 4), 0)
    """
    return tuple([getattr(record, name) for name in record.__match_args__])


def _set(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({shown})"
