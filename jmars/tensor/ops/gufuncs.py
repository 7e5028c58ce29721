"""Maps user functions of scalars, vectors or matrices over arrays: `apply_gufunc` and `vectorize`.

Several outputs travel as a structured array, so that the function is called once; with a field per output.
Source: NumPy's gufunc signatures (NEP 20); dask.array `apply_gufunc`; `numpy.vectorize`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import check_dtype
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.ops.map_blocks import (
    as_in_block,
    call_with_first,
    called_here,
    first_element,
    map_blocks,
    pickled,
    single_chunk_along,
    unpickled,
)
from jmars.tensor.ops.records_and_objects import field
from jmars.tensor.ops.shape import expand_dims
from jmars.tensor.protocols import offers
from jmars.tensor.splits import common_splits
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
Core = tuple[str, ...]  # names of a signature's axes
_ALONE = (
    "; it is called with whole blocks, whose loop axes come before those of the signature: support these too "
    "(x.sum(-1) for x.sum()), or give vectorize=True for a function of one vector or matrix at a time"
)
_GIVE_OTYPES = "give the dtypes of its results, otypes="
_SIGNATURE = re.compile(r"^(\([^()]*\)(,\([^()]*\))*)?->\([^()]*\)(,\([^()]*\))*$")


@offers("apply_gufunc")
def apply_gufunc(func: Callable[..., Any], signature: str, *args: Any, output_dtypes: Any = None,
                 output_sizes: Mapping[str, int] | None = None, vectorize: bool = False, **kwargs: Any
                 ) -> Any:  # fmt: skip
    """Applies a function to the core axes of arrays, named by `signature`; loop axes broadcast and keep their chunks.

    Parameters
    ----------
    func
        Takes NumPy arrays with complete core axes; returns an array, or a tuple with an array per output.
    signature
        For example "(i,j),(j)->(i)", or "(i)->(),(i)".
    *args
        Tensors or arrays.
    output_dtypes
        dtype of the output, or a list of dtypes. By default `func` is called once in the client, with ones.
    output_sizes
        Lengths of axes that only outputs have; by default `func` is called with ones.
    vectorize
        Whether `func` takes core axes only, without loop axes.

    Returns
    -------
    Tensor, or tuple of Tensor
        A tensor per output.

    Raises
    ------
    ValueError
        If the signature does not fit the arrays, or `func` fails on ones.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> apply_gufunc(lambda x: x.mean(-1), "(i)->()", ones((4, 6), chunk_size=2)).fetch().tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> low, high = apply_gufunc(lambda x: (x.min(-1), x.max(-1)), "(i)->(),()", ones((4, 6), chunk_size=2))
    >>> high.shape
    (4,)
    """
    inputs, outputs = _parse_signature(signature)
    tensors = [as_tensor(x) for x in args]
    if len(tensors) != len(inputs):
        raise ValueError(f"{signature} takes {len(inputs)} arrays and {len(tensors)} are given")
    sizes = _core_sizes(signature, tensors, inputs, output_sizes or {})
    blob = pickled((func, kwargs))
    dtypes = _dtype_list(output_dtypes, len(outputs))
    if dtypes is None or any(name not in sizes for core in outputs for name in core):
        found = _probe(blob, signature, tensors, inputs, outputs, sizes, vectorize)
        dtypes = [one.dtype for one in found] if dtypes is None else dtypes
        for core, one in zip(outputs, found):
            for name, n in zip(core, one.shape[one.ndim - len(core) :]):
                if sizes.setdefault(name, n) != n:
                    raise ValueError(f"axis {name!r} of {signature} is {sizes[name]} long here and {n} there")
    kinds = tuple(map(check_dtype, dtypes))
    shapes = tuple(tuple(sizes[name] for name in core) for core in outputs)
    own = tuple(x.ndim - len(names) for x, names in zip(tensors, inputs))
    loop = len(np.broadcast_shapes(*(x.shape[:n] for x, n in zip(tensors, own))))
    several = len(outputs) > 1
    most = max([len(shapes[0]) if not several else 0, *map(len, inputs)])
    ready = [_align_core_axes(x, len(names), loop, most) for x, names in zip(tensors, inputs)]
    text = signature.replace(" ", "") if vectorize else None
    call = _Gufunc(text, tuple(zip(own, map(len, inputs))), loop, most, shapes, kinds)
    name = getattr(func, "__name__", "gufunc")
    if several:
        records = np.dtype([(f"f{i}", kind, shape) for i, (kind, shape) in enumerate(zip(kinds, shapes))])
        value = _map_loop_axes(name, ready, (blob, call), (), records, loop, most)
        return tuple(field(value, f"f{i}") for i in range(len(outputs)))
    return _map_loop_axes(name, ready, (blob, call), shapes[0], kinds[0], loop, most)


def _parse_signature(signature: str) -> tuple[list[Core], list[Core]]:
    """Parses a gufunc signature into axis names of inputs and outputs."""
    text = signature.replace(" ", "")
    if not _SIGNATURE.match(text):
        raise ValueError(f"not a signature of one output or several: {signature!r}; write one such as '(i,j),(j)->(i)'")
    given, _, gives = text.partition("->")
    inputs, outputs = (
        [tuple(filter(None, part.split(","))) for part in re.findall(r"\(([^()]*)\)", side)] for side in (given, gives)
    )
    return inputs, outputs


def _core_sizes(
    signature: str, tensors: Sequence[Tensor], inputs: Sequence[Core], given: Mapping[str, int]
) -> dict[str, int]:
    """Lengths of named axes, from the inputs and `output_sizes`."""
    sizes = dict(given)
    for x, names in zip(tensors, inputs):
        if x.ndim < len(names):
            raise ValueError(f"an array of shape {x.shape} has fewer axes than {names} in {signature}")
        for name, n in zip(names, x.shape[x.ndim - len(names) :]):
            if sizes.setdefault(name, n) != n:
                raise ValueError(f"axis {name!r} of {signature} is {sizes[name]} long here and {n} there")
    return sizes


def _dtype_list(dtypes: Any, n: int) -> list[Any] | None:
    """Expands `dtypes` to a list of `n` dtypes."""
    if dtypes is None:
        return None
    found = list(dtypes) if isinstance(dtypes, tuple | list) else [dtypes] * n
    if len(found) != n:
        raise ValueError(f"wrong number of outputs: {len(found)} dtypes are given for {n}; give one for each")
    return found


def _probe(
    blob: bytes, signature: str, tensors: Sequence[Tensor], inputs: Sequence[Core], outputs: Sequence[Core],
    sizes: Mapping[str, int], alone: bool,
) -> list[Array]:  # fmt: skip
    """Calls the function with ones and returns the outputs; raises ValueError where they do not fit the signature."""
    func, kwargs = unpickled(blob)
    loop = 0 if alone else max(x.ndim - len(names) for x, names in zip(tensors, inputs)) if tensors else 0
    ones = [np.ones((*(1,) * loop, *(sizes[name] for name in names)), x.dtype) for x, names in zip(tensors, inputs)]
    advice = "give output_dtypes= and output_sizes=, or otypes="
    try:
        with as_in_block(func, advice), np.errstate(all="ignore"):
            result = func(*(one[()] for one in ones), **kwargs)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise ValueError(
            f"{getattr(func, '__name__', 'the function')} was called with ones to learn its outputs, and it raised "
            f"{type(error).__name__}: {error}; {advice}"
        ) from error
    found = [np.asarray(one) for one in (result if len(outputs) > 1 else (result,))]
    if len(found) != len(outputs) or any(one.ndim < len(core) for one, core in zip(found, outputs)):
        raise ValueError(
            f"the function gave shapes {[one.shape for one in found]} for ones, which does not fit {signature}"
        )
    return found


class _Gufunc(Struct, frozen=True):
    """How a user's function is called with blocks; all blocks have `loop` loop axes, then `most` core axes."""

    signature: str | None  # for functions of core axes only
    counts: tuple[tuple[int, int], ...]  # loop axes and core axes of each input
    loop: int
    most: int
    shapes: tuple[tuple[int, ...], ...]  # core shape of each output
    kinds: tuple[np.dtype[Any], ...]


