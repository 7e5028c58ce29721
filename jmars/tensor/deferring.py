"""Calls functions on arrays of unknown length: at once, deferred to a later stage, or after computing the lengths.

Every function of the table in protocols.py is called through `call_or_defer`. An argument of unknown length is met in
three ways. Functions in `SAME_STAGE` need no length and are called at once. Other calls become a `Deferred` operand,
repeated in the cluster when a run has reported the lengths; the call is tried with stand-ins of several lengths to find
the shapes of the results. Functions that need a value at once compute their arguments first, as `len(x)` does; so do
calls in a cell where the arguments may be small, as NumPy goes on with small values.
Source: Mars (`yield` inside `tile`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from jmars.errors import GraphError, NotReadyError
from jmars.kernels.elementwise import UFUNCS
from jmars.tensor.buffers import Place, SmallValues, View, ViewStep, unresolved
from jmars.tensor.engine import can_compute
from jmars.tensor.from_array import Composite
from jmars.tensor.operand import (
    NeedsLengthError,
    Operand,
    Origin,
    Splits,
    TensorData,
    TensorMeta,
    axis_length,
    is_known,
    is_open,
    new_data,
    values_forbidden,
)
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.protocols import FUNCTIONS, set_call_hook
from jmars.tensor.small_values import PERHAPS_SMALL
from jmars.tensor.tensor import Tensor, as_tensor, compute_lengths
from jmars.tensor.tensor_graph import Dynamic, TensorGraph, fragment, new_group, placeholders

Array = np.ndarray[Any, Any]
SAME_STAGE = {*UFUNCS} | set(  # functions that need no length
    """all angle any clip copy count_nonzero extract fix imag isclose iscomplex isneginf isposinf isreal map_blocks mean
    method.astype method.getitem method.library_ufunc method.mean method.pow method.setitem method.var nan_to_num prod
    real round std sum unique var where""".split()  # noqa: SIM905
)
_LONG = 100  # entries of a list
_LARGE = 2**20  # bytes of an array
_LENGTHS = (1009, 1013, 0, 1, 2, 3)  # of stand-ins: the first two must work, at further ones a function may fail


def call_or_defer(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `function(*args, **kwargs)` now, defer the call to a later stage, or compute the arguments and call."""
    tensors = [one for one in _tensors((args, kwargs)) if one._place.memory is None]  # arrays in memory need no node
    told = [one for one in tensors if one.data.has_unknown_lengths]
    unknown = [one for one in told if not one.data.resolve_lengths()]
    if name != "map_blocks":  # map_blocks calls its function for empty blocks, too
        leave_out_empty(tensors)
    if told and not unknown and SmallValues.working == 1 and can_compute():  # by the length of another part
        compute_lengths(small := [one.data for one in told if one.nbytes <= SmallValues.chosen])
        if small:
            return _anew(name, args, kwargs)
    if not unknown or values_forbidden.get() or name in ("cond", "while_loop"):  # both accept unknown lengths
        return function(*args, **kwargs)
    if name in SAME_STAGE and not any(is_open(one.data.chunks) for one in unknown):
        with _forbid_values():
            try:
                return function(*args, **kwargs)
            except (NeedsLengthError, NotReadyError):
                pass
    if kwargs.get("out") is None and not _may_be_small(unknown):
        try:
            return _defer(name, args, kwargs)
        except _CannotDeferError:
            pass
    compute_lengths([node for one in unknown for node in unresolved(one._place)])
    leave_out_empty(unknown)
    return _anew(name, args, kwargs) if SmallValues.working else function(*args, **kwargs)


