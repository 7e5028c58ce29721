"""Only the parts that results need are read and computed, with the same bits."""

import functools
import importlib
import pkgutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
import jmars.tensor.ops
from jmars.optimize import compile_graph, merge_equal
from jmars.optimize.parts import arrays_in_parts, push_down_parts
from jmars.tensor.operand import Operand, annotate, new_data
from jmars.tensor.ops.groups import reduce_groups
from jmars.tensor.parts import is_whole, positions, splits_of, tidy
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor import engine

# classes that are computed whole: functions of the user, values that place or length decide, and what has no rule yet
WHOLE = {
    "MaskPositions", "RowAssignment", "SelectedPartition", "WriteInOrder",
    "BlockedCholesky", "ChunkEdges", "ChunkSamples", "Cond", "Count", "CopyLines", "CutSlice",
    "Deferred", "Dynamic", "FromSpawned", "Joined", "LabelReduction",
    "FunctionOutput", "HaloExchange", "JoinLines", "Literal", "MaskAssignment", "MaskSelection",
    "MergeParts", "OnChunks", "OrderValues", "Permutation", "Pick", "Placeholder", "RangeCounts",
    "RangeQuantiles", "Renumbered", "RunningSums", "SampleSort", "SaveNpy", "ScatterByTensor",
    "SelectedQuantiles", "SetPositions", "SetSlices", "ShuffleJoin", "ShuffleSplit",
    "Spawn", "SpawnMap", "Stored", "TakeByTensor", "TakeFew", "TensorParameterDraws", "ToBlocks", "UniqueElements",
    "UniqueField", "UniqueInverse", "UniqueSlices", "UniqueSlicesField", "While", "WriteLines", "_StandIn",
}  # fmt: skip


def classes(of=Operand):
    return {one for kind in of.__subclasses__() for one in (kind, *classes(kind))}


def test_every_class_has_a_rule_or_is_computed_whole():
    for package in (jmars.tensor, jmars.tensor.ops):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    ours = {one for one in classes() if one.__module__.startswith("jmars.")}
    without = {one.__name__ for one in ours if one.part is Operand.part}
    assert without == WHOLE


CALLS = []  # elements of each call of a reader


class Reader:
    """Reads an array, and notes how much."""

    def __init__(self, array):
        self.array = array

    def __call__(self, box):
        value = self.array[box]
        CALLS.append(value.size)
        return value


def centred(block):
    CALLS.append(block.size)
    return block - block.mean()


def read_by(array, chunks, takes="steps"):
    """A tensor whose chunks are read from an array."""
    return mt.from_blocks(Reader(array), array.shape, array.dtype, chunks=chunks, name="read", takes=takes)


def axes(draw, n):
    """Kept positions of an axis of length `n`."""
    return tidy(np.array(sorted(draw(st.sets(st.integers(0, n - 1), min_size=1)))))


def cuts(draw, shape):
    return tuple(draw(st.integers(1, n)) for n in shape)


