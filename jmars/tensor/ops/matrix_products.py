"""Products of matrices and vectors: `matmul`, `dot`, `tensordot`, `einsum`, `cross`, `trace`."""

from __future__ import annotations

import operator
import string
import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.operand import kind_of, warn_user
from jmars.tensor.operand import result_type as common_dtype
from jmars.tensor.ops.arguments import assign_core_out, assign_out, share, step, trial, write_out
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.getitem import diagonal
from jmars.tensor.ops.matrix_operands import contract, takes_core_axes
from jmars.tensor.ops.reduction import sum_
from jmars.tensor.ops.shape import moveaxis, ravel, stack
from jmars.tensor.ops.ufuncs import astype_unsafe
from jmars.tensor.protocols import FUNCTIONS, offers
from jmars.tensor.tensor import Tensor, as_tensor

normal_axis = np.lib.array_utils.normalize_axis_index


def _product_inputs(name: str, a: Any, b: Any) -> tuple[Tensor, Tensor, np.dtype[Any]]:
    """Converts two arrays to tensors and determines the dtype of their product."""
    kinds = kind_of(a), kind_of(b)
    if any(isinstance(kind, np.dtype) and kind.kind in "mMV" for kind in kinds):
        raise UnsupportedError(f"np.{name} of times and records is not in jmars; give numbers, x.astype(...) or x['f']")
    return as_tensor(a), as_tensor(b), common_dtype(*kinds)


@offers("matmul", "linalg.matmul")
@takes_core_axes
def matmul(x1: Any, x2: Any, /, out: Any = None, *, casting: Any = "same_kind", dtype: Any = None,
           **kwargs: Any) -> Any:  # fmt: skip
    """`np.matmul`: products of matrices, stacks of matrices, and vectors.

    An output chunk is a sum of products of chunks, so no process needs a whole row of chunks.

    Raises
    ------
    ValueError
        If the lengths of the summed axes differ, or an array has no axes.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> matmul(ones((4, 6), chunk_size=4), ones((6, 2), chunk_size=3)).fetch().tolist()
    [[6.0, 6.0], [6.0, 6.0], [6.0, 6.0], [6.0, 6.0]]
    """
    order = kwargs.pop("order", "K")
    if kwargs.pop("subok", True) not in (True, False):
        raise TypeError("'subok' must be a boolean")
    if kwargs:
        raise TypeError(f"matmul() got an unexpected keyword argument {next(iter(kwargs))!r}")
    a, b, common = _product_inputs("matmul", x1, x2)
    if dtype is not None or casting != "same_kind":
        common = trial("matmul", a, b, dtype=dtype, casting=casting)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: Input operand does not have enough dimensions (a number has none); use multiply")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"(n?,k),(k,m?)->(n?,m?) (size {b.shape[-2 if b.ndim > 1 else 0]} is different from {a.shape[-1]})"
        )
    row, column, summed = 0, 1, 2
    stacked = max(a.ndim, b.ndim) - 2
    batch = tuple(range(3, 3 + max(stacked, 0)))
    left = (*batch[len(batch) - max(a.ndim - 2, 0) :], *((row,) if a.ndim > 1 else ()), summed)
    right = (*batch[len(batch) - max(b.ndim - 2, 0) :], summed, *((column,) if b.ndim > 1 else ()))
    result = (*batch, *((row,) if a.ndim > 1 else ()), *((column,) if b.ndim > 1 else ()))
    product = contract("matmul", (a, b), (left, right), result, common)
    product = product if order == "K" else product._laid_out_like([a._place, b._place], order)
    return assign_core_out(product, out, "matmul", len(result) - len(batch), casting)


def write_product(name: str, product: Tensor, out: Any) -> Any:
    """Writes to `out` of `np.dot`, with the dtype and the shape of the product; raises ValueError otherwise."""
    if out is not None and out.dtype != product.dtype:
        raise ValueError(f"output array of {out.dtype!r} is not acceptable: the product has {product.dtype!r}")
    return _returned(write_out(product, name, out))


def _returned(found: Any) -> Any:
    """An array as it is; NumPy's scalar for an array without axes."""
    return Tensor(found.data) if isinstance(found, Tensor) and not found.ndim else found


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    """The operands of `dot`, `inner` or `vdot`; an empty list gets the dtype of the previous operand."""
    return a, np.zeros(np.shape(b), as_tensor(a).dtype) if _is_empty_list(b) and not _is_empty_list(a) else b


