"""Writes at positions given by integer arrays: `x[i, :, j] = value` and `np.add.at`.

Chunks without a written element are passed on. Many positions or values are exchanged: exchange.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorData, TensorMeta, new_data
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.ops.index.exchange import scatter_by_tensor
from jmars.tensor.ops.index.getitem import Index, broadcast_positions, joint_positions
from jmars.tensor.ops.index.take import MANY, positions_in_chunks
from jmars.tensor.ops.shape.axes import broadcast_to, expand_dims, moveaxis, squeeze
from jmars.tensor.ops.shape.reshape import merge_axes, ravel, reshape
from jmars.tensor.protocols import call
from jmars.tensor.splits import chunk_bytes
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["SetPositions", "apply_at", "match_ndim", "set_by_arrays"]

Array = np.ndarray[Any, Any]


def set_by_arrays(x: Tensor, meaning: Index, value: Tensor) -> Tensor:
    """Returns `x` after `x[index] = value`, for an index with integer arrays.

    Raises
    ------
    ValueError
        If the value does not broadcast to the shape of `x[index]`.
    UnsupportedError
        For None beside arrays.
    """
    entries = meaning.entries
    if any(entry is None for entry in entries):
        raise UnsupportedError("x[None, array] = value is not in jmars; leave None out, it changes no element")
    part = tuple(entry if isinstance(entry, slice) else slice(None) for entry in entries)
    if any(entry != slice(None) for entry in part):
        inner = call("method.getitem", x, part)
        whole = Index(tuple(slice(None) if isinstance(entry, slice) else entry for entry in entries))
        return call("method.setitem", x, part, set_by_arrays(inner, whole, value))  # type: ignore[no-any-return]
    named = [i for i, entry in enumerate(entries) if not isinstance(entry, slice)]
    arrays = broadcast_positions([entries[i] for i in named])
    shape, k = arrays[0].shape, len(named)
    first = named[0] if named[-1] - named[0] == k - 1 else 0  # position of the arrays' axes in x[index]
    rest = tuple(n for i, n in enumerate(x.shape) if i not in named)
    wanted = (*rest[:first], *shape, *rest[first:])
    value = match_ndim(value, wanted)
    if 0 in wanted:
        return Tensor(x.data)
    if k == 1 and len(shape) == 1:
        return _set_positions(x, arrays[0], named[0], value)
    value = broadcast_to(value, wanted)
    lines = merge_axes(moveaxis(x, named, range(k)), 0, k)
    positions = ravelled(joint_positions(arrays, [x.shape[i] for i in named], named))
    given = reshape(moveaxis(value, range(first, first + len(shape)), range(len(shape))), (len(positions), *rest))
    written = reshape(_set_positions(lines, positions, 0, given), (*(x.shape[i] for i in named), *rest))
    return Tensor(rechunked(moveaxis(written, range(k), named).data, x.chunks))


def ravelled(positions: Any) -> Any:
    """Positions as a line."""
    return ravel(positions) if isinstance(positions, Tensor) else positions.reshape(-1)


def match_ndim(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Gives `value` as many axes as `shape`; raises ValueError if it does not broadcast to `shape`."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = squeeze(value, 0)
    try:
        fits = np.broadcast_shapes(value.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {shape}")
    return expand_dims(value, tuple(range(len(shape) - value.ndim))) if value.ndim < len(shape) else value


def _set_positions(x: Tensor, positions: Any, at: int, value: Tensor) -> Tensor:
    """Writes a value with the axes of `x` at positions along axis `at`; the last value of a repeated position wins."""
    if is_exchanged(positions, value):
        return scatter_by_tensor(x, as_tensor(positions), at, value)
    if len(np.unique(positions)) < len(positions):  # the last value wins, as in NumPy
        last = len(positions) - 1 - np.unique(positions[::-1], return_index=True)[1]
        if value.shape[at] != 1:
            from_value: list[Any] = [slice(None)] * value.ndim
            from_value[at] = last
            value = value[tuple(from_value)]
        positions = positions[last]
    cut = [lengths if value.shape[i] != 1 else (1,) for i, lengths in enumerate(x.chunks)]
    cut[at] = (value.shape[at],)
    given: TensorData = rechunked(value.data, tuple(cut))
    return _with_operand(x, SetPositions(positions, at, inputs=(x.data, given)))


def _with_operand(x: Tensor, op: Operand) -> Tensor:
    return Tensor(new_data(op, x.shape, x.dtype, x.chunks))


def is_exchanged(positions: Any, value: Tensor | None) -> bool:
    """Whether positions and values are too many to go to each operand that writes some of them."""
    values = 0 if value is None else value.size * value.dtype.itemsize
    return isinstance(positions, Tensor) or len(positions) > MANY or values > chunk_bytes()


def apply_at(x: Tensor, positions: Any, value: Tensor | None, function: np.ufunc) -> Tensor:
    """Applies a ufunc at positions along the first axis, repeatedly for repeated positions."""
    if is_exchanged(positions, value):
        return scatter_by_tensor(x, as_tensor(positions), 0, value, function.__name__)
    if value is None:
        return _with_operand(x, SetPositions(positions, 0, function.__name__, inputs=(x.data,)))
    given = rechunked(value.data, (value.shape[:1], *x.chunks[1:]))
    return _with_operand(x, SetPositions(positions, 0, function.__name__, inputs=(x.data, given)))


@dataclass(frozen=True, eq=False)
class SetPositions(Operand):
    """Replaces elements at positions along an axis, or applies a ufunc there.

    The second input, the values, is a single chunk along that axis.
    """

    positions: NDArray[np.int64]
    axis: int
    function: str | None = None  # a ufunc of one argument has no second input
    name: ClassVar[str] = "setitem"
    reads_all: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The function that the user called."""
        return f"{self.function}.at" if self.function else self.name

    def token(self) -> Hashable:
        """Identifies the operand by axis, function and positions."""
        return ("set positions", self.axis, self.function, self.positions.tobytes())

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk that holds a written element."""
        target, *values = inputs
        axis = self.axis
        ids = np.moveaxis(target.ids.copy(), axis, 0)
        grid = tuple(1 if i == axis else n for i, n in enumerate(output.grid))
        given = [np.broadcast_to(value.ids, grid).reshape(-1) for value in values]
        kinds, which = chunk_classes([s for i, s in enumerate(output.chunks) if i != axis])
        broad = [[own == (1,) for own in value.splits] for value in values]
        for at, there, here in positions_in_chunks(self.positions, output.chunks[axis]):
            length = output.chunks[axis][at]

            def program(k: int, length: int = length) -> Program:
                shape = (*kinds[k][:axis], length, *kinds[k][axis:])
                types = [chunk := ChunkType(shape, target.dtype)]
                for value, wide in zip(values, broad):
                    own = tuple(1 if b else n for n, b in zip(shape, wide))
                    types.append(ChunkType((*own[:axis], value.splits[axis][0], *own[axis + 1 :]), value.dtype))
                work = types[-1].nbytes
                step = Call(scatter, (axis, self.function), tuple(range(len(types))), chunk, True, work)
                return single(self.label, types, step)

            pairs = np.stack([ids[at].reshape(-1), *given], axis=1)
            made = add_by_class(builder, program, which.reshape(-1), pairs, [((there, here),)] * len(pairs))
            ids[at] = made.reshape(ids[at].shape)
        return np.moveaxis(ids, 0, axis)


def scatter(out: Array, inputs: Sequence[Array], params: tuple[int, str | None], arg: tuple[bytes, bytes]) -> None:
    """Copies a chunk and writes elements `there` of the value to positions `here`, or applies a ufunc to both."""
    axis, function = params
    np.copyto(out, inputs[0])
    there, here = (np.frombuffer(a, np.int64) for a in arg)
    target = np.moveaxis(out, axis, 0)
    values = [np.moveaxis(x, axis, 0) for x in inputs[1:]]
    some = [value if value.shape[0] == 1 else value[there] for value in values]
    if function is None:
        target[here] = some[0]
    else:
        getattr(np, function).at(target, here, *some)