def _gufunc(*more: Any) -> Array:
    """Calls the user's function with blocks of `loop` + `most` axes, and returns such a block."""
    *blocks, blob, how = more
    func, kwargs = unpickled(blob)
    called = func
    if how.signature is not None:
        called = np.vectorize(func, signature=how.signature)  # its characters of dtypes would lose widths and units
        vars(called)["otypes"] = [np.dtype(object) if kind.kind in "SU" else kind for kind in how.kinds]
    loop, most = how.loop, how.most
    inner = [
        b.reshape((*b.shape[loop - own : loop], *b.shape[loop + most - n :])) for b, (own, n) in zip(blocks, how.counts)
    ]
    hint = _ALONE if how.signature is None and loop else ""
    try:
        result = called(*inner, **kwargs)
    except Exception as error:
        if hint:
            error.add_note(f"the function was called with blocks of shapes {[b.shape for b in inner]}{hint}")
        raise
    if len(how.shapes) == 1:
        value = _checked(result, how.shapes[0], how.kinds[0], loop, inner, hint)
        before = value.shape[:loop]
        return value.reshape((*before, *(1,) * (most - len(how.shapes[0])), *how.shapes[0]))
    if len(result) != len(how.shapes):
        raise ValueError(f"the function gave {len(result)} arrays, and its signature promises {len(how.shapes)}")
    values = [_checked(*one, loop, inner, hint) for one in zip(result, how.shapes, how.kinds)]
    records = np.dtype([(f"f{i}", kind, shape) for i, (kind, shape) in enumerate(zip(how.kinds, how.shapes))])
    joined = np.empty(np.broadcast_shapes(*(one.shape[:loop] for one in values)), records)
    for i, one in enumerate(values):
        np.copyto(joined[f"f{i}"], one, casting="same_kind")
    return joined.reshape((*joined.shape, *(1,) * most))


