"""Results that share memory with an argument, and copies: identity, and what a write to the one does to the other.

Each call is made with arrays of several dtypes and with views of them, in NumPy and in jmars.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.tensor import Tensor, as_tensor
from tests.cases import numpy_before
from tests.tensor.engine import OneByOne
from tests.tensor.table.comparing import _family, outcome

Array = np.ndarray[Any, Any]
BASES = {
    "line": np.array([3.0, np.nan, 1.0, np.inf, 5.0]),
    "matrix": np.array([[3, np.nan, 1], [np.inf, 5, 6]]),
    "ints": np.array([[3, 2, 1], [4, 5, 6]]),
    "float32": np.array([[3, np.nan, 1], [np.inf, 5, 6]], "f4"),
    "complex": np.array([[3, complex(np.nan, 1), 1], [np.inf, 5, 6]]),
    "bools": np.array([[True, False], [False, True]]),
    "no axes": np.array(np.nan),
    "one": np.array([np.nan]),
    "empty": np.zeros((0, 0)),
    "times": np.array([1, 2, 3], "M8[D]"),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "slice": lambda x: x[..., ::2],
    "transpose": lambda x: x.T,
    "row": lambda x: x[:1],
}
COPY = (True, False, None)


def _converting(name: str, dtype: Any, kept: Any, order: str) -> Callable[[Any, Any], Any]:
    return lambda xp, x: getattr(xp, name)(x, dtype, copy=kept, order=order)


def _calls() -> Iterator[tuple[str, Callable[[Any, Any], Any]]]:
    for kept in COPY:
        for dtype, order in [(None, "K"), ("f8", "K"), ("f4", "K"), (None, "C"), (None, "F"), (None, "A")]:
            for name in ("array", "asarray"):
                yield f"{name}({dtype}, copy={kept}, order={order})", _converting(name, dtype, kept, order)
        for ndmin in (1, 2, 3):
            yield (
                f"array(copy={kept}, ndmin={ndmin})",
                lambda xp, x, a=(kept, ndmin): xp.array(x, copy=a[0], ndmin=a[1]),
            )
    for kept in (True, False):
        for dtype, order in [("f8", "K"), ("f4", "K"), ("?", "K"), (None, "C"), (None, "F"), (None, "A")]:
            yield (f"x.astype({dtype}, copy={kept}, order={order})",
                   lambda xp, x, a=(dtype, kept, order): x.astype(a[0] or x.dtype, copy=a[1], order=a[2]))  # fmt: skip
        yield f"astype(copy={kept})", lambda xp, x, a=kept: xp.astype(x, x.dtype, copy=a)
        yield f"nan_to_num(copy={kept})", lambda xp, x, a=kept: xp.nan_to_num(x, copy=a)
        yield f"nan_to_num(copy={kept}, nan=7)", lambda xp, x, a=kept: xp.nan_to_num(x, a, nan=7, posinf=8)
        yield f"meshgrid(copy={kept})", lambda xp, x, a=kept: xp.meshgrid(x, [1, 2], copy=a, sparse=True)[0]
        yield f"reshape(copy={kept})", lambda xp, x, a=kept: xp.reshape(x, -1, copy=a)
        yield f"x.reshape(copy={kept})", lambda xp, x, a=kept: x.reshape(x.shape, copy=a)
        yield f"from_dlpack(copy={kept})", lambda xp, x, a=kept: xp.from_dlpack(x, copy=a)
    names = "asarray asanyarray ascontiguousarray asfortranarray copy atleast_1d atleast_2d atleast_3d real imag ravel"
    names += " squeeze transpose diagonal require flip fliplr flipud rot90 conjugate conj fix trim_zeros sort unique"
    names += " angle round positive absolute sum real_if_close broadcast_arrays unstack from_dlpack"
    for name in names.split():
        yield name, lambda xp, x, a=name: getattr(xp, a)(x)
    yield "vsplit", lambda xp, x: xp.vsplit(x, 1)
    for name in "real imag T mT".split():  # noqa: SIM905
        yield f"x.{name}", lambda xp, x, a=name: getattr(x, a)
    for name in "copy ravel flatten squeeze view conj transpose round".split():  # noqa: SIM905
        yield f"x.{name}()", lambda xp, x, a=name: getattr(x, a)()
    for axes in ("ii->i", "ij->ji", "ij->ij", "ij", "i->", "...i->...i"):
        yield f"einsum({axes})", lambda xp, x, a=axes: xp.einsum(a, x)
    yield "x.flat[1:]", lambda xp, x: x.flat[1:]
    yield "x[-1]", lambda xp, x: x[-1]
    yield "x[()]", lambda xp, x: x[()]
    yield "x[...]", lambda xp, x: x[...]
    yield "x[0, ...]", lambda xp, x: x[0, ...]
    yield "x[None]", lambda xp, x: x[None]
    yield "clip(None, None)", lambda xp, x: xp.clip(x, None, None)
    yield "where", lambda xp, x: xp.where(True, x, x)
    yield "copy.copy", lambda xp, x: copy.copy(x)
    yield "copy.deepcopy", lambda xp, x: copy.deepcopy(x)
    yield "ma.filled", lambda xp, x: xp.ma.filled(x)
    yield "ma.masked_where", lambda xp, x: xp.ma.masked_where(x == x, x, copy=False).data
    yield "ma.masked_invalid", lambda xp, x: xp.ma.masked_invalid(x, copy=False).data
    yield "ma.masked_greater", lambda xp, x: xp.ma.masked_greater(x, 2, copy=False).data
    yield "ma.fix_invalid", lambda xp, x: xp.ma.fix_invalid(x, copy=False).data
    yield "ma.array", lambda xp, x: xp.ma.array(x).data
    yield "ma.asarray", lambda xp, x: xp.ma.asarray(x).data


_NEW = dict.fromkeys(("round", "x.round()", "trim_zeros"), "2.4") | {"x.conj()": "2.3"}  # rules that NumPy changed
CALLS = {name: call for name, call in _calls() if not numpy_before(f"{_NEW.get(name, '2.2')}.0")}
if numpy_before("2.2.1"):  # arrays of from_dlpack cannot be written
    CALLS = {name: call for name, call in CALLS.items() if "dlpack" not in name}


@pytest.mark.parametrize("name", CALLS)
def test_results_share_memory_as_numpy_s(name: str, engine: OneByOne) -> None:
    wrong = []
    for base, view in itertools.product(BASES, VIEWS):
        theirs = outcome(_written, (np, np.copy, CALLS[name], base, view), {})
        ours = outcome(_written, (mt, lambda x: as_tensor(x.copy(), chunks=2), CALLS[name], base, view), {})
        engine.chunks.clear()
        if isinstance(theirs, Exception):
            same = isinstance(ours, _family(theirs))
        else:
            same = not isinstance(ours, Exception) and all(map(_equal, ours, theirs))
        if not same:
            wrong.append(f"{view} of {base}: {ours}, NumPy {theirs}")
    assert not wrong, "\n".join(wrong)


def _written(xp: Any, make: Callable[[Array], Any], call: Callable[[Any, Any], Any], base: str, view: str) -> Any:
    """Identity, array and result after the call, after a write to the result, and after a write to the array."""
    whole = make(BASES[base])
    x = VIEWS[view](whole)
    made = call(xp, x)
    made = made[0] if isinstance(made, tuple | list) else made
    steps = [made is x, _value(whole), _value(made)]
    error = outcome(made.__setitem__ if hasattr(made, "__setitem__") else _refuse, (..., _other(made, 7)), {})
    steps += [isinstance(error, Exception), _value(whole), _value(made)]
    whole[...] = _other(whole, 11)
    return [*steps, _value(made)]


def _refuse(index: Any, value: Any) -> None:
    raise TypeError("NumPy's scalars cannot be written")


def _other(x: Any, number: int) -> Any:
    return np.datetime64(number, "D") if x.dtype.kind == "M" else number == 7 if x.dtype.kind == "b" else number


def _value(x: Any) -> Array:
    return np.array(x.fetch() if isinstance(x, Tensor) else x)


def _equal(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, bool):
        return ours is theirs
    return ours.dtype == theirs.dtype and np.array_equal(ours, theirs, equal_nan=theirs.dtype.kind in "fc")


MASKED: dict[str, Callable[[Any, Any, bool], Any]] = {
    "masked_where": lambda ma, a, kept: ma.masked_where([False, False, True, False], a, copy=kept),
    "masked_invalid": lambda ma, a, kept: ma.masked_invalid(a, copy=kept),
    "masked_inside": lambda ma, a, kept: ma.masked_inside(a, 2, 4, copy=kept),
    "masked_values": lambda ma, a, kept: ma.masked_values(a, 5.0, copy=kept),
    "fix_invalid": lambda ma, a, kept: ma.fix_invalid(a, copy=kept),
    "array": lambda ma, a, kept: ma.array(a, copy=kept),
    "array, mask": lambda ma, a, kept: ma.array(a, mask=[False, True, False, False], copy=kept),
    "copy": lambda ma, a, kept: ma.copy(a),
    "slice": lambda ma, a, kept: ma.array(a)[1:],
    "reshape": lambda ma, a, kept: ma.array(a).reshape(2, 2),
}


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", MASKED)
def test_masked_arrays_share_data_and_mask_as_numpy_s(name: str, kept: bool) -> None:
    for mask in (None, [True, False, False, False]):
        theirs = _masked_written(np, np.copy, name, mask, kept)
        ours = _masked_written(mt, lambda x: as_tensor(x.copy(), chunks=2), name, mask, kept)
        for step, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            np.testing.assert_array_equal(one, other, err_msg=f"step {step} with mask {mask}")


def _masked_written(xp: Any, make: Callable[[Array], Any], name: str, mask: Any, kept: bool) -> list[Array]:
    """Data and masks of argument and result: after the call, and after writes to the result and to the argument."""
    x = make(np.array([3.0, np.nan, 1.0, 5.0]))
    a = x if mask is None else xp.ma.array(x, mask=make(np.array(mask)))
    made = MASKED[name](xp.ma, a, kept)
    steps = _parts(xp, a, made)
    made[(0,) * made.ndim] = 42
    steps += _parts(xp, a, made)
    made[(-1,) * made.ndim] = np.ma.masked
    steps += _parts(xp, a, made)
    a[...] = 7
    return steps + _parts(xp, a, made)


def _parts(xp: Any, *arrays: Any) -> list[Array]:
    return [_value(part) for one in arrays for part in (xp.ma.getdata(one), xp.ma.getmaskarray(one))]


def test_scalars_refuse_writes_and_leave_their_array() -> None:
    b = as_tensor(np.arange(3.0), chunks=2)
    c = b[-1]
    with pytest.raises(TypeError, match="item assignment"):
        c[...] = 3
    with pytest.raises(TypeError, match="ArrayType"):
        np.add(b[0], 1, out=c)
    assert b.fetch().tolist() == [0, 1, 2]


def test_nan_to_num_without_a_copy_writes_into_numpy_s_array() -> None:
    a = np.array([np.nan, 1.0])
    assert mt.nan_to_num(a, copy=False) is a
    assert a.tolist() == [0, 1]
