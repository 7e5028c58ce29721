"""The user's names while a `%%jmars` cell runs: lazy in the cell, kept after success, restored after an error.

In the cell NumPy's names mean jmars.tensor, and NumPy arrays that the cell's text mentions are tensors. Afterwards
every name that the cell did not rebind or write to is exactly what it was, NumPy arrays are arrays again
(user_arrays.py), and results without axes are NumPy's scalars. So are results in plain cells of tensors that a cell
made: they are computed in the call. `display(x)` shows values, as `print(x)` does: they are
computed before IPython formats, since IPython swallows exceptions meanwhile.
"""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jmars.errors import UnsupportedError
from jmars.notebook.numpy_names import imported_names, path_of, resolve_or_stub
from jmars.notebook.user_arrays import MaskedArrays, UserArrays, has_mask
from jmars.tensor.buffers import Buffer, PlaceState, SmallValues
from jmars.tensor.engine import can_compute, get_engine
from jmars.tensor.from_array import Composite
from jmars.tensor.operand import SourceLine, TensorData
from jmars.tensor.protocols import set_plain_hook
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_text import summary

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# Names that IPython itself binds while a cell runs: output and input caches, `!`'s exit status.
_IPYTHON = re.compile(r"_+|_(i+|ih|oh|dh|\d+|i\d+|exit_code|exception)|In|Out|__jmars_\w+")

_SHORT = 1000  # longer containers are not searched for tensors; tensors in them stay lazy
_CONTAINERS = (list, tuple, dict, set)
_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})
_NOTHING = object()


class Values(Protocol):
    """Gives values of computed nodes: the engine of a cell."""

    def fetch(self, data: TensorData, copy: bool = True) -> Any:
        """Return the value of a node; a copy, or a read-only view with `copy=False`."""

    def fetch_each(self, data: Sequence[TensorData]) -> list[Any]:
        """Return the values of small nodes."""


