"""Filters and morphology of `scipy.ndimage`: SciPy's own functions on chunks with their neighbours.

`REACH` has a row per function: how far, along each axis, an element of the result looks. A chunk gets so many elements
of its neighbours, SciPy filters the block, and the border is cut off. Beyond the ends of the array there is no border:
there SciPy itself extends the block by `mode`. Only "wrap" needs elements of the opposite end. So every result has
SciPy's bits, except those of NaN in `minimum_filter`, `maximum_filter` and `grey_…`, which depend in SciPy on the begin
of the line. `generic_filter1d` works on whole lines. SciPy's uniform filter of floating point numbers keeps a running
sum from the begin of a line, with rounding errors that go on to the end: so each chunk begins with the last sum of the
chunk before (`RunningSums`).

A call on an array of one element first gives dtype and errors. What depends on elements at any distance, as
`binary_fill_holes`, runs on the value (from_array.py warns where it is large).
Source: SciPy 1.17 `ndimage/_filters.py`, `_morphology.py`; dask-image `ndfilters`.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.apply import add_halos, halo_widths, no_shorter
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, rechunked
from jmars.tensor.ops.map_blocks import map_along, map_blocks
from jmars.tensor.ops.shape import normal_axis
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
Arguments = dict[str, Any]  # of a call, by SciPy's names, with "ndim" of the input
Reach = Callable[[Arguments], list[int] | None]  # elements along each axis; None: any number


def _each(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value] * count


def _axes(given: Arguments) -> list[int]:
    axes = given.get("axes")
    return list(range(given["ndim"])) if axes is None else [normal_axis(one, given["ndim"]) for one in _each(axes, 1)]


def _by_axis(given: Arguments, reaches: Sequence[int]) -> list[int]:
    found = [0] * given["ndim"]
    for axis, reach in zip(_axes(given), reaches):
        found[axis] = reach
    return found


def _halves(given: Arguments, lengths: Any, origin: Any = 0) -> list[int]:
    """Reach of a window of `lengths`."""
    axes = _axes(given)
    sizes, origins = _each(lengths, len(axes)), _each(origin or 0, len(axes))
    return _by_axis(given, [int(n) // 2 + abs(int(at)) for n, at in zip(sizes, origins)])


def window(times: int = 1) -> Reach:
    """Reach of `times` filters one after the other with the window `size`, `footprint`, `structure` or `weights`."""

    def reach(given: Arguments) -> list[int] | None:
        iterations = operator.index(given.get("iterations", 1))
        if iterations < 1 or given.get("mode") == "valid":
            return None
        arrays = [given[name] for name in ("footprint", "structure", "weights") if given.get(name) is not None]
        windows = [np.shape(one) for one in arrays] or [given.get("size", 3)]
        halves = [_halves(given, one, given["origin"]) for one in windows]
        return [times * iterations * max(of_axis) for of_axis in zip(*halves)]

    return reach


def _line(given: Arguments) -> list[int]:
    size = np.size(given["weights"]) if "weights" in given else given["size"]
    return _halves(given | {"axes": given["axis"]}, size, given["origin"])


def _gaussian(given: Arguments) -> list[int]:
    axes = [given["axis"]] if "axis" in given else _axes(given)
    sigmas, radii = _each(given["sigma"], len(axes)), _each(given.get("radius"), len(axes))
    truncate = float(given.get("truncate", 4.0))
    reaches = [int(truncate * float(sigma) + 0.5) if radius is None else int(radius)
               for sigma, radius in zip(sigmas, radii)]  # fmt: skip
    return _by_axis(given | {"axes": axes}, reaches)


def _two_structures(given: Arguments) -> list[int]:
    origins = [given["origin1"], given["origin1"] if given["origin2"] is None else given["origin2"]]
    shapes = [3 if one is None else np.shape(one) for one in (given["structure1"], given["structure2"])]
    shapes[1] = shapes[0] if given["structure2"] is None else shapes[1]
    return list(map(max, *(_halves(given, shape, origin) for shape, origin in zip(shapes, origins))))


def _next(given: Arguments) -> list[int]:
    return [1] * given["ndim"]


REACH: dict[str, Reach] = {
    **dict.fromkeys(["correlate1d", "convolve1d", "minimum_filter1d", "maximum_filter1d", "uniform_filter1d"], _line),
    **dict.fromkeys(["gaussian_filter1d", "gaussian_filter", "gaussian_laplace", "gaussian_gradient_magnitude"],
                    _gaussian),
    **dict.fromkeys(["sobel", "prewitt", "laplace"], _next),
    **dict.fromkeys(["correlate", "convolve", "minimum_filter", "maximum_filter", "median_filter", "rank_filter",
                     "percentile_filter", "generic_filter", "vectorized_filter", "grey_erosion", "grey_dilation",
                     "morphological_gradient", "morphological_laplace", "binary_erosion", "binary_dilation"],
                    window()),
    **dict.fromkeys(["grey_opening", "grey_closing", "white_tophat", "black_tophat", "binary_opening",
                     "binary_closing"], window(2)),
    "binary_hit_or_miss": _two_structures,
}  # fmt: skip
_ALL_MODES = ("gaussian_laplace", "gaussian_gradient_magnitude")
_WRAP = ("wrap", "grid-wrap")
_BY_LINES = ("generic_filter1d", "uniform_filter1d")


def _filter(name: str) -> Callable[..., Any]:
    theirs = getattr(ndimage, name)
    signature = inspect.signature(theirs)

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        given |= given.pop("kwargs", {})
        x, output = as_tensor(given.pop("input")), given.get("output")
        if isinstance(output, Tensor | np.ndarray):
            if output.shape != x.shape:
                raise RuntimeError("output shape not correct")  # SciPy's words
            output[...] = _filtered(name, x, given | {"output": output.dtype})
            return output
        return _filtered(name, x, given)

    function.__signature__ = signature  # type: ignore[attr-defined]
    return offers(f"ndimage.{name}", does=f"`scipy.ndimage.{name}`, of chunks with their neighbours.")(function)


def _filtered(name: str, x: Tensor, given: Arguments) -> Tensor:
    mask = given.pop("mask", None)
    given = as_values(given)
    masks = {} if mask is None else {"mask": as_tensor(mask)}
    if mask is not None and masks["mask"].shape != x.shape:
        raise RuntimeError("mask and input must have equal sizes")  # SciPy's words
    dtype = _sample(name, x, given, masks)
    if name in _BY_LINES and not _is_exact(name, x, given):
        axis = normal_axis(given["axis"], x.ndim)
        if name == "uniform_filter1d" and x.dtype.kind in "biuf" and dtype.kind == "f" and len(x.chunks[axis]) > 1:
            return _uniform(x, axis, given).astype(dtype)
        return map_along(name, _lines, x, [axis], dtype=dtype, of=name, given=given)
    reach = REACH[name](given | {"ndim": x.ndim}) if x.size and x.ndim else None
    modes = _each(given.get("mode"), x.ndim)
    ends = [mode in _WRAP for mode in modes]
    if name in _ALL_MODES and any(ends) and not all(ends):
        reach = None  # each axis is filtered with the modes of all
    if reach is None:
        return as_tensor(_called(name, [as_values(x)], {**given, **as_values(masks)}))
    axes = {"axes": given["axis"]} if name.endswith("1d") else {}
    wraps = dict(zip(_axes(given | {"ndim": x.ndim} | axes), ends))
    chunks = tuple(map(no_shorter, x.chunks, reach))
    depths = tuple(n if len(cut) > 1 else 0 for n, cut in zip(reach, chunks))
    edges = tuple("periodic" if wraps.get(axis) else "none" for axis in range(x.ndim))
    blocks = [Tensor(rechunked(one.data, chunks)) for one in (x, *masks.values())]
    around = halo_widths(blocks[0], depths, edges)
    if any(depths):
        blocks = [add_halos(one, depths, edges) for one in blocks]
    return map_blocks(_block, *blocks, dtype=dtype, chunks=chunks, name=name, of=name, given=given, around=around)


def _sample(name: str, x: Tensor, given: Arguments, masks: Arguments) -> np.dtype[Any]:
    """The dtype of the result, by a call on one element, which raises SciPy's errors for arguments."""
    options = given | {key: np.zeros((1,) * x.ndim, one.dtype) for key, one in masks.items()}
    if name.startswith("generic_"):
        options |= {"function": lambda *args, **kwargs: 0}
    with np.errstate(all="ignore"):
        return np.asarray(getattr(ndimage, name)(np.zeros((1,) * x.ndim, x.dtype), **options)).dtype


