"""Norms, ranks and condition numbers of matrices, chained products, eigenvalues of general matrices."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.tensor.ops.elementwise.ufuncs import astype, native, ufunc
from jmars.tensor.ops.linalg.core_axes import takes_core_axes
from jmars.tensor.ops.linalg.decompositions import EigResult, norm_condition, svd
from jmars.tensor.ops.linalg.matrix_products import matmul, write_product
from jmars.tensor.ops.out_argument import assign_core_out
from jmars.tensor.ops.reduce.reduction import all_, max_, min_, sum_
from jmars.tensor.ops.reduce.trial import trial
from jmars.tensor.ops.shape.axes import expand_dims, moveaxis
from jmars.tensor.ops.shape.reshape import ravel, reshape
from jmars.tensor.protocols import FUNCTIONS, offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["cond", "eig", "eigvals", "matrix_norm", "matrix_rank", "multi_dot", "norm", "vector_norm"]

Array = np.ndarray[Any, Any]


@offers("matvec")
@takes_core_axes
def matvec(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """`np.matvec`: matrices times vectors."""
    kind = trial("matvec", x1, x2, dtype=dtype, casting=casting)
    product = matmul(as_tensor(x1), as_tensor(x2)[..., None], dtype=kind)
    return assign_core_out(Tensor(product[..., 0].data), out, "matvec", 1, casting)


@offers("vecmat")
@takes_core_axes
def vecmat(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """`np.vecmat`: conjugated vectors times matrices."""
    kind = trial("vecmat", x1, x2, dtype=dtype, casting=casting)
    x = as_tensor(x1)
    product = matmul((x.conj() if x.dtype.kind == "c" else x)[..., None, :], as_tensor(x2), dtype=kind)
    return assign_core_out(Tensor(product[..., 0, :].data), out, "vecmat", 1, casting)


@offers("linalg.multi_dot")
def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    """`np.linalg.multi_dot`: product of several matrices, in the order of least cost."""
    tensors = [as_tensor(x) for x in arrays]
    if len(tensors) < 2:
        raise ValueError("Expecting at least two arrays.")
    if len(tensors) == 2:
        return FUNCTIONS["dot"](*arrays, out=out)  # which reads an empty list in the dtype of the other array
    ends = (0, len(tensors) - 1)
    if wrong := [x.ndim for k, x in enumerate(tensors) if x.ndim != 2 and (x.ndim != 1 or k not in ends)]:
        raise np.linalg.LinAlgError(f"{wrong[0]}-dimensional array given. Array must be two-dimensional")
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    tensors[0] = tensors[0][None] if first else tensors[0]
    tensors[-1] = tensors[-1][:, None] if last else tensors[-1]
    sizes = [x.shape[0] for x in tensors] + [tensors[-1].shape[1]]
    value = _chain_product(tensors, 0, len(tensors) - 1, _optimal_splits(tuple(sizes)))
    value = value[0] if first else value
    value = Tensor((value[..., 0] if last else value).data)
    return write_product("multi_dot", value, out)


@functools.lru_cache(maxsize=64)
def _optimal_splits(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Optimal splits of the products of matrices i..j, by dynamic programming; `sizes` are n + 1 dimensions."""
    n = len(sizes) - 1
    cost, split = {(i, i): 0 for i in range(n)}, {}
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            ways = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i, j] = min(ways)
            split[i, j] = i + ways.index(cost[i, j])
    return split


def _chain_product(x: list[Tensor], i: int, j: int, split: dict[tuple[int, int], int]) -> Tensor:
    if i == j:
        return x[i]
    k = split[i, j]
    product: Tensor = matmul(_chain_product(x, i, k, split), _chain_product(x, k + 1, j, split))
    return product