@dataclass
class Namespace:
    """The namespace as seen by a cell; call `enter` first, then `leave` or `roll_back`.

    Examples
    --------
    >>> names = {"np": np, "x": np.arange(3)}
    >>> inside = Namespace.enter(names, lambda name: SourceLine("cell", 2, "y = x"))
    >>> names["y"] = names["x"] + 1  # the cell assigns a tensor
    >>> sorted(inside.leave())
    ['y']
    >>> names["np"] is np, type(names["x"]).__name__, type(names["y"]).__name__
    (True, 'ndarray', 'Tensor')
    """

    names: dict[str, Any]  # the user's namespace itself
    before: dict[str, Any]  # value of every name before the cell
    given: dict[str, Any] = field(default_factory=dict)  # lazy value of a name in the cell
    arrays: UserArrays = field(default_factory=UserArrays)  # NumPy arrays that the cell's text mentions
    masked: MaskedArrays = field(init=False)  # masked arrays of NumPy that the cell's text mentions
    written: dict[str, Any] = field(default_factory=dict)  # arrays that the cell wrote to, and views of them, by name
    tensors: dict[int, tuple[Tensor, PlaceState]] = field(default_factory=dict)  # state of every tensor at the start
    composites: dict[int, tuple[Composite, Any]] = field(default_factory=dict)  # state of every composite at the start
    added: list[Tensor] = field(default_factory=list)  # to lists, tuples, dicts and sets that the cell did not assign
    scalars: dict[int, Any] = field(default_factory=dict)  # NumPy's scalar for a result without axes, by id

    def __post_init__(self) -> None:
        self.masked = MaskedArrays(self.arrays)

    @classmethod
    def enter(cls, names: dict[str, Any], line_of: Callable[[str], SourceLine | None]) -> Namespace:
        """Puts lazy values into `names`; arrays only if `line_of` knows a line that mentions the name."""
        inside = cls(names, dict(names))
        arrays: list[tuple[str, Any, SourceLine]] = []
        users = {name: value for name, value in names.items() if not _is_of_ipython(name)}
        for name, value in users.items():
            path = path_of(value)
            if path is not None:
                inside.given[name] = resolve_or_stub(path)
            elif not _is_array(value) or (line := line_of(name)) is None:
                continue
            elif not has_mask(value):
                arrays.append((name, value, line))
            else:
                try:
                    inside.given[name] = inside.masked.enter(name, value, line)
                except UnsupportedError:
                    continue  # objects stay arrays
        inside.given |= inside.arrays.enter(arrays)
        tensors, composites = found_in((users | inside.given).values())
        inside.tensors = {id(one): (one, one.state()) for one in tensors}
        inside.composites = {id(one): (one, one.state()) for one in composites}
        names.update(inside.given)
        return inside

    def leave(self) -> dict[str, Any]:
        """Restores names that the cell left alone; returns assigned or written names with values to compute.

        A tensor that stands for a user's array, or for a view of one, becomes that array: now, or by `write_back` where
        the cell wrote to the array.
        """
        assigned: dict[str, Any] = {}
        containers: list[Any] = []
        for name, value in list(self.names.items()):
            if _is_of_ipython(name):
                continue
            untouched = self.given.get(name, self.before.get(name, _NOTHING)) is value
            array = self.arrays.array_of(value)
            if array is not None:
                if self.arrays.is_written(value):
                    self.written[name] = array
                else:
                    self.names[name] = self.before[name] if untouched else array
                continue
            if isinstance(value, Tensor) and id(value) in self.tensors:  # `x[0] = 1` changes the value of x
                untouched = untouched and self._has_its_value(value)
            elif isinstance(value, Composite) and id(value) in self.composites:
                untouched = untouched and self._is_as_it_was(value)
            if untouched:
                self.names[name] = self.before[name]
                if type(value) in _CONTAINERS:
                    containers.append(value)
            elif id(value) in imported_names and imported_names[id(value)][0] is value:
                self.names[name] = imported_names[id(value)][1]  # bound by an import inside the cell
            else:
                assigned[name] = value
                if isinstance(value, Composite):
                    self.masked.write(value)
        self.added = [one for one in tensors_in(containers) if not self._was_here(one)]
        return assigned

    def write_back(self, engine: Values, results: Sequence[Tensor], shown: Any) -> Any:
        """Writes computed values to the user's arrays, and puts arrays and scalars in place of their tensors.

        Parameters
        ----------
        engine
            Gives the values.
        results
            The tensors that are computed.
        shown
            The value that the cell shows; returned with arrays and scalars.
        """
        __tracebackhide__ = True
        has_arrays = any(isinstance(value, Tensor | Composite) for value in self.given.values())
        if has_arrays:  # the cell mentions an array of the user
            write_masked = self.masked.write_back(engine.fetch)  # before any array changes
            self.arrays.write_back(engine.fetch)
            write_masked()
            self.names.update(self.written)
        flat = [one for one in results if _is_scalar(one)]
        values = engine.fetch_each([one.data for one in flat]) if flat else []
        self._take_scalars(flat, values)
        if not has_arrays and not flat:
            return shown
        done: dict[int, tuple[Any, Any]] = {}
        for name in [name for name in self.names if not _is_of_ipython(name)]:
            self.names[name] = self._with_values(self.names[name], done)
        return self._with_values(shown, done)

    def _take_scalars(self, flat: Sequence[Tensor], values: Sequence[Any]) -> None:
        """Notes NumPy's scalars for tensors without axes; Python's bool where NumPy has one."""
        self.scalars = {
            id(one): bool(value) if one.state().place.is_array is None else value
            for one, value in zip(flat, values, strict=True)
        }

    def _with_values(self, value: Any, done: dict[int, tuple[Any, Any]]) -> Any:
        """The value with arrays and scalars in place of their tensors, in short containers too."""
        if isinstance(value, Tensor | Composite):
            return self._value_of(value)
        if not _is_container(value) or len(value) > _SHORT:
            return value
        if id(value) in done:
            return done[id(value)][1]  # a tuple under two names stays the same tuple
        if _is_plain(value) and (type(value) is not dict or _is_plain(value.values())):
            return value
        done[id(value)] = value, value
        entries = list(itertools.chain(*value.items())) if type(value) is dict else list(value)
        found = [self._with_values(one, done) for one in entries]
        if all(x is y for x, y in zip(found, entries, strict=True)):
            return value
        if type(value) is list:
            value[:] = found
        elif type(value) is dict or type(value) is set:
            value.clear()
            value.update(zip(found[::2], found[1::2], strict=True) if type(value) is dict else found)
        else:
            made: Any = tuple(found) if type(value) is tuple else type(value)._make(found)
            done[id(value)] = value, made
            return made
        return value

    def _value_of(self, one: Any) -> Any:
        """The array or scalar that a tensor or masked tensor stands for, else the tensor."""
        if id(one) in self.scalars:
            return self.scalars[id(one)]
        array = self.arrays.array_of(one)
        if array is None:
            array = self.masked.array_of(one)
        if array is not None:
            return array
        if isinstance(one, Composite) and not one.ndim and all(id(part) in self.scalars for part in one.parts()):
            return one.decode([self.scalars[id(part)] for part in one.parts()])
        return one

    def roll_back(self, imported: Mapping[str, Any] | None = None) -> None:
        """Restores every tensor and every name as before the cell, but for `imported` names."""
        for name in [name for name in self.names if name not in self.before and not _is_of_ipython(name)]:
            del self.names[name]
        for name, value in self.before.items():
            if not _is_of_ipython(name):
                self.names[name] = value
        self.names.update(imported or {})
        for tensor, tensor_state in self.tensors.values():
            tensor.restore(tensor_state)
        for composite, state in self.composites.values():
            composite.restore(state)
        self.before, self.given = {}, {}  # IPython keeps the traceback, and with it this object
        self.tensors, self.composites, self.arrays = {}, {}, UserArrays()
        self.masked, self.added = MaskedArrays(self.arrays), []

    def _was_here(self, tensor: Tensor) -> bool:
        """Whether a tensor stands for an array, or had its value before the cell."""
        known = self.tensors.get(id(tensor))
        return self.arrays.array_of(tensor) is not None or known is not None and tensor.data is known[1].node

    def _has_its_value(self, tensor: Tensor) -> bool:
        """Whether a tensor has the same value as before the cell."""
        return tensor.data is self.tensors[id(tensor)][1].node

    def _is_as_it_was(self, value: Composite) -> bool:
        """Whether a composite has the same parts with the same data as before the cell."""
        same = all(id(part) in self.tensors and self._has_its_value(part) for part in value.parts())
        return same and all(x is y for x, y in zip(value.state(), self.composites[id(value)][1], strict=True))