def _is_exact(name: str, x: Tensor, given: Arguments) -> bool:
    """Whether the sums of a uniform filter have no rounding errors, so that they may begin anywhere."""
    constant = float(given["cval"]) if given["mode"] in ("constant", "grid-constant") else 0.0
    integers = x.dtype.kind == "b" or (x.dtype.kind in "iu" and x.dtype.itemsize <= 4)
    return name == "uniform_filter1d" and integers and constant.is_integer() and abs(constant) < 2**32


for _name in ("generic_filter1d", *REACH):
    if hasattr(ndimage, _name):  # vectorized_filter from SciPy 1.16 on
        _filter(_name)


@offers("ndimage.uniform_filter")
def uniform_filter(input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
                   origin: Any = 0, *, axes: Any = None) -> Any:  # fmt: skip
    """`scipy.ndimage.uniform_filter`, along one axis after the other."""
    x = as_tensor(input)
    if isinstance(output, Tensor | np.ndarray):
        if output.shape != x.shape:
            raise RuntimeError("output shape not correct")  # SciPy's words
        output[...] = uniform_filter(x, size, output.dtype, mode, cval, origin, axes=axes)
        return output
    given = as_values({"size": size, "output": output, "mode": mode, "cval": cval, "origin": origin, "axes": axes})
    dtype = _sample("uniform_filter", x, given, {})
    axes = _axes(given | {"ndim": x.ndim})
    each = (axes, *(_each(given[name], len(axes)) for name in ("size", "origin", "mode")))
    for axis, n, at, edge in zip(*each):
        if n > 1:
            x = call("ndimage.uniform_filter1d", x, int(n), axis, dtype, edge, cval, at)
    return x if x.dtype == dtype else x.astype(dtype)