@offers("linalg.vector_norm")
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """`np.linalg.vector_norm`: norm of the flattened array, or along axes."""
    data, keepdims = native(x), bool(keepdims)
    size = ufunc("absolute")(data if data.dtype.kind in "fc" else astype(data, float))
    if axis is None and not keepdims:
        size, axis = ravel(size), 0
    elif axis is not None:
        axis = np.lib.array_utils.normalize_axis_tuple(axis, data.ndim)
    if ord == np.inf:
        return max_(size, axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return min_(size, axis, keepdims=keepdims)
    if ord == 0:
        return sum_(astype(size != 0, size.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return sum_(size, axis, keepdims=keepdims)
    if ord in (None, 2):
        return ufunc("sqrt")(sum_(size * size, axis, keepdims=keepdims))
    # NumPy computes both powers in place: an order of another dtype does not widen the norm
    total = sum_(astype(size**ord, size.dtype, casting="same_kind"), axis, keepdims=keepdims)
    return astype(total ** np.reciprocal(ord, dtype=total.dtype), total.dtype)


@offers("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """`np.linalg.matrix_norm`: norm of each matrix of a stack."""
    data, keepdims = native(x), bool(keepdims)
    size = ufunc("absolute")(data if data.dtype.kind in "fc" else astype(data, float))
    if ord in (None, "fro", "f"):
        return ufunc("sqrt")(sum_(size * size, (-2, -1), keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        lines = sum_(size, -2 if abs(ord) == 1 else -1, keepdims=True)
        return _extreme(lines, (-2, -1), ord > 0, keepdims)
    if ord in (2, -2, "nuc"):
        values = svd(data, compute_uv=False)
        found = sum_(values, -1) if ord == "nuc" else _extreme(values, -1, ord == 2)
        return expand_dims(found, (-2, -1)) if keepdims else found
    raise ValueError("Invalid norm order for matrices.")


def _extreme(values: Tensor, axis: Any, largest: bool, keepdims: bool = False) -> Any:
    """Largest, of no values 0, or smallest."""
    return max_(values, axis, keepdims=keepdims, initial=0) if largest else min_(values, axis, keepdims=keepdims)


@offers("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`np.linalg.norm`: vector norm along one axis, matrix norm along two; without `ord` and `axis` of all elements."""
    data = native(x)
    trial("linalg.norm", data, ord=ord, axis=axis, keepdims=keepdims)
    if axis is None and (ord is None or (ord in ("f", "fro") and data.ndim == 2) or (ord == 2 and data.ndim == 1)):
        return _root_of_dot(data, keepdims)
    axis = tuple(range(data.ndim)) if axis is None else axis if isinstance(axis, tuple) else int(axis)
    axes = np.lib.array_utils.normalize_axis_tuple(axis, data.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors")
        return vector_norm(data, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(
            f"Improper number of dimensions to norm: {len(axes)}; give axis=, one of vectors, two of matrices"
        )
    found = matrix_norm(moveaxis(data, axes, (-2, -1)), ord=ord)
    return expand_dims(found, axes) if keepdims else found


def _root_of_dot(data: Tensor, keepdims: bool) -> Tensor:
    """Root of the product of all elements with themselves, which NumPy takes of parts of complex elements apart."""
    flat = ravel(data if data.dtype.kind in "fc" else astype(data, float))
    parts = [flat.real, flat.imag] if flat.dtype.kind == "c" else [flat]
    root: Tensor = ufunc("sqrt")(functools.reduce(ufunc("add"), [FUNCTIONS["dot"](one, one) for one in parts]))
    return reshape(root, (1,) * data.ndim) if keepdims else root


@offers("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    """`np.linalg.cond`: condition numbers of matrices."""
    if p not in (None, 2, -2):
        return norm_condition(x, p)
    data = native(x)
    values = svd(data, compute_uv=False)
    first, last = values[..., 0], values[..., -1]
    found = last / first if p == -2 else first / last
    unknown = ufunc("isnan")(data).any(axis=(-2, -1))
    return Tensor(FUNCTIONS["where"](ufunc("isnan")(found) & ~unknown, np.inf, found).astype(found.dtype).data)


@offers("linalg.matrix_rank")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """`np.linalg.matrix_rank`: number of singular values above a tolerance, for each matrix."""
    data = native(A)
    if tol is not None and rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    if data.ndim < 2:
        return FUNCTIONS["astype"](ufunc("logical_not")(all_(data == 0)), int)
    values = svd(data, compute_uv=False, hermitian=hermitian)
    if tol is None:
        factor = max(data.shape[-2:]) * np.finfo(values.dtype).eps if rtol is None else as_tensor(rtol)[..., None]
        tol = max_(values, -1, keepdims=True, initial=0) * factor
    else:
        tol = as_tensor(tol)[..., None]
    return sum_(values > tol, -1, np.intp)


@offers("linalg.eig")
def eig(a: Any) -> Any:
    """`np.linalg.eig`; the values decide whether results are real, so it computes at once."""
    w, v = np.linalg.eig(native(a).fetch())
    return EigResult(as_tensor(w), as_tensor(v))


@offers("linalg.eigvals")
def eigvals(a: Any) -> Tensor:
    """`np.linalg.eigvals`; the values decide whether results are real, so it computes at once."""
    return as_tensor(np.linalg.eigvals(native(a).fetch()))