def written(x, y, k):
    z = x + 0
    index = (
        [slice(k % 3, None, 1 + k % 2), slice(None, None, -1), k % len(z)][k % 3],
        ...,
        slice(None, None, 2 * (-1) ** k),
    )
    if min(z[index].shape):
        z[index] = [5.0, y[index], y[index][..., :1], y[0, 0, 0]][k // 3]
    return z


def _codes(x, axes):
    shape = [x.shape[axis] for axis in axes]
    return np.arange(np.prod(shape)).reshape(shape) * 7 % 5 - 1


def _blocks(x, y, k):
    """A function that computes single elements or lines, one of many."""
    whole = mt.abs(x * 9).astype(int)
    return [
        lambda: _records(x)["a"],
        lambda: _records(x)["b"],
        lambda: mt.interp(x, mt.sort(y.ravel()), y.ravel()),
        lambda: mt.searchsorted(mt.sort(y.ravel()), x),
        lambda: mt.isin(whole, whole[0, 0].rechunk(-1)),
        lambda: mt.unravel_index(whole, (100, 100))[k % 2],
        lambda: mt.take_along_axis(x, mt.argsort(y, axis=k % 3), k % 3),
        lambda: mt.lexsort((x, y), axis=k % 3),
        lambda: mt.choose(whole % 2, [x, y]),
        lambda: mt.i0(x),
        lambda: x.view("u1"),
        lambda: mt.linalg.solve(mt.einsum("ijk,ilk->ijl", x, x) + np.eye(x.shape[1]), y),
    ][k]()


def _records(x):
    """An array of records."""
    made = mt.zeros(x.shape, [("a", "f8"), ("b", "f4", (2,))], chunks=x.chunks)
    made["a"], made["b"] = x, x[..., None] * [1, 2]
    return made


CASES = {
    "Blockwise": _blocks,
    "Delete": lambda x, y, k: mt.delete(x, [k % x.shape[k % 3], -1], k % 3),
    "Insert": lambda x, y, k: mt.insert(x, [0, k % x.shape[k % 3]], y.sum(k % 3, keepdims=True), k % 3),
    "Repeat": lambda x, y, k: mt.repeat(x, np.arange(1, 1 + x.shape[k % 3]) % 3, k % 3),
    "FromArray": lambda x, y, k: x,
    "SetSlice": written,
    "ElementwiseOperand": lambda x, y, k: mt.where(x > 0, y[0], np.float64(2)),
    "Transpose": lambda x, y, k: mt.transpose(x, [(1, 2, 0), (2, 1, 0), (0, 2, 1)][k % 3]),
    "Slice": lambda x, y, k: x[:: (-1) ** k, k % x.shape[1], None, k % x.shape[2] :: 1 + k % 2],
    "Take": lambda x, y, k: x[:, np.arange(k, k + 7) * 5 % x.shape[1]],
    "Concatenate": lambda x, y, k: mt.concatenate([x, y, x], k % 3),
    "Reduction": lambda x, y, k: [x.max(0), x.argmin(1), (x > 0).sum((0, 2)), x.min(2, keepdims=True)][k % 4],
    "GroupReduction": lambda x, y, k: reduce_groups(
        ["max", "count", "any", "min"][k % 4], x, _codes(x, [(0,), (1,), (0, 2)][k % 3]), [(0,), (1,), (0, 2)][k % 3], 4
    ),
    "Reshape": lambda x, y, k: x.reshape([(-1,), (len(x), -1), (1, -1, 1, x.shape[2]), (-1, *x.shape)][k % 4]),
    "Roll": lambda x, y, k: mt.roll(x, (k, -1), (0, 2)),
    "Scan": lambda x, y, k: mt.cumsum(x, k % 3),
    "FourierTransform": lambda x, y, k: mt.fft.fft(x, axis=k % 3) if k % 2 else mt.fft.irfft(x + 0j, 7, axis=k % 3),
    "MapBlocks": lambda x, y, k: [
        lambda: mt.sort(x, axis=k // 4),
        lambda: mt.median(x, axis=(0, 1 + k // 8)),
        lambda: [mt.linalg.svdvals, mt.linalg.pinv, mt.linalg.matrix_rank][k // 4](x),
        lambda: [mt.logaddexp.accumulate, mt.hypot.reduce, mt.arctan2.accumulate][k // 4](x, axis=k // 4),
    ][k % 4](),
    "Contraction": lambda x, y, k: mt.einsum(["ijk,ljk->il", "ijk,ijk->kji", "ijk,ijl->ikl"][k % 3], x, y),
    "Rechunk": lambda x, y, k: x.rechunk(tuple(1 + (k + i) % n for i, n in enumerate(x.shape))),
    "Doubles": lambda x, y, k: mt.random.default_rng(k).random(x.shape, chunks=x.chunks) + y,
    "Draws": lambda x, y, k: [
        lambda: mt.random.default_rng(k).normal(size=x.shape, chunks=x.chunks),
        lambda: mt.random.default_rng(k).dirichlet((1, 2, 3), x.shape[:2]),
    ][k % 2](),
    "SlidingWindows": lambda x, y, k: mt.lib.stride_tricks.sliding_window_view(
        x, [1 + k % x.shape[axis] for axis in (2, 0, 1)[: 1 + k % 3]], (2, 0, 1)[: 1 + k % 3]
    ),
    "Range": lambda x, y, k: mt.arange(k, k + 2.0 * x.size, 2, chunk_size=2) if k % 2 else mt.linspace(0, k, x.size),
}


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_a_part_has_the_elements_of_the_whole(name, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jmars.tensor.ops.random_streams.CELL_ELEMENTS", 4)
        patch.setattr("jmars.tensor.ops.random_streams.CELL", 8)
        patch.setattr("jmars.tensor.from_array.COPIED", 0)
        compare_a_part(name, data)


def compare_a_part(name, data):
    shape = tuple(data.draw(st.integers(1, 6)) for _ in range(3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, y = (mt.asarray(rng.standard_normal(shape), chunks=cuts(data.draw, shape)) for _ in range(2))
    node = CASES[name](x, y, data.draw(st.integers(0, 11))).data
    while type(node.op).__name__ != name:
        if not node.op.inputs:
            return  # nothing was to do
        node = node.op.inputs[0]
    kept, inputs = tuple(axes(data.draw, n) for n in node.shape), [one.meta for one in node.op.inputs]
    if node.op.part(kept, inputs, node.meta) is None:
        kept = node.op.hull(kept, inputs, node.meta)
    how = node.op.part(kept, inputs, node.meta)
    one_by_one = engine.OneByOne()
    index = np.ix_(*map(positions, kept))
    if how is None:
        assert is_whole(kept, node.meta)
        return
    parts = []
    for number, part in how.reads:
        values = one_by_one.fetch(node.op.inputs[number])[np.ix_(*map(positions, part))]
        parts.append(mt.asarray(values, chunks=splits_of(part, inputs[number])).data)
    found = parts[0] if parts else None
    if how.operand is not None:
        chunks = splits_of(kept, node.meta)
        found = new_data(how.operand.linked(tuple(parts)), tuple(map(sum, chunks)), node.dtype, chunks)
    assert found.chunks == splits_of(kept, node.meta)
    value, wanted = one_by_one.fetch(found), one_by_one.fetch(node)[index]
    assert value.tobytes() == wanted.tobytes() or (name == "Contraction" and np.allclose(value, wanted, 1e-12, 1e-12))


class Sending(engine.OneByOne):
    """Sends arrays, whole or in parts, and notes how much."""

    def __init__(self, parts):
        super().__init__()
        self.parts = parts

    def graph(self, data):
        graph = super().graph(data)
        graph = arrays_in_parts(graph) if self.parts else graph
        CALLS.extend(array.size for _, array, _ in graph.arrays())
        return graph


def values(tensors, monkeypatch, parts, sends=False):
    """Values of tensors, and the number of elements that were read, or sent."""
    CALLS.clear()
    monkeypatch.setattr(engine, "tiled", lambda graph: compile_graph(graph, {"parts": parts}).after)
    one_by_one = Sending(parts) if sends else engine.OneByOne()
    one_by_one.execute([one.data for one in tensors])
    return [one_by_one.fetch(one.data) for one in tensors], sum(CALLS)


def source(rng, shape):
    data, cut = rng.standard_normal(shape), tuple(int(rng.integers(1, n + 1)) for n in shape)
    kind = rng.integers(6)
    if kind == 0:
        return read_by(data, cut, takes=str(rng.choice(["boxes", "steps", "chunks"])))
    if kind == 1:
        return mt.asarray(data, chunks=cut)
    draws = mt.random.default_rng(int(rng.integers(99)))
    return [
        lambda: draws.random(shape, chunks=cut),
        lambda: draws.normal(size=shape, chunks=cut),
        lambda: mt.full(shape, 1.5, chunks=cut),
        lambda: mt.arange(float(data.size), chunk_size=cut[0]).reshape(shape),
    ][kind - 2]()


def index(rng, shape):
    found = []
    for n in shape:
        kind = rng.integers(6)
        low = int(rng.integers(0, n))
        high = int(rng.integers(low + 1, n + 1))
        entries = [low, slice(low, high, int(rng.integers(1, 4))), slice(None, None, -int(rng.integers(1, 3)))]
        found.append(entries[kind] if kind < 3 else slice(low, high) if kind == 3 else slice(None))
    if rng.integers(3) == 0 and shape:
        axis = int(rng.integers(len(shape)))
        found[axis] = rng.integers(0, shape[axis], int(rng.integers(1, 5)))
    return tuple(found)


def step(rng, x, other):
    """One more operation."""
    axis = int(rng.integers(x.ndim)) if x.ndim else 0
    if not x.ndim:
        return mt.sin(x)
    steps = [
        lambda: mt.sin(x) * 2 + 1,
        lambda: mt.transpose(x, rng.permutation(x.ndim).tolist()),
        lambda: x.rechunk(tuple(int(rng.integers(1, n + 1)) for n in x.shape)),
        lambda: getattr(x, str(rng.choice(["sum", "mean", "max", "std", "argmax"])))(axis=axis) * 1.0,
        lambda: mt.concatenate([x, x + 1, x], axis),
        lambda: mt.roll(x, int(rng.integers(-5, 6)), axis),
        lambda: x - x.mean(axis=axis, keepdims=True),
        lambda: mt.cumsum(x, axis),
        lambda: x.reshape(-1),
        lambda: x.reshape(2, -1) if x.size % 2 == 0 else x.reshape(-1),
        lambda: mt.pad(x, 1, "reflect") if min(x.shape) > 1 else x,
        lambda: mt.sort(x, axis=axis),
        lambda: mt.diff(x, axis=axis) if x.shape[axis] > 1 else x,
        lambda: mt.where(x > 0, x, -x),
        lambda: mt.stack([x, x * 2]),
        lambda: mt.fft.fft(x, axis=axis).real,
        lambda: x + other if x.shape == other.shape else x,
        lambda: x[index(rng, x.shape)],
        lambda: x[index(rng, x.shape)],
        lambda: overwritten(rng, x),
        lambda: mt.lib.stride_tricks.sliding_window_view(x, 1 + x.shape[axis] // 3, axis).sum(-1),
        lambda: mt.delete(x, rng.integers(0, x.shape[axis], 2), axis) if x.shape[axis] > 2 else x,
        lambda: mt.insert(x, rng.integers(0, x.shape[axis], 2), x[..., :1].sum(), axis),
        lambda: mt.repeat(x, 1 + np.arange(x.shape[axis]) % 2, axis),
        lambda: _records(x)["b"].sum(-1) if x.ndim < 3 else _records(x)["a"],
        lambda: mt.interp(x, np.arange(5.0), np.arange(5.0) ** 2),
        lambda: mt.take_along_axis(x, mt.argsort(x, axis=axis), axis),
        lambda: mt.ma.masked_where(x > 1, x).filled(0) if min(x.shape) else x,
        lambda: mt.linalg.norm(x, axis=axis) if x.ndim < 3 else mt.linalg.svdvals(x),
    ]
    return steps[int(rng.integers(len(steps)))]()


def overwritten(rng, x):
    """A copy of an array with a write of some elements."""
    made, low = x + 0, [int(rng.integers(n)) for n in x.shape]
    box = tuple(slice(a, int(rng.integers(a, n)) + 1, int(rng.integers(1, 3))) for a, n in zip(low, x.shape))
    made[box] = x[box] * 2 if rng.integers(2) else 7.0
    return made


def expression(seed):
    """A random expression of one or two results."""
    rng = np.random.default_rng(seed)
    x = other = source(rng, tuple(int(n) for n in rng.integers(1, 9, int(rng.integers(1, 4)))))
    made = []
    for _ in range(int(rng.integers(1, 7))):
        if x.size < 5_000:
            made.append(x := step(rng, x, other))
    found = x[index(rng, x.shape)] if x.ndim else x
    return [found, made[int(rng.integers(len(made)))][...]] if rng.integers(4) == 0 else [found]


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=150)
def test_parts_have_the_bits_of_the_whole(seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jmars.tensor.from_array.COPIED", 0)
        tensors = expression(seed)
        (new, read), (old, before) = (values(tensors, patch, on, sends=True) for on in (True, False))
    assert read <= before
    for one, other in zip(new, old, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert one.tobytes() == other.tobytes()


LARGE = [
    ((400, 300), lambda x: (x * 2 + 1).sum(axis=0)[:5]),
    ((400, 300), lambda x: mt.sin(x).mean(axis=0)[7]),
    ((400, 300), lambda x: x.std(axis=1)[[3, 390]]),
    ((400, 300), lambda x: (x - x.mean(axis=0))[:2, :2]),
    ((9, 20000), lambda x: (x - 1).var(axis=0)[100:102]),
    ((9, 20000), lambda x: x.mean(axis=1)[2]),
    ((30, 40, 5, 60), lambda x: (x * x).mean(axis=(0, 3))[3:5, 2]),
    ((70, 2, 900), lambda x: x.mean(axis=0)[1, 214:216]),
    ((300000, 3), lambda x: x.var(axis=0)[1]),
    ((40, 60, 50), lambda x: x.sum(axis=(0, 2))[5:6]),
    ((30, 90, 180), lambda x: mt.sqrt(x * x)[2:12, ::9].sum()),
    ((400, 300), lambda x: (x + 1).rechunk((100, 300))[:90].mean(axis=0)),
    ((3, 200, 300), lambda x: (x * np.arange(600.0).reshape(3, 200, 1)[:1]).sum(axis=1)[1:, 5:7]),
]


@pytest.mark.parametrize("number", range(len(LARGE)))
def test_sums_of_parts_add_the_blocks_of_whole_chunks(number, monkeypatch):
    shape, function = LARGE[number]
    for dtype in ("f8", "f4"):
        x = read_by((np.random.default_rng(1).standard_normal(shape) * 100).astype(dtype), shape)
        ((new,), read), ((old,), before) = (values([function(x)], monkeypatch, on) for on in (True, False))
        assert read < before and new.tobytes() == old.tobytes()


WINDOWS = [
    lambda w: w((9,), (0,)).sum(-1)[:, 1:2],
    lambda w: w((9,), (0,)).std(-1)[2:3, 1],
    lambda w: w((3, 4), (0, 1)).mean((2, 3))[3, [0, 3, 5]],
    lambda w: w((8, 5), (1, 0)).var((2, 3))[:1, 1],
    lambda w: w((11,), (0,)).sum(-1)[[0, 3, 4]],
]


@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_sums_over_windows_add_in_the_order_of_whole_chunks(number, monkeypatch):
    x = read_by(np.random.default_rng(1).standard_normal((24, 14)) * 100, (24, 14))
    windows = functools.partial(mt.lib.stride_tricks.sliding_window_view, x)
    ((new,), read), ((old,), before) = (values([WINDOWS[number](windows)], monkeypatch, on) for on in (True, False))
    assert read < before and new.tobytes() == old.tobytes()


Y = np.arange(200.0 * 200).reshape(200, 200)
READ = {
    "a corner": (lambda y, z: (y + 1)[:10, :10], 100),
    "transposed": (lambda y, z: y.T[:10, :10], 100),
    "steps": (lambda y, z: y[::20, ::20], 100),
    "a row": (lambda y, z: y[5], 200),
    "an element": (lambda y, z: y[-1, -1], 1),
    "positions": (lambda y, z: y[[3, 150]][:, [1, 2]], 4),
    "scattered positions": (lambda y, z: y[:, np.arange(20) ** 2 % 199][:1], 400 // 20),
    "backwards": (lambda y, z: y[::-1][:10], 2000),
    "a sum": (lambda y, z: np.sqrt(y).mean(axis=0)[:10], 2000),
    "a sum of lines": (lambda y, z: y.sum(axis=1)[[5, 199]], 400),
    "sums and elements": (lambda y, z: (y - y.mean(axis=0))[:10, :10], 2000),
    "products": (lambda y, z: (y @ z)[:10, :10], 4000),
    "a product with itself": (lambda y, z: (y @ y.T)[:2, 100:], 200 * 102),
    "cumulative": (lambda y, z: y.cumsum(axis=1)[:5, :10], 50),
    "cumulative over chunks": (lambda y, z: y.astype(int).cumsum(axis=0)[:60, 3], 60),
    "rolled": (lambda y, z: (y + np.roll(y, 1, axis=0))[:10, :10], 110),
    "sorted": (lambda y, z: np.sort(y, axis=0)[:, 7], 200),
    "transformed": (lambda y, z: np.fft.fft(y, axis=1)[3], 200),
    "an extreme": (lambda y, z: y.max(axis=0)[::50], 800),
    "two ends": (lambda y, z: y[:10, :10] + y[-10:, -10:], 200),
    "neighbours": (lambda y, z: np.diff(y, axis=0)[:10, :10], 110),
    "windows": (lambda y, z: mt.lib.stride_tricks.sliding_window_view(y, 5, 0).mean(-1)[:10, :10], 140),
    "joined": (lambda y, z: mt.concatenate([y, z])[195:205], 2000),
    "stacked": (lambda y, z: mt.stack([y, z])[1, :3], 600),
    "cut anew": (lambda y, z: y.rechunk(30)[:10, :10], 100),
    "slices of slices": (lambda y, z: y[10:150][5:20, 100:120], 300),
    "with the whole": (lambda y, z: (y - y.max())[:10, :10], 40000),
    "matrices": (lambda y, z: mt.linalg.svdvals(y.reshape(-1, 20, 20))[3:5], 800),
    "records": (lambda y, z: _records(y)["a"][:10, :3], 30),
    "without rows": (lambda y, z: mt.delete(y, [3, 160], 0)[::100, :5], 10),
    "with more rows": (lambda y, z: mt.insert(y, [3, 160], z[:2], 0)[:, 5], 202),
    "repeated rows": (lambda y, z: mt.repeat(y, np.arange(200) % 3, 0)[:, 5], 200),
    "positions in a table": (lambda y, z: mt.searchsorted(z[0], y)[7, :3], 203),
    "masked": (lambda y, z: mt.ma.masked_where(z > 7, y).filled(0)[:2, :3], 12),
    "masked sums": (lambda y, z: mt.ma.masked_where(z > 7, y).sum(axis=0).filled(0)[:3], 1200),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_what_is_needed(name, monkeypatch):
    function, needed = READ[name]
    wanted = function(read_by(Y, 50), read_by(Y, 50))
    (value,), read = values([wanted], monkeypatch, True)
    (before,), _ = values([wanted], monkeypatch, False)
    assert value.tobytes() == before.tobytes() or ("product" in name and np.allclose(value, before, 1e-12))
    most = 20 * 20 if name == "scattered positions" else needed  # many runs are read with what lies between
    assert needed <= read <= 1.1 * most


def test_a_function_of_the_user_sees_whole_chunks(monkeypatch):
    y = mt.asarray(Y, chunks=100).map_blocks(centred, dtype=float)
    assert values([y[:10, :10]], monkeypatch, True)[1] == 100 * 100
    assert values([read_by(Y, 50, takes="chunks")[:10, :10]], monkeypatch, True)[1] == 50 * 50


def test_the_needed_part_of_an_array_is_sent(monkeypatch):
    monkeypatch.setattr("jmars.tensor.from_array.COPIED", 0)
    x = mt.asarray(Y, chunks=50)
    assert values([(x + 1).T[:3, ::20] + 1], monkeypatch, True, sends=True)[1] == 30
    assert values([(x * x)[:3, :9].sum(), x[5:8, 3:4]], monkeypatch, True, sends=True)[1] == 27 + 3
    assert values([(x * x)[:3, :9].sum(), x + x], monkeypatch, True, sends=True)[1] == 200 * 200


def test_a_part_has_the_line_of_the_selection():
    y = read_by(Y, 50)
    part = (y + 1)[:10]
    layers = compile_graph(TensorGraph.of([part.data]), {}).before.layers
    assert [layer.name for layer in layers] == ["read[...]", "add"]
    assert layers[0].line == part.data.op.line


@pytest.mark.parametrize("draw", ["random", "normal"])
def test_what_is_needed_is_drawn(draw):
    x = getattr(mt.random.default_rng(1), draw)(size=(10**6, 10**4), chunks=(1000, 1000))
    graph = compile_graph(TensorGraph.of([(x * 2).T[:10, 5:7].data]), {}).tiled
    assert graph.n == 3 and max(graph.nbytes) == 160
    t = mt.arange(10**9, chunk_size=1000)[500::1000][:3]
    assert compile_graph(TensorGraph.of([t.data]), {}).tiled.n == 6  # elements of three chunks, and what lies between


def test_rechunked_random_numbers_are_drawn_with_what_lies_between(monkeypatch):
    x = mt.random.default_rng(1).random((8, 9), chunks=(7, 4)).rechunk((3, 9))
    for index in ([4, 5, 7], [0, 3, 1, 0], slice(1, 8, 3)):
        part = x[index] * 2
        assert values([part], monkeypatch, True)[0][0].tobytes() == values([part], monkeypatch, False)[0][0].tobytes()


def test_readers_that_want_the_same_chunks_of_random_numbers_share_a_part():
    x = mt.random.default_rng(1).random((4, 6), chunks=(3, 1))
    one, other = x.rechunk((3, 6)), x.rechunk((3, 6))
    made = push_down_parts(merge_equal(TensorGraph.of([(mt.sort(one, axis=1) + other)[::3].data])))
    read = {k for reads in made.inputs for k in reads} | set(made.results)
    assert read == set(range(len(made.operands)))


def test_a_selection_that_is_all_of_an_array_has_its_elements(monkeypatch):
    x = mt.asarray(Y, chunks=50)
    part = mt.concatenate([x, x + 1, x])[400:]
    assert values([part], monkeypatch, True)[0][0].tobytes() == Y.tobytes()


def test_graphs_without_narrow_selections_stay_as_they_are():
    x = mt.asarray(Y, chunks=50) * 2
    for tensor in (x[1:] - x[:-1], x, x[3:], mt.asarray(Y, chunks=50)[:5]):
        graph = TensorGraph.of([tensor.data])
        assert push_down_parts(graph) is graph
    with annotate(worker=0):
        graph = TensorGraph.of([(x + 1)[:5].data])
        assert push_down_parts(graph) is graph


def test_results_keep_their_keys_and_chunks():
    y = read_by(Y, 50)
    part, same = y[:120, 3], y[:120][:, 3]
    graph = TensorGraph.of([part.data, same.data, part.data.op.inputs[0]])
    done = compile_graph(graph, {})
    assert set(done.after.results) == {part.data.key, same.data.key, y.data.key}
    assert [len(done.after.results[one.data.key].reshape(-1)) for one in (part, same, y)] == [3, 3, 16]


def test_a_large_source_compiles_without_its_chunks():
    x = mt.from_blocks(lambda box: np.zeros([s.stop - s.start for s in box]), (10**6, 10**4), float, chunks=(1000, 10))
    done = compile_graph(TensorGraph.of([((x + 1) * 2).T[:10, :10].data]), {})
    assert done.tiled.n == 3