def _is_empty_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_empty_list, value))


def _times_number(name: str, x: Tensor, y: Tensor) -> Tensor:
    """The product with a number; by BLAS, where zero times NaN is zero."""
    product: Tensor = x * y
    if product.dtype.char not in "fdFD":
        return product
    array, number = (y, x) if x.ndim == 0 else (x, y)
    return blockwise(name, _dot_block, [array, number], array.chunks, product.dtype, lines=(), tables=1)


def _dot_block(block: Any, number: Any) -> Any:
    return np.asarray(np.dot(block, number))


@offers("dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """`np.dot`: sums products along the last axis of `a` and the second to last axis of `b`."""
    x, y, dtype = _product_inputs("dot", *_alike(a, b))
    if isinstance(out, tuple):
        raise TypeError("'out' must be an array")
    if not x.ndim or not y.ndim:
        product = _times_number("dot", x, y)
        if product.dtype.char not in "fdFD":  # by `multiply` in NumPy, not by BLAS
            return _returned(assign_out(product, out, "multiply"))
        return write_product("dot", product, out)
    if x.ndim <= 2 and y.ndim <= 2:
        _check_dot("dot", x, x.ndim - 1, y, max(y.ndim - 2, 0))
        return write_product("dot", matmul(x, y), out)
    return write_product("dot", _sum_over_axes("dot", x, [x.ndim - 1], y, [max(y.ndim - 2, 0)], dtype), out)


@offers("vdot")
def vdot(a: Any, b: Any, /) -> Tensor:
    """`np.vdot`: product of two flattened arrays, the first conjugated."""
    x, y = map(ravel, _product_inputs("vdot", *_alike(a, b))[:2])
    _check_dot("vdot", x, 0, y, 0)
    conjugated: Tensor = x.conj() if x.dtype.kind == "c" else x
    return matmul(conjugated, y)  # type: ignore[no-any-return]


@offers("vecdot", "linalg.vecdot")
@takes_core_axes
def vecdot(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """`np.vecdot`: products of vectors, the first conjugated."""
    a, b, _ = _product_inputs("vecdot", x1, x2)
    lengths = [x.shape[-1] for x in (a, b) if x.ndim]
    if len({*lengths}) > 1:
        raise ValueError(
            "vecdot: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n),(n)->() "
            f"(size {lengths[1]} is different from {lengths[0]})"
        )
    dtype = trial("vecdot", x1, x2, dtype=dtype, casting=casting)
    inner = np.dtype("f4") if dtype == np.dtype("f2") else dtype
    a, b = astype_unsafe(a, inner), astype_unsafe(b, inner)
    product = astype_unsafe(sum_((a.conj() if inner.kind == "c" else a) * b, -1, inner), dtype)
    return assign_core_out(product, out, "vecdot", 0, casting)


@offers("inner")
def inner(a: Any, b: Any, /) -> Tensor:
    """`np.inner`: sums products along the last axes of both arrays."""
    x, y, dtype = _product_inputs("inner", *_alike(a, b))
    if not x.ndim or not y.ndim:
        return _times_number("inner", x, y)
    return _sum_over_axes("inner", x, [x.ndim - 1], y, [y.ndim - 1], dtype)


@offers("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """`np.tensordot`: sums products along axes, given as a number of axes or as two lists."""
    x, y, dtype = _product_inputs("tensordot", as_tensor(a), as_tensor(b))
    if np.iterable(axes):
        first, second = ([operator.index(i) for i in (part if np.iterable(part) else [part])] for part in axes)
    else:
        n = operator.index(axes)
        first, second = list(range(x.ndim - n, x.ndim)), list(range(n))
    if len(first) != len(second) or max(len(first), len(second)) > min(x.ndim, y.ndim):
        raise ValueError("shape-mismatch for sum")
    first, second = [normal_axis(i, x.ndim) for i in first], [normal_axis(i, y.ndim) for i in second]
    if len({*first}) < len(first) or len({*second}) < len(second):
        raise ValueError("duplicate axes are not allowed in tensordot")
    return _sum_over_axes("tensordot", x, first, y, second, dtype)


def _sum_over_axes(
    name: str, x: Tensor, first: list[int], y: Tensor, second: list[int], dtype: np.dtype[Any]
) -> Tensor:
    """Sums products along axes `first` of `x` and `second` of `y`; other axes of `x` come before the axes of `y`."""
    for i, k in zip(first, second):
        _check_dot(name, x, i, y, k)
    left = tuple(range(x.ndim))
    right = tuple(first[second.index(k)] if k in second else x.ndim + k for k in range(y.ndim))
    result = tuple(i for i in left if i not in first) + tuple(x.ndim + k for k in range(y.ndim) if k not in second)
    return contract(name, (x, y), (left, right), result, dtype)


def _check_dot(name: str, x: Tensor, i: int, y: Tensor, k: int) -> None:
    if x.shape[i] != y.shape[k]:
        raise ValueError(
            f"shapes {x.shape} and {y.shape} not aligned for {name}: {x.shape[i]} (dim {i}) != {y.shape[k]} (dim {k})"
        )


@offers("einsum")
def einsum(*operands: Any, out: Any = None, dtype: Any = None, order: str = "K", casting: str = "safe",
           optimize: Any = False) -> Any:  # fmt: skip
    """`np.einsum` with subscripts like "ij,jk->ik" or "...i,i->...", or with a list of axes behind every array.

    All factors are multiplied in a single contraction; for many factors pairwise products are cheaper.
    """
    if not operands:
        raise ValueError("must specify the einstein sum subscripts string and at least one operand, or at least one "
                         "operand and its corresponding subscripts list")  # fmt: skip
    subscripts, *arrays = operands if isinstance(operands[0], str) else _as_text(operands)
    given, arrow, result = _without_ellipsis(subscripts.replace(" ", ""), [np.ndim(x) for x in arrays])
    terms = given.split(",")
    if len(terms) != len(arrays):
        raise ValueError("the number of subscripts does not match the number of operands")
    if not arrow:
        result = "".join(sorted(c for c in set(given) - {","} if given.count(c) == 1))
    tensors = [as_tensor(x) for x in arrays]
    for term, x in zip(terms, tensors):
        if len(term) != x.ndim:
            raise ValueError(f"einstein sum subscripts {term!r} do not match an operand of {x.ndim} axes")
        wrong = [(c, term.index(c), i) for i, c in enumerate(term) if x.shape[i] not in (1, x.shape[term.index(c)])]
        wrong += [(c, term.index(c), i) for i, c in enumerate(term) if x.shape[i] == 1 != x.shape[term.index(c)]]
        for letter, first, second in wrong:
            raise ValueError(
                f"dimensions in operand {len(tensors)} for collapsing index '{letter}' don't match "
                f"({x.shape[first]} != {x.shape[second]}), in {term!r} of shape {x.shape}"
            )
    if not set(result) <= set(given) or len(set(result)) < len(result):
        raise ValueError(f"einstein sum subscripts {result!r} of the output are not those of the input, each once")
    kind = np.result_type(*(x.dtype for x in tensors)) if dtype is None else np.dtype(dtype)
    for x in tensors:
        if not np.can_cast(x.dtype, kind, cast(Any, casting)):
            raise TypeError(f"Cannot cast from {x.dtype!r} to {kind!r} according to the rule {casting!r}")
    if len(tensors) == 1 and set(result) == set(terms[0]) and kind == tensors[0].dtype and result:
        return write_out(_relabelled(tensors[0], terms[0], result), "einsum", out, casting)
    if kind.kind not in "biufc":
        raise TypeError("invalid data type for einsum")  # NumPy's words
    labels = [tuple(ord(c) for c in term) for term in terms]
    labels, numbers = _renumber(labels)
    value = contract("einsum", tensors, labels, tuple(numbers[ord(c)] for c in result), kind)
    if dtype is None and len(tensors) == 1 and set(result) == set(given) and not tensors[0].dtype.isnative:
        value = value.astype(tensors[0].dtype)  # a view in NumPy
    if order != "K":
        value._laid_out_like([x._place for x in tensors], order)
    return write_out(value, "einsum", out, casting)


def _relabelled(x: Tensor, given: str, result: str) -> Tensor:
    """Transposes and diagonals of `x`, as a view: all axes stay, with an axis for axes of the same letter."""
    if len(given) == len(result):
        return FUNCTIONS["transpose"](x, [given.index(c) for c in result])  # type: ignore[no-any-return]

    def read(whole: Tensor) -> Tensor:
        labels, numbers = _renumber([tuple(map(ord, given))])
        return Tensor(contract("einsum", [whole], labels, tuple(numbers[ord(c)] for c in result), x.dtype).data)

    def write(whole: Tensor, part: Tensor) -> Tensor:
        positions = np.ogrid[tuple(slice(n) for n in part.shape)]
        at = tuple(positions[result.index(c)] for c in given)
        return FUNCTIONS["method.setitem"](whole, at, part)  # type: ignore[no-any-return]

    return share(read(x), x, step(read, write, lambda array: np.einsum(f"{given}->{result}", array), permutes=True))


def _as_text(operands: Sequence[Any]) -> list[Any]:
    """Rewrites arrays and their lists of axes, and the axes of the result, as subscripts and arrays."""
    pairs = len(operands) // 2
    terms = [_term(one) for one in operands[1::2]]
    text = ",".join(terms) + ("->" + _term(operands[-1]) if len(operands) % 2 else "")
    return [text, *operands[: 2 * pairs : 2]]


def _term(axes: Any) -> str:
    """Letters of a list of axes, as NumPy assigns letters: 0 is A, 26 is a."""
    letters = string.ascii_uppercase + string.ascii_lowercase
    found = ""
    for axis in axes:
        if axis is Ellipsis:
            found += "..."
            continue
        try:
            number = operator.index(axis)
        except TypeError:
            raise TypeError("each subscript must be either an integer or an ellipsis") from None
        if not 0 <= number < len(letters):
            raise ValueError("subscript is not within the valid range [0, 52)")
        found += letters[number]
    return found


def _without_ellipsis(text: str, ndims: Sequence[int]) -> tuple[str, str, str]:
    """Replaces "..." by letters; returns the input subscripts, "->" or "", and the output subscripts."""
    given, arrow, result = text.partition("->")
    if "..." not in text:
        return given, arrow, result
    terms = given.split(",")
    free = [c for c in string.ascii_letters if c not in text]
    extra = [n - len(t.replace("...", "")) if "..." in t else 0 for t, n in zip(terms, ndims)]
    letters = "".join(free[: max(extra, default=0)])
    terms = [t.replace("...", letters[len(letters) - n :]) for t, n in zip(terms, extra)]
    if arrow:
        return ",".join(terms), arrow, result.replace("...", letters)
    once = sorted(c for c in set("".join(terms)) - set(letters) if "".join(terms).count(c) == 1)
    return ",".join(terms), "->", letters + "".join(once)


def _renumber(labels: Sequence[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], dict[int, int]]:
    """Renumbers labels from 0 on, since `np.einsum` accepts small numbers only."""
    numbers = {label: i for i, label in enumerate(dict.fromkeys(c for own in labels for c in own))}
    return [tuple(numbers[c] for c in own) for own in labels], numbers


@offers("trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """`np.trace`: sum along a diagonal."""
    x = as_tensor(a)
    trial("trace", x, axis1=axis1, axis2=axis2, dtype=dtype, out=out)
    dtype = dtype if dtype is None else trial("trace", x, axis1=axis1, axis2=axis2, dtype=dtype)
    dtype = None if dtype is not None and dtype.kind == "m" else dtype  # NumPy's sum takes no unit
    return sum_(diagonal(x, offset, axis1, axis2), -1, dtype, out)


@offers("cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    """`np.cross`: cross products of vectors with three components, or with two."""
    if axis is not None:
        axisa = axisb = axisc = operator.index(axis)
    x, y = as_tensor(a), as_tensor(b)
    small = [np.zeros([n if i == at % max(x.ndim, 1) else 1 for i, n in enumerate(x.shape)], x.dtype)
             for x, at in ((x, axisa), (y, axisb))]  # fmt: skip
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        np.cross(small[0], small[1], axisa, axisb, axisc)  # raises NumPy's errors
    for one in told:
        warn_user(str(one.message), one.category)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    p, q = [x[..., i] for i in range(x.shape[-1])], [y[..., i] for i in range(y.shape[-1])]
    last = p[0] * q[1] - p[1] * q[0]
    if len(p) == len(q) == 2:
        return last  # type: ignore[no-any-return]
    if len(p) == 2:
        first = [p[1] * q[2], -(p[0] * q[2])]
    elif len(q) == 2:
        first = [-(p[2] * q[1]), p[2] * q[0]]
    else:
        first = [p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2]]
    return moveaxis(stack([*first, last], -1), -1, axisc)  # type: ignore[no-any-return]