def _uniform(x: Tensor, axis: int, given: Arguments) -> Tensor:
    """The uniform filter along an axis of several chunks, in double precision."""
    size, mode = int(given["size"]), given["mode"]
    before = size // 2 + int(given["origin"])
    depth = max(before + 1, size - 1 - before)
    chunks = tuple(no_shorter(cut, depth) if i == axis else cut for i, cut in enumerate(x.chunks))
    depths = tuple(depth if i == axis and len(cut) > 1 else 0 for i, cut in enumerate(chunks))
    edges = tuple("periodic" if mode in _WRAP else "none" for _ in chunks)
    block = Tensor(rechunked(x.data, chunks))
    around = tuple(halo_widths(block, depths, edges)[axis])
    if depths[axis]:
        block = add_halos(block, depths, edges)
    window = (size, before, axis, mode, float(given["cval"]))
    sums = RunningSums(window, around, inputs=(block.data,))
    found: Tensor = Tensor(new_data(sums, x.shape, np.dtype(np.float64), chunks)) / float(size)
    return found


@dataclass(frozen=True, eq=False)
class RunningSums(Operand):
    """Sums of the elements in each window along an axis, one from the sum before, by chunks with their neighbours."""

    window: tuple[int, int, int, str, float]  # size, elements before, axis, mode and `cval` of SciPy
    around: tuple[tuple[int, int], ...]  # elements of the neighbours in each chunk along the axis
    name: ClassVar[str] = "uniform_filter1d"

    def token(self) -> Hashable:
        """Identifies the operand by its parameters."""
        return ("running sums", self.window, self.around)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add an operand per chunk, which reads the block and the sums of the chunk before."""
        (source,), axis, lengths = inputs, self.window[2], output.chunks[self.window[2]]
        kinds, which = chunk_classes([cut for i, cut in enumerate(output.chunks) if i != axis])
        ids = np.moveaxis(source.ids, axis, 0).reshape(len(lengths), -1)
        rows: list[NDArray[np.int64]] = []
        for at in range(len(lengths)):

            def program(k: int, at: int = at) -> Program:
                def chunk(n: int, dtype: np.dtype[Any]) -> ChunkType:
                    return ChunkType((*kinds[k][:axis], n, *kinds[k][axis:]), dtype)

                types = [chunk(lengths[at] + sum(self.around[at]), source.dtype)]
                types += [chunk(lengths[at - 1], output.dtype)] * (at > 0)
                out, slots = chunk(lengths[at], output.dtype), tuple(range(len(types)))
                step = Call(running_sums, (self.window, self.around[at]), slots, out, work=2 * out.nbytes)
                return single(self.name, types, step)

            rows.append(add_by_class(builder, program, which.reshape(-1), np.stack([ids[at], *rows[-1:]], axis=1)))
        grid = [n for i, n in enumerate(output.grid) if i != axis]
        return np.moveaxis(np.stack(rows).reshape(len(lengths), *grid), 0, axis)


# -- what executors run


def running_sums(out: Array, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> None:
    """Fill a chunk with sums of windows; the second input, if given, has the sums of the chunk before."""
    (size, before, axis, mode, cval), (low, high) = params
    block, sums = np.moveaxis(inputs[0], axis, 0), np.moveaxis(out, axis, 0)
    first, after = len(inputs) == 1, size - 1 - before
    low, high = low - before - (not first) if low else -before, high - after if high else -after
    block = block[max(low, 0) : len(block) - max(high, 0)]
    if low < 0 or high < 0:
        ends = [(max(-low, 0), max(-high, 0)), *[(0, 0)] * (block.ndim - 1)]
        fill: Any = {"constant_values": cval} if "constant" in mode else {}
        block = np.pad(block.astype(out.dtype, copy=False), ends, _PADS[mode], **fill)
    np.subtract(block[size:], block[:-size], out=sums[1 if first else 0 :], dtype=out.dtype)
    if first:
        sums[0] = 0.0
        for row in block[:size]:
            sums[0] += row
    else:
        sums[0] += np.moveaxis(inputs[1], axis, 0)[-1]
    np.add.accumulate(sums, axis=0, out=sums)


# names of `np.pad` for SciPy's modes; blocks have the elements of the other end for "wrap", if not alone on their axis
_PADS: dict[str, Any] = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "nearest": "edge",
    "mirror": "reflect",
    "wrap": "wrap",
}
_PADS |= {"grid-wrap": "wrap", "constant": "constant", "grid-constant": "constant"}


def _called(name: str, arrays: Sequence[Array], given: Arguments) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the sample has told those on arguments
        found: Array = getattr(ndimage, name)(*arrays, **given)
    return found


def _lines(block: Array, of: str, given: Arguments) -> Array:
    return _called(of, [block], given)


def _block(block: Array, *masks: Array, of: str, given: Arguments, around: list[list[tuple[int, int]]],
           block_id: tuple[int, ...]) -> Array:  # fmt: skip
    """Filters a block, and cuts off the elements of the neighbours."""
    options = given | {"mask": masks[0]} if masks else given
    found = _called(of, [block], options)
    cut = [slice(low, n - high) for n, (low, high) in zip(found.shape, (w[k] for w, k in zip(around, block_id)))]
    return found[tuple(cut)]
