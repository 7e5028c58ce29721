"""`np.fft`: Fourier transforms, axis by axis; the current axis is brought into a single chunk.

A transform over several axes rechunks for an axis at a time, in NumPy's order, so that no process holds the whole array
and values equal NumPy's. NumPy writes the result to the chunk.

A line beyond a process's memory is transformed as a matrix: the columns, a rotation of all elements, the rows; of a
length without divisors as a convolution.
Source: Bailey, FFTs in external or hierarchical memory, J. Supercomputing 4 (1990), "The four-step FFT algorithm".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Call, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import Operand, TensorMeta, axis_length, new_data
from jmars.tensor.ops.arguments import write_out
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, chunk_type, length_kind
from jmars.tensor.ops.constants import check_device
from jmars.tensor.ops.create import arange
from jmars.tensor.ops.formula import Formula
from jmars.tensor.ops.map_blocks import single_chunk_along
from jmars.tensor.ops.shape import concatenate, normal_axis
from jmars.tensor.ops.ufuncs import astype
from jmars.tensor.parts import Part, PartOf, along
from jmars.tensor.protocols import FUNCTIONS, offers
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
_HALVED = {"rfft": True, "ihfft": True}  # transforms with a result half as long
_DOUBLED = {"irfft": True, "hfft": True}
_TRANSFORMS = {name: getattr(np.fft, name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")}


def _transform_axis(
    name: str, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None
) -> Any:
    """Transforms an axis by NumPy's function `name`.

    Raises
    ------
    ValueError
        If `n` is below 1 or `norm` is unknown.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> _transform_axis("fft", ones((2, 4), chunk_size=2)).fetch().real.tolist()
    [[4.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 0.0]]
    """
    x = as_tensor(a)
    if not x.ndim:
        raise IndexError("a transform needs an array of one axis or more; a number has none")
    axis = normal_axis(axis, x.ndim)
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    there = x.shape[axis]
    length = operator.index(n) if n is not None else 2 * (there - 1) if name in _DOUBLED else there
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
    gives = length // 2 + 1 if name in _HALVED else length
    dtype = _TRANSFORMS[name](np.ones(2, x.dtype)).dtype
    if length > 3 and _is_long(name, length, there * x.dtype.itemsize, gives * dtype.itemsize):
        return _written(_long_transform(name, x, length, axis, norm, dtype), name, out, "same_kind")
    x = single_chunk_along(x, [axis])
    chunks = tuple((gives,) if i == axis else cut for i, cut in enumerate(x.data.chunks))
    op = FourierTransform(name, length, axis, norm, inputs=(x.data,))
    result = Tensor(new_data(op, tuple(map(axis_length, chunks)), dtype, chunks))
    return _written(result, name, out, "same_kind")


def _is_long(name: str, n: int, before: float, after: float) -> bool:
    """Whether a line and its transform, of these bytes, are too large for a process; an unknown length, NaN, is not."""
    engine = current_engine()
    return engine is not None and 2 * before + after + _scratch(name, n, after / n) > engine.limits()[0] * 3 / 4


def _scratch(name: str, n: int, size: float) -> int:
    """Bytes that NumPy takes beside a line and its transform; most for a length with a large prime factor.

    NumPy transforms such a line as a line of twice the length (Bluestein's algorithm). Measured with NumPy 2.4.
    """
    times = 2 if _largest_prime(n) < 64 else 9
    return int(times * n * (size if name in ("fft", "ifft") else size / 2))


@lru_cache(1000)
def _largest_prime(n: int) -> int:
    """The largest prime factor of `n`; 1 of 1."""
    found, factor = 1, 2
    while factor * factor <= n:
        if n % factor:
            factor += 1
        else:
            found, n = factor, n // factor
    return max(found, n)


def _divisor(n: int) -> int:
    """The largest divisor of `n` that is at most its root."""
    return next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)


def _long_transform(name: str, x: Tensor, n: int, axis: int, norm: str | None, dtype: Any) -> Tensor:
    """Transforms lines of `n` elements that are too long for a process."""
    inverse, there = name in ("ifft", "irfft", "ihfft"), n // 2 + 1 if name in _DOUBLED else n
    real = _TRANSFORMS["fft"](np.ones(2, x.dtype)).real.dtype
    x = astype(x, np.result_type(x.dtype, real), copy=False)  # of small integers and bools too
    x = _of_length(FUNCTIONS["moveaxis"](x, axis, -1), there)
    if name in _DOUBLED:  # the other half of the frequencies are conjugates
        x = concatenate([x, FUNCTIONS["conj"](x[..., n - there : 0 : -1])], axis=-1)
    rows = n // _divisor(n)
    is_whole = rows > 4 * _divisor(n) and _is_long("fft", rows, 16 * rows, 16 * rows)
    x = _chirped(x, inverse) if is_whole else _as_matrix(x, inverse, name in _HALVED)
    power = {"backward": float(inverse), "ortho": 0.5, "forward": float(not inverse)}[norm or "backward"]
    if power:
        x = x * np.asarray(n**-power, real)
    x = x.real if name in _DOUBLED else x[..., : n // 2 + 1] if name in _HALVED else x
    return astype(FUNCTIONS["moveaxis"](x, -1, axis), dtype, copy=False)


def _of_length(x: Tensor, n: int) -> Tensor:
    """Cuts the last axis, or lengthens it by zeros."""
    if x.shape[-1] < n:
        x = FUNCTIONS["pad"](x, [(0, 0)] * (x.ndim - 1) + [(0, n - x.shape[-1])])
    return x[..., :n]  # type: ignore[no-any-return]


def _as_matrix(x: Tensor, inverse: bool, half: bool) -> Tensor:
    """The transform, without a factor, of all lines as matrices, axis by axis.

    Of real lines half of the rows are transformed, since the other rows are their conjugates. With `half`, the second
    half of the result may be missing.
    """
    n, swap = x.shape[-1], FUNCTIONS["swapaxes"]
    columns = _divisor(n)
    rows, is_real = n // columns, x.dtype.kind != "c"
    part, scaled = ("ifft", "forward") if inverse and not is_real else ("fft", "backward")  # without NumPy's factor
    x = x.reshape((*x.shape[:-1], rows, columns))
    x = _transform_axis("rfft" if is_real else part, x, None, -2, scaled)
    x = _transform_axis(part, _turned(x, n, part == "ifft"), None, -1, scaled)
    if is_real:
        kept = columns // 2 + 1 if half else columns
        rest = FUNCTIONS["conj"](x[..., (rows - 1) // 2 : 0 : -1, ::-1])
        x = concatenate([x[..., :kept], rest[..., :kept]], axis=-2)
        x = FUNCTIONS["conj"](x) if inverse else x
    return swap(x, -1, -2).reshape((*x.shape[:-2], rows * x.shape[-1]))  # type: ignore[no-any-return]


def _turned(x: Tensor, n: int, inverse: bool) -> Tensor:
    """Elements multiplied by the root of unity of row times column."""
    formula = Formula("fft")
    rows, columns = (formula.read(at) for at in (arange(x.shape[-2])[:, None], arange(x.shape[-1])))
    turns = formula.apply("multiply", rows, columns)
    turns = formula.apply("multiply", turns, formula.read((2j if inverse else -2j) * np.pi / n))
    turns = formula.cast(formula.apply("exp", turns), x.dtype)
    return formula.tensor(formula.apply("multiply", formula.read(x), turns))


def _chirped(x: Tensor, inverse: bool) -> Tensor:
    """The transform, without a factor, of lines of a length without divisors, as a convolution of twice the length.

    Source: Bluestein, A linear filtering approach to the computation of the DFT, IEEE Trans. Audio 18 (1970).
    """
    n = x.shape[-1]
    size = 1 << (2 * n - 2).bit_length()
    k = arange(n)
    turns = FUNCTIONS["exp"]((k * k % (2 * n)) * ((1j if inverse else -1j) * np.pi / n))
    back = FUNCTIONS["conj"](turns)
    around = concatenate([_of_length(back, size - n + 1), back[:0:-1]])
    found = fft(_of_length(x * turns, size)) * fft(around)
    return astype(turns * ifft(found)[..., :n], np.result_type(x.dtype, np.complex64))


@dataclass(frozen=True, eq=False)
class FourierTransform(Operand):
    """Transforms an axis in a single chunk by a function of `np.fft`."""

    function: str
    n: int  # points
    axis: int
    norm: str | None
    name: ClassVar[str] = "fft"

    def __post_init__(self) -> None:
        if self.function not in _TRANSFORMS:
            raise ValueError(f"np.fft has no transform {self.function!r}")

    @property
    def label(self) -> str:
        """The function of NumPy."""
        return self.function

    def token(self) -> Hashable:
        """Identifies the operand by function and arguments."""
        return ("fft", self.function, self.n, self.axis, self.norm)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Some of the lines."""
        if len(kept[self.axis]) < output.shape[self.axis]:
            return None
        return PartOf(self, [(0, along(kept, [self.axis], inputs[0]))])

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The lines whole."""
        return along(kept, [self.axis], output)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per chunk."""
        (x,) = inputs
        pairs = zip(x.splits, output.chunks, strict=True)
        kinds, which = chunk_classes([[(length_kind(n), length_kind(m)) for n, m in zip(*pair)] for pair in pairs])

        def program(k: int) -> Program:
            before, after = (chunk_type(lengths, d) for lengths, d in zip(zip(*kinds[k]), (x.dtype, output.dtype)))
            params = (self.function, self.n, self.axis, self.norm)
            work = before.nbytes + _scratch(self.function, self.n, output.dtype.itemsize)  # `hfft` takes conjugates
            return single(
                self.function, (before,), Call(transform_block, params, (0,), after, work=work, by_rows=self.axis > 0)
            )

        return add_by_class(builder, program, which.reshape(-1), x.ids.reshape(-1, 1)).reshape(output.grid)


def transform_block(
    out: Array | None, inputs: Sequence[Array], params: tuple[str, int, int, str | None], arg: Any
) -> Array:
    """Transforms a chunk; NumPy writes to `out` where given."""
    name, n, axis, norm = params
    found: Array = _TRANSFORMS[name](inputs[0], n, axis, norm, out=out)
    if out is not None and found is not out:  # NumPy's `hfft` ignores `out`
        np.copyto(out, found)
    return found


fft, ifft, *_others = (
    offers(f"fft.{_name}", does=f"`np.fft.{_name}`: {_does}, along an axis, brought into a single chunk.")(
        partial(_transform_axis, _name)
    )
    for _name, _does in {
        "fft": "Fourier transform",
        "ifft": "inverse of `fft`",
        "rfft": "transform of real values, of which the nonnegative frequencies are returned",
        "irfft": "inverse of `rfft`",
        "hfft": "transform of a signal with Hermitian symmetry",
        "ihfft": "inverse of `hfft`",
    }.items()
)


def _written(result: Tensor, name: str, out: Any, casting: Any, is_read: bool = False) -> Any:
    """The result, or `out` after the write; as of a ufunc, `out` may be a tuple of an array.

    With `is_read`, NumPy transforms `out` again, along the other axes.
    """
    there = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if there is not None and not isinstance(there, Tensor | np.ndarray):
        raise TypeError("return arrays must be of ArrayType")  # NumPy's words
    if there is not None and there.shape != result.shape:
        raise ValueError(f"output array has wrong shape, {there.shape}; the result has {result.shape}")
    if there is not None and is_read:
        np.fft.fft(np.zeros(1, there.dtype))  # raises NumPy's errors
    return write_out(result, name, there, casting)


@offers("fft.fftfreq")
def fftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Tensor:
    """`np.fft.fftfreq`: frequencies of the elements of `fft`; `dtype` as in the array API standard, or float64."""
    check_device(device)
    n, half = _check_count(n), (_check_count(n) - 1) // 2 + 1
    if n < 0:
        raise ValueError("negative dimensions are not allowed")
    at = arange(n)
    found: Tensor = FUNCTIONS["where"](at < half, at, at - n) * (1.0 / (n * d))
    return found if dtype is None else astype(found, dtype)


@offers("fft.rfftfreq")
def rfftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Tensor:
    """`np.fft.rfftfreq`: frequencies of the elements of `rfft`; `dtype` as in `fftfreq`."""
    check_device(device)
    n = _check_count(n)
    found: Tensor = arange(n // 2 + 1) * (1.0 / (n * d))
    return found if dtype is None else astype(found, dtype)


def _check_count(n: Any) -> int:
    if not isinstance(n, int | np.integer):
        raise ValueError("n should be an integer")
    return int(n)


def _over_two_axes(
    name: str, a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None
) -> Any:
    """Inverses over two axes; NumPy's code forgets `out`."""
    return FUNCTIONS[f"fft.{name.replace('2', 'n')}"](a, s, axes, norm, out)


offers("fft.ifft2", does="`np.fft.ifft2`: `ifftn` over two axes.")(partial(_over_two_axes, "ifft2"))
offers("fft.irfft2", does="`np.fft.irfft2`: `irfftn` over two axes.")(partial(_over_two_axes, "irfft2"))