def _checked(result: Any, shape: tuple[int, ...], kind: Any, loop: int, inner: Sequence[Array], hint: str) -> Array:
    """Checks that an output has `loop` axes and then `shape`, and text no more characters than promised."""
    value = np.asarray(result)
    if kind.kind in "SU":
        value = value.astype(kind.kind) if value.dtype.hasobject else value
        if value.dtype.kind == kind.kind and value.itemsize > kind.itemsize:
            raise TypeError(f"the function gave {value.dtype} and {kind} was promised; give output_dtypes= that width")
    if value.shape[value.ndim - len(shape) :] != shape or value.ndim - len(shape) != loop:
        raise ValueError(
            f"the function gave an array of shape {value.shape} for blocks of shapes {[b.shape for b in inner]}, and "
            f"its signature promises {loop} axes and then {shape}{hint}"
        )
    return value


def _align_core_axes(x: Tensor, core: int, loop: int, most: int) -> Tensor:
    """Gives `x` `loop` loop axes and `most` core axes in a chunk, by axes of length 1."""
    x = single_chunk_along(x, range(x.ndim - core, x.ndim))
    before = x.ndim - core
    new = (*range(loop - before), *range(loop, loop + most - core))
    return expand_dims(x, new) if new else x


def _map_loop_axes(
    name: str, tensors: Sequence[Tensor], params: tuple[Any, ...], shape: tuple[int, ...], dtype: Any, loop: int,
    most: int,
) -> Tensor:  # fmt: skip
    """Maps `_gufunc` over blocks that broadcast along the loop axes."""
    outer = np.broadcast_shapes(*(x.shape[:loop] for x in tensors))
    cuts = [common_splits([x.chunks[i] for x in tensors if x.shape[i] == n]) for i, n in enumerate(outer)]
    ready = []
    for x in tensors:
        own = (cut if sum(cut) == n else (n,) for cut, n in zip(cuts, x.shape))
        ready.append(Tensor(rechunked(x.data, (*own, *x.chunks[loop:]))))
    out = (*cuts, *((1,),) * (most - len(shape)), *((n,) for n in shape))
    value = blockwise(name, _gufunc, ready, out, dtype, params, runs_user_code=True)
    extra = range(loop, loop + most - len(shape))
    index = tuple(0 if i in extra else slice(None) for i in range(value.ndim))
    return Tensor(value[index].data) if extra else value