def _anew(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Repeat a call of the user, as arguments may be small values now."""
    SmallValues.count(-1)
    try:
        return FUNCTIONS[name](*args, **kwargs)
    finally:
        SmallValues.count(1)


def _may_be_small(tensors: Sequence[Tensor]) -> bool:
    """Whether the cell computes tensors of unknown length at once, since they may be small."""
    return bool(SmallValues.chosen) and all(one.data.most_bytes <= PERHAPS_SMALL for one in tensors)


def leave_out_empty(tensors: Sequence[Tensor]) -> None:
    """Remove chunks that turned out to be empty from tensors; no element is copied."""
    for one in tensors:
        if any(0 in axis and len(axis) > 1 for axis in one.data.chunks):
            one._place.restore(rechunked(one.data, tuple(map(_filled, one.data.chunks))))


@contextmanager
def _forbid_values() -> Iterator[None]:
    """Forbid values and unknown lengths within: code that needs values raises NeedsLengthError or NotReadyError."""
    token = values_forbidden.set(True)
    try:
        yield
    finally:
        values_forbidden.reset(token)


class _CannotDeferError(Exception):
    """Raised if a function needs a value at once, or the results are not predictable."""


# -- calls as data


class _Slot(Struct, frozen=True):
    """Stands for a tensor among the arguments: input `number`."""

    number: int


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield all tensors in arguments, also within lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        if len(value) < _LONG or isinstance(value[0], Tensor | tuple | list):  # long lists hold numbers
            for one in value:
                yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Copy nested lists, tuples and dicts with `change` applied to their leaves."""
    if isinstance(value, tuple | list):
        return type(value)(_mapped(one, change) for one in value) if type(value) in (tuple, list) else value
    if isinstance(value, dict):
        return {key: _mapped(one, change) for key, one in value.items()}
    return change(value)


class _Call(Struct, frozen=True):
    """A call of a function of the table, as a picklable record."""

    name: str
    args: Any
    kwargs: Any

    def results(self, inputs: Sequence[Tensor]) -> Any:
        """Call the function with `inputs`."""

        def filled(value: Any) -> Any:
            return inputs[value.number] if isinstance(value, _Slot) else value

        return FUNCTIONS[self.name](*_mapped(self.args, filled), **_mapped(self.kwargs, filled))


@dataclass(frozen=True, eq=False, kw_only=True)
class Deferred(Dynamic):
    """Calls a function when the lengths of the arguments are known."""

    name: ClassVar[str] = "deferred"
    call: _Call
    predicted: tuple[Splits, ...]  # chunks of each result; axes of unknown length are cut when they are known

    @property
    def label(self) -> str:
        """Name of the function that the user called."""
        return self.call.name.removeprefix("method.")

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Want the lengths of all inputs."""
        return range(len(inputs)), ()

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Call the function with inputs of known lengths and return the resulting graph."""
        with _forbid_values():
            leaves = [rechunked(leaf, tuple(map(_filled, leaf.chunks))) for leaf in placeholders(inputs)]
            given = _listed(self.call.results([Tensor(leaf) for leaf in leaves]))
            found = []
            for one, predicted in zip(given, self.predicted, strict=True):
                chunks = tuple(
                    cut if not is_known([wanted]) else wanted
                    for cut, wanted in zip(one.data.chunks, predicted, strict=True)
                )
                if tuple(map(axis_length, chunks)) != one.data.shape:
                    raise GraphError(
                        f"{self.label} returned shape {one.data.shape}, but chunks {predicted} were predicted from "
                        "stand-ins of other lengths; this is a bug in jmars, please report it"
                    )
                found.append(one if chunks == one.data.chunks else FUNCTIONS["rechunk"](one, chunks))
        return fragment([one.data for one in found], self.line)


def _filled(axis: tuple[int, ...]) -> tuple[int, ...]:
    """Drop the empty chunks of an axis; an axis of length 0 keeps a chunk."""
    return tuple(n for n in axis if n) or (0,)


# -- predicting results


@dataclass(frozen=True, eq=False, kw_only=True)
class _StandIn(Operand):
    """A tensor of some length in place of a tensor of unknown length; never computed."""

    name: ClassVar[str] = "stand-in"

    def stamp(self) -> Hashable | None:
        """None: it is never computed."""
        return None


def _defer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the results of a call as tensors of `Deferred` operands."""
    inputs: dict[int, Tensor] = {}
    numbers: dict[int, int] = {}

    def slot(value: Any) -> Any:
        if isinstance(value, Tensor):
            number = numbers.setdefault(id(value.data), len(numbers))
            inputs[number] = value
            return _Slot(number)
        if isinstance(value, np.ndarray) and value.nbytes > _LARGE:
            return slot(as_tensor(value))  # uploaded instead of sent with the graph
        return value.copy() if isinstance(value, np.ndarray) else value

    call = _Call(name, _mapped(args, slot), _mapped(kwargs, slot))
    given = [inputs[number] for number in range(len(inputs))]
    nodes = [one.data for one in given]
    stand_ins = _stand_ins(nodes, _LENGTHS[0])
    tried = [_try_call(call, one) for one in (stand_ins, _stand_ins(nodes, _LENGTHS[1]))]
    seen = [one for one in tried if one is not None]
    if len(seen) < 2:
        raise _CannotDeferError
    more = [_try_call(call, _stand_ins(nodes, _LENGTHS[0], apart=True))]
    more += [_try_call(call, _stand_ins(nodes, length)) for length in _LENGTHS[2:]]
    seen += [one for one in more if one is not None]
    first = seen[0]
    listed = [_listed(one) for one in seen]
    if len({len(one) for one in listed}) > 1 or not all(isinstance(x, Tensor) for one in listed for x in one):
        lazy = any(isinstance(x, Tensor | Composite) for one in listed for x in one)
        if not lazy and all(_equal(one, first) for one in seen):
            return first  # np.ndim, np.result_type: the result does not depend on lengths
        raise _CannotDeferError
    predicted = [_predict_chunks([one[item].data for one in listed]) for item in range(len(listed[0]))]
    group = new_group()
    results = []
    for item, chunks in enumerate(predicted):
        op = Deferred(call=call, predicted=tuple(predicted), group=group, item=item, inputs=tuple(nodes))
        made = Tensor(new_data(op, tuple(map(axis_length, chunks)), listed[0][item].dtype, chunks))
        results.append(_sharing_memory(made, listed[0][item], stand_ins, given, call, item))
    if hasattr(first, "_fields"):  # NumPy's named tuples
        return type(first)(*results)
    return type(first)(results) if isinstance(first, tuple | list) else results[0]


def _stand_ins(nodes: Sequence[TensorData], length: int, *, apart: bool = False) -> list[Tensor]:
    """Make the arguments of a tried call, with every unknown length set to `length`.

    With `apart`, different unknown lengths get different values, a little above `length`.
    """
    made = []
    origins: dict[str, int] = {}
    for node in nodes:
        chunks = tuple(
            axis if is_known([axis]) else (length + apart * 5 * origins.setdefault(axis[0].origin.key, len(origins)),)
            for axis in node.chunks
        )
        made.append(_stand_in(node.dtype, chunks))
    return made


def _stand_in(dtype: np.dtype[Any], chunks: Splits) -> Tensor:
    return Tensor(TensorData(_StandIn(line=None), tuple(map(sum, chunks)), dtype, chunks))


def _try_call(call: _Call, stand_ins: Sequence[Tensor]) -> Any:
    """Try a call; None if the call fails."""
    try:
        with _forbid_values(), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about lengths that may not occur
            return call.results(stand_ins)
    except Exception:  # a real error is raised again when the lengths are known
        return None


def _sharing_memory(
    made: Tensor, tried: Tensor, stand_ins: Sequence[Tensor], given: Sequence[Tensor], call: _Call, item: int
) -> Tensor:
    """The result as a view of an argument, or as the argument itself, where the result of the tried call is that."""
    number = next((k for k, one in enumerate(stand_ins) if one._place.buffer is tried._place.buffer), None)
    if number is None:
        return made
    if tried._place is stand_ins[number]._place:
        return given[number]
    nodes = [one.data for one in given]

    def viewed(whole: Tensor) -> Tensor:
        inputs = [whole if k == number else Tensor(node) for k, node in enumerate(nodes)]
        found: Tensor = _listed(call.results(inputs))[item]
        return found

    def written(whole: TensorData, part: TensorData) -> TensorData:
        base = Tensor(whole)
        base._resolved()
        viewed(base)[...] = Tensor(part)
        return base.data

    def layout(array: Array) -> Array:
        return _laid_out(viewed(_stand_in(array.dtype, tuple((n,) for n in array.shape)))._place, array)

    place = tried._place
    reading = ViewStep(
        lambda whole: viewed(Tensor(whole)).data, written if place.writeable else None, layout, permutes=place.permuted
    )
    return made._as_view_of(given[number], reading)


def _laid_out(place: Place, whole: Array) -> Array:
    """The array of a place within the array of the buffer."""
    return place.step.layout(_laid_out(place.parent, whole)) if isinstance(place, View) else whole


def _predict_chunks(seen: Sequence[TensorData]) -> Splits:
    """Predict the chunks of a result: axes that differ between the tried lengths are of unknown length."""
    first = seen[0]
    if any(len(one.shape) != len(first.shape) or one.dtype != first.dtype for one in seen):
        raise _CannotDeferError
    group = new_group()
    return tuple(
        axis if all(one.chunks[i] == axis for one in seen) and is_known([axis]) else (Origin.of(f"{group}:{i}").whole,)
        for i, axis in enumerate(first.chunks)
    )


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and np.array_equal(one, other)


set_call_hook(call_or_defer)
