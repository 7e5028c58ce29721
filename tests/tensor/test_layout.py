"""Axes that a function does not touch stay cut as they were: others lean on it, and a cut changed costs a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from tests.tensor.cut import cut

SAME: dict[str, Callable[[Any, int], Any]] = {  # of as many axes, all but one untouched; that one too where it is whole
    "cumsum": lambda x, k: mt.cumsum(x, k),
    "cumprod": lambda x, k: mt.cumprod(x, k),
    "maximum.accumulate": lambda x, k: np.maximum.accumulate(x, k),
    "sort": lambda x, k: mt.sort(x, k),
    "argsort": lambda x, k: mt.argsort(x, k),
    "partition": lambda x, k: mt.partition(x, 2, k),
    "flip": lambda x, k: mt.flip(x, k),
    "roll": lambda x, k: mt.roll(x, 2, k),
    "fft.fft": lambda x, k: mt.fft.fft(x, axis=k),
    "fft.fft, longer": lambda x, k: mt.fft.fft(x, 9, axis=k),
    "fft.rfft": lambda x, k: mt.fft.rfft(x, axis=k),
    "fft.irfft": lambda x, k: mt.fft.irfft(x, axis=k),
    "fft.hfft": lambda x, k: mt.fft.hfft(x, axis=k),
    "fft.fftshift": lambda x, k: mt.fft.fftshift(x, k),
    "fft.ifftshift": lambda x, k: mt.fft.ifftshift(x, k),
    "diff": lambda x, k: mt.diff(x, axis=k),
    "repeat": lambda x, k: mt.repeat(x, 2, k),
    "take": lambda x, k: mt.take(x, [3, 0, 1], k),
    "take_along_axis": lambda x, k: mt.take_along_axis(x, mt.argsort(x, k), k),
    "delete": lambda x, k: mt.delete(x, 1, k),
    "insert": lambda x, k: mt.insert(x, 1, 7, k),
    "append": lambda x, k: mt.append(x, x, k),
    "concatenate": lambda x, k: mt.concatenate([x, x], k),
    "pad": lambda x, k: mt.pad(x, [(2, 1) if i == k else (0, 0) for i in range(x.ndim)]),
    "pad by edges": lambda x, k: mt.pad(x, [(2, 1) if i == k else (0, 0) for i in range(x.ndim)], mode="edge"),
    "gradient": lambda x, k: mt.gradient(x, axis=k),
    "unwrap": lambda x, k: mt.unwrap(x, axis=k),
    "a slice": lambda x, k: x[(slice(None),) * k + (slice(1, 4),)],
    "positions": lambda x, k: x[(slice(None),) * k + ([3, 0],)],
    "a mask": lambda x, k: x[(slice(None),) * k + (np.arange(x.shape[k]) % 2 == 0,)],
    "a sum kept": lambda x, k: x.sum(k, keepdims=True),
    "rechunk": lambda x, k: x.rechunk({k: 2}),
    "apply_along_axis": lambda x, k: mt.apply_along_axis(np.cumsum, k, x),
    "map_overlap": lambda x, k: mt.map_overlap(lambda b: b, x, depth={k: 1}, boundary="none"),
    "array_split": lambda x, k: mt.array_split(x, 2, k)[0],
    "compress": lambda x, k: mt.compress([True, False, True], x, k),
    "quantiles": lambda x, k: mt.moveaxis(mt.quantile(x, [0.2, 0.6], axis=k), 0, k),
    "scan of nan": lambda x, k: mt.nancumsum(x, k),
    "an assignment": lambda x, k: _written(x, k),
}
LESS: dict[str, Callable[[Any, int], Any]] = {  # of one axis less
    **{name: lambda x, k, name=name: getattr(mt, name)(x, axis=k) for name in (
        "sum", "prod", "mean", "std", "var", "min", "max", "ptp", "argmin", "argmax", "any", "all", "nansum", "nanmean",
        "nanstd", "nanmin", "nanargmax", "median", "average", "count_nonzero", "trapezoid", "nanmedian",
    )},
    "percentile": lambda x, k: mt.percentile(x, 30, axis=k),
    "linalg.norm": lambda x, k: mt.linalg.norm(x, axis=k),
    "one": lambda x, k: x[(slice(None),) * k + (1,)],
    "tensordot": lambda x, k: mt.tensordot(x, np.ones(x.shape[k]), (k, 0)),
    "apply_over": lambda x, k: mt.apply_along_axis(np.sum, k, x),
    "squeeze": lambda x, k: x.sum(k, keepdims=True).squeeze(k),
    "unstack": lambda x, k: mt.unstack(x, axis=k)[0],
}  # fmt: skip
MORE: dict[str, Callable[[Any, int], Any]] = {  # of one axis more, before axis k
    "stack": lambda x, k: mt.stack([x, x], axis=k),
    "expand_dims": lambda x, k: mt.expand_dims(x, k),
    "None": lambda x, k: x[(slice(None),) * k + (None,)],
    "quantiles": lambda x, k: mt.moveaxis(mt.stack([x, x]), 0, k),
}
ALL: dict[str, Callable[[Any], Any]] = {  # no axis touched
    **{name: lambda x, name=name: getattr(mt, name)(x) for name in (
        "sin", "negative", "isnan", "abs", "round", "real", "nan_to_num", "copy", "zeros_like", "empty_like", "i0",
        "ones_like", "sinc", "angle", "positive", "logical_not", "signbit", "deg2rad",
    )},
    "clip": lambda x: mt.clip(x, 1, 5),
    "astype": lambda x: x.astype("f4"),
    "where": lambda x: mt.where(x > 3, x, 0),
    "a row added": lambda x: x + np.ones(x.shape[-1]),
    "broadcast": lambda x: x + mt.ones((1,) * (x.ndim - 1) + (x.shape[-1],)),
    "select": lambda x: mt.select([x > 3, x > 1], [x, -x]),
    "isin": lambda x: mt.isin(x, [1, 2]),
    "digitize": lambda x: mt.digitize(x, [1.0, 3.0]),
    "searchsorted": lambda x: mt.searchsorted(np.arange(9.0), x),
    "interp": lambda x: mt.interp(x, [0.0, 9.0], [1.0, 2.0]),
    "isclose": lambda x: mt.isclose(x, 1.0),
    "full_like": lambda x: mt.full_like(x, 7),
    "polyval": lambda x: mt.polyval([1.0, 2.0], x),
    "map_blocks": lambda x: mt.map_blocks(np.sin, x),
    "vectorize": lambda x: mt.vectorize(lambda v: v + 1, otypes=[float])(x),
    "frexp": lambda x: mt.frexp(x)[0],
    "sort of none": lambda x: mt.flip(mt.flip(x)),
    "fftn back": lambda x: mt.transpose(mt.transpose(x)),
    "write by a mask": lambda x: _where(x),
    "tril": lambda x: mt.tril(x),
}  # fmt: skip


def _written(x: Any, k: int) -> Any:
    y = x.copy()
    y[(slice(None),) * k + (1,)] = 7
    return y


def _where(x: Any) -> Any:
    y = x.copy()
    y[y > 3] = 0
    return y


few = settings(max_examples=max(1, settings().max_examples // 5))  # of 120 functions
ARRAY = np.random.default_rng(0).permutation(np.arange(120.0)).reshape(4, 5, 6)


def drawn(data: Any) -> tuple[Any, int]:
    return data.draw(cut(ARRAY)), data.draw(st.integers(0, 2))


@pytest.mark.parametrize("name", SAME)
@few
@given(st.data())
def test_other_axes_stay_cut_as_they_were(name, data):
    x, k = drawn(data)
    y = SAME[name](x, k)
    assert [cut for i, cut in enumerate(y.chunks) if i != k] == [cut for i, cut in enumerate(x.chunks) if i != k]


@pytest.mark.parametrize("name", LESS)
@few
@given(st.data())
def test_axes_that_are_left_stay_cut_as_they_were(name, data):
    x, k = drawn(data)
    assert LESS[name](x, k).chunks == (*x.chunks[:k], *x.chunks[k + 1 :])


@pytest.mark.parametrize("name", MORE)
@few
@given(st.data())
def test_axes_beside_a_new_one_stay_cut_as_they_were(name, data):
    x, k = drawn(data)
    found = MORE[name](x, k).chunks
    assert (*found[:k], *found[k + 1 :]) == x.chunks


@pytest.mark.parametrize("name", ALL)
@few
@given(st.data())
def test_elementwise_functions_keep_every_cut(name, data):
    x = data.draw(cut(ARRAY))
    assert ALL[name](x).chunks == x.chunks


@few
@given(st.data())
def test_axes_in_another_order_take_their_cuts_with_them(data):
    x = data.draw(cut(ARRAY))
    order = data.draw(st.permutations(range(3)))
    a, b = data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    assert x.transpose(order).chunks == tuple(x.chunks[i] for i in order)
    swapped = list(x.chunks)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    assert mt.swapaxes(x, a, b).chunks == tuple(swapped)
    moved = list(x.chunks)
    moved.insert(b, moved.pop(a))
    assert mt.moveaxis(x, a, b).chunks == tuple(moved)
    assert mt.concatenate([x, x], a).chunks[a] == x.chunks[a] * 2
    assert mt.flip(x, a).chunks[a] == x.chunks[a][::-1]


@few
@given(st.data())
def test_axes_that_a_reshape_does_not_touch(data):
    x = data.draw(cut(ARRAY))
    assert x.reshape(4, 30).chunks[0] == x.chunks[0]
    assert x.reshape(20, 6).chunks[-1] == x.chunks[-1]
    assert x.reshape(4, 5, 2, 3).chunks[:2] == x.chunks[:2]
    assert x.reshape(2, 2, 5, 6).chunks[2:] == x.chunks[1:]
    assert x.reshape(4, 5, 6, 1).chunks == (*x.chunks, (1,))
    assert x.reshape(1, 4, 5, 6).chunks == ((1,), *x.chunks)


@few
@given(st.data())
def test_products_are_cut_as_their_factors(data):
    x, y = data.draw(cut(ARRAY[0])), data.draw(cut(ARRAY[1].T))
    assert (x @ y).chunks == (x.chunks[0], y.chunks[1])
    assert mt.tensordot(x, y, 1).chunks == (x.chunks[0], y.chunks[1])
    assert mt.outer(x[:, 0], y[0]).chunks == (x.chunks[0], y.chunks[1])
    assert mt.einsum("ij,jk->ki", x, y).chunks == (y.chunks[1], x.chunks[0])
    assert mt.broadcast_to(x, (3, *x.shape)).chunks[1:] == x.chunks
    first, second = mt.meshgrid(x[0], y[0], indexing="ij")
    assert first.chunks == second.chunks == (x.chunks[1], y.chunks[1])


def test_where_everything_is_whole_a_function_makes_no_chunks():
    x = mt.asarray(ARRAY)
    for name, function in SAME.items():
        if name != "rechunk":
            for k in range(3):
                found = [len(cut) for i, cut in enumerate(function(x, k).chunks) if i != k]
                assert found == [1, 1], name