def results_at_once(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function between cells: of tensors that a cell made, results without axes are NumPy's scalars.

    Functions that `function` calls get tensors. Other new results are tensors of a cell, too.
    """
    __tracebackhide__ = True
    buffers = [one._place.buffer for one in tensors_in(args)]
    if SmallValues.working or not any(one.of_cell for one in buffers) or not can_compute():
        return function(*args)
    SmallValues.count(1)
    try:
        found = function(*args)
    finally:
        SmallValues.count(-1)
    results = tensors_in([found])
    for one in results:
        buffer = one._place.buffer
        buffer.of_cell |= buffer not in buffers  # a view of a program's tensor, or `out`, stays lazy
    flat = [one for one in results if _is_scalar(one)]
    if not flat:
        return found
    get_engine().look([one.data for one in flat])
    plain = Namespace({}, {})
    plain._take_scalars(flat, [one.fetch() for one in flat])
    return plain._with_values(found, {})


set_plain_hook(results_at_once)


@contextmanager
def lazy_results(are_kept: bool) -> Iterator[None]:
    """Within the block, results without axes are tensors; with `are_kept` the tensors made here are of a cell.

    In threads that ran before, results are as in plain cells.
    """
    before = Buffer.others, Buffer.in_cell
    running = {one.ident for one in threading.enumerate()} if before[0] is None else before[0]
    Buffer.others, Buffer.in_cell = frozenset(running - {threading.get_ident()}), are_kept
    try:
        yield
    finally:
        Buffer.others, Buffer.in_cell = before


@functools.lru_cache(maxsize=10_000)  # a long notebook has hundreds of `_i17`
def _is_of_ipython(name: str) -> bool:
    """Whether IPython itself binds this name while a cell runs."""
    return _IPYTHON.fullmatch(name) is not None


def _is_array(value: Any) -> bool:
    """Whether a value becomes a lazy array in the cell; text arrays do not, since code looks up names by them."""
    return (type(value) in (np.ndarray, np.memmap) or has_mask(value)) and value.dtype.kind not in "SU"


def _is_container(value: Any) -> bool:
    """Whether tensors in a value become their values: in lists, tuples, named tuples, dicts and sets."""
    return type(value) in _CONTAINERS or isinstance(value, tuple) and hasattr(value, "_make")


def _is_scalar(tensor: Tensor) -> bool:
    """Whether NumPy has a scalar for a tensor; a record is a view of its array."""
    place = tensor.state().place
    return not place.is_array and not tensor.data.shape and tensor.dtype.names is None


def _is_plain(values: Iterable[Any]) -> bool:
    """Whether values are numbers and text only, so that a long table of them is passed by quickly."""
    return _PLAIN.issuperset(map(type, values))


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among `values` and in short lists, tuples, sets and dicts there, without duplicates, in order."""
    return found_in(values)[0]


def found_in(values: Iterable[Any]) -> tuple[list[Tensor], list[Composite]]:
    """Like `tensors_in`, but also with the tensors inside composites, and the composites themselves."""
    found: dict[int, Tensor] = {}
    composites: dict[int, Composite] = {}
    todo = list(values)
    seen: set[int] = set()
    for value in todo:  # grows during the loop
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            found[id(value)] = value
        elif isinstance(value, Composite):
            composites[id(value)] = value
            todo.extend(value.parts())
        elif (isinstance(value, tuple) or type(value) in (list, set, frozenset, dict)) and len(value) <= _SHORT:
            for parts in (value, value.values()) if type(value) is dict else (value,):
                todo += [] if _is_plain(parts) else parts
    return list(found.values()), list(composites.values())


@contextmanager
def compute_displayed_values(shell: InteractiveShell) -> Iterator[None]:
    """Within the block, computes tensors before IPython displays them."""
    formatter: Any = shell.display_formatter
    before = vars(formatter).get("format")  # hook of the enclosing cell, if this cell runs inside another cell
    own = formatter.format

    def format(obj: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return own(_computed(obj), *args, **kwargs)

    formatter.format = format
    try:
        yield
    finally:
        if before is None:
            del formatter.format
        else:
            formatter.format = before


def _computed(value: Any) -> Any:
    """Computes the small tensors in `value`; a large tensor is replaced by its text, for which the corners suffice."""
    __tracebackhide__ = True
    largest = np.get_printoptions()["threshold"]
    if isinstance(value, Tensor | Composite) and value.size > largest:
        return _Text(summary(value, repr) if isinstance(value, Tensor) else value.formatted(repr))
    small = [x.data for x in tensors_in([value]) if x.size <= largest]
    if small:
        get_engine().execute(small)
    return value


class _Text:
    """An object whose repr is the given text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text