@offers("vectorize")
class vectorize:  # NumPy's name
    """`np.vectorize` for tensors: calls a function of scalars, or with `signature` of vectors, on the workers.

    Parameters
    ----------
    pyfunc
        The function; omitted for a decorator with arguments, `@vectorize(otypes=[float])`.
    otypes
        dtype of each output. By default the function is called once more with the first elements, as NumPy does: they
        are computed for that. For text without a width, `str`, it is called twice for each element.
    excluded
        Positions and names of arguments that are passed as a whole; tensors among them are computed first.
    cache
        Ignored: the function is called again with the first elements.
    signature
        As for `apply_gufunc`.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> vectorize(lambda a, b: a if a > b else b)(arange(4, chunk_size=2), 2).fetch().tolist()
    [2, 2, 2, 3]
    """

    def __init__(self, pyfunc: Any = None, otypes: Any = None, doc: str | None = None, excluded: Any = None,
                 cache: bool = False, signature: str | None = None) -> None:  # fmt: skip
        self.pyfunc, self.signature = pyfunc, signature
        self.excluded = frozenset(excluded or ())
        self.otypes = None if otypes is None else [np.dtype(kind) for kind in otypes]
        self.__doc__ = doc if doc is not None else getattr(pyfunc, "__doc__", None)
        self.__name__ = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Maps the function over the elements; returns a tensor, or a tuple of tensors."""
        if self.pyfunc is None or self.pyfunc is getattr(np, "_NoValue", None):
            (self.pyfunc,) = args
            self.__doc__, self.__name__ = self.pyfunc.__doc__, getattr(self.pyfunc, "__name__", "vectorize")
            return self
        positions = [i for i in range(len(args)) if i not in self.excluded]
        names = [name for name in kwargs if name not in self.excluded]
        given = [*(args[i] for i in positions), *(kwargs[name] for name in names)]
        function = self.pyfunc
        if kwargs or len(positions) < len(args):
            fixed = [None if i in positions else _fetch(x) for i, x in enumerate(args)]
            named = {name: _fetch(x) for name, x in kwargs.items() if name not in names}
            function = _PartialFunction(self.pyfunc, tuple(fixed), named, tuple(positions), tuple(names))
        kinds = [*map(np.dtype, self.otypes)] if self.otypes is not None else self._learned(function, given)
        if any(kind.hasobject for kind in kinds):  # NumPy's array of objects, in this process
            own = np.vectorize(self.pyfunc, self.otypes, excluded=set(self.excluded), signature=self.signature)
            return called_here(own, *as_values(args), **as_values(kwargs))
        if self.signature is not None:
            return apply_gufunc(function, self.signature, *given, vectorize=True, output_dtypes=kinds)
        if len(kinds) == 1 and any(isinstance(x, Tensor) for x in given):  # of unknown lengths, too
            kind = kinds[0] if kinds[0].itemsize or kinds[0].kind not in "SU" else _widened(kinds[0], function, given)
            return map_blocks(np.vectorize(function, [kind]), *given, dtype=kind, name=self.__name__)
        if any(kind.kind in "SU" and not kind.itemsize for kind in kinds):
            raise ValueError(
                f"{self.__name__} gives text and other results; give all dtypes, with widths: otypes=['U8', …]"
            )
        signature = f"{','.join(['()'] * len(given))}->{','.join(['()'] * len(kinds))}"
        return apply_gufunc(function, signature, *given, vectorize=True, output_dtypes=kinds)

    def _learned(self, function: Callable[..., Any], given: Sequence[Any]) -> list[np.dtype[Any]]:
        """dtypes of the outputs, of text without the width."""
        cores = (
            [0] * len(given) if self.signature is None else [len(one) for one in _parse_signature(self.signature)[0]]
        )
        first = [first_element(x, core) for x, core in zip(given, cores)]
        result = call_with_first(function, first, _GIVE_OTYPES)
        found = [np.asarray(one).dtype for one in (result if isinstance(result, tuple) else (result,))]
        return [np.dtype(kind.kind) if kind.kind in "SU" and self.signature is None else kind for kind in found]


def _widened(kind: np.dtype[Any], function: Callable[..., Any], given: Sequence[Any]) -> np.dtype[Any]:
    """The dtype of the longest text that the function gives."""
    widths = map_blocks(np.vectorize(_Width(function), [np.int64]), *given, dtype=np.int64, name="width")
    return np.dtype(f"{kind.kind}{max(1, int(widths.max()))}")


class _Width(Struct, frozen=True):
    """The length of the text that a function gives."""

    function: Callable[..., Any]

    def __call__(self, *given: Any) -> int:
        return len(self.function(*given))


class _PartialFunction:
    """A function with some arguments fixed, as `functools.partial` with positions."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                 positions: tuple[int, ...], names: tuple[str, ...]) -> None:  # fmt: skip
        self.function, self.args, self.kwargs, self.positions, self.names = function, args, kwargs, positions, names
        self.__name__ = getattr(function, "__name__", "vectorize")

    def __call__(self, *given: Any) -> Any:
        args, kwargs = list(self.args), dict(self.kwargs)
        for i, value in zip(self.positions, given):
            args[i] = value
        kwargs.update(zip(self.names, given[len(self.positions) :]))
        return self.function(*args, **kwargs)


def _fetch(x: Any) -> Any:
    return np.asarray(x.fetch()) if isinstance(x, Tensor) else x
