"""Elements that 60 expressions over logged sources read: python -m tests.benchmarks reads

    python -m tests.benchmarks reads [--bar]

Columns: jmars, jmars with `parts` off, dask.array, and dask_array where it is installed. Values are compared with those
of `parts` off, bit by bit but for products of matrices, and with NumPy's. `goal` is larger than the need where a
function of whole chunks is asked for, or points. --bar: only lines over 1.1 times the goal, with other bits, or with
more elements than dask.array reads; their number is the exit status.

First the pieces of a file that are read, by default chunks.

Sources: y, z (4000, 4000) in chunks of 1000²; v (4000,); t (365, 90, 180) in chunks of 30 days.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import xarray as xr

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.tensor.files import aligned_splits

N = 4000
M = 1_000_000
SHAPES: dict[str, tuple[int, ...]] = {"y": (N, N), "z": (N, N), "v": (N,), "t": (365, 90, 180)}
CHUNKS = {"y": (1000, 1000), "z": (1000, 1000), "v": (1000,), "t": (30, 90, 180)}
MONTH = np.arange("2001-01-01", "2002-01-01", dtype="M8[D]").astype("M8[M]").astype(int) % 12
JANUARY = np.flatnonzero(MONTH == 0)


def elements(name: str, box: Sequence[slice]) -> Any:
    """Elements of a source: a hash of the position, so that no part equals another."""
    axes = np.ogrid[tuple(slice(*s.indices(n)) for s, n in zip(box, SHAPES[name]))]
    key: Any = sum(axis * np.int64(p) for axis, p in zip(axes, (7919, 104729, 1299709))) + len(name) + (name == "z")
    return np.asarray((key * 2654435761 % 1000003) / 1000003.0 - 0.5)


class Logged:
    """Reads boxes and notes how many elements, in a file that all processes append to."""

    dtype = np.dtype("f8")

    def __init__(self, name: str, log: str) -> None:
        self.name, self.log = name, log
        self.shape = SHAPES[name]
        self.ndim = len(self.shape)

    def __call__(self, box: Sequence[slice]) -> Any:
        found = elements(self.name, box)
        with open(self.log, "ab", buffering=0) as file:
            file.write(b"%d\n" % found.size)
        return found

    def __getitem__(self, index: Any) -> Any:
        """The elements of an index of slices, numbers and lists, as `from_array` of Dask asks for them."""
        index = index if isinstance(index, tuple) else (index,)
        box, rest = [], []
        for one in (*index, *(slice(None),) * (self.ndim - len(index))):
            low = 0 if isinstance(one, slice) or not np.size(one) else int(np.min(one))
            high = low + 1 if isinstance(one, slice) or not np.size(one) else int(np.max(one)) + 1
            box.append(one if isinstance(one, slice) else slice(low, high))
            rest.append(slice(None) if isinstance(one, slice) else np.asarray(one) - low if np.ndim(one) else 0)
        found = self(box)
        for axis in range(self.ndim - 1, -1, -1):
            found = found[(*(slice(None),) * axis, rest[axis])]
        return found


def plus_one(block: Any) -> Any:
    """A function of whole chunks."""
    return block + 1


class Case(NamedTuple):
    """An expression of (np, y, z, v, t), the elements that are needed, and the goal if it is another."""

    text: str
    function: Callable[..., Any]
    needed: int
    goal: int = 0
    product: bool = False


def _is_numpy(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def _rechunk(y: Any, size: Any) -> Any:
    return y if _is_numpy(y) else y.rechunk(size)


def _points(y: Any) -> Any:
    return y.vindex[[3, 3000], [1, 2]] if hasattr(y, "vindex") else y[[3, 3000], [1, 2]]


def _by_lines(xp: Any, name: str, y: Any, axis: int) -> Any:
    if hasattr(xp, name):
        return getattr(xp, name)(y, axis=axis)
    whole = y.rechunk(tuple(-1 if i == axis else n for i, n in enumerate(CHUNKS["y"])))
    return whole.map_blocks(getattr(np, name), axis=axis, dtype="f8")


def _blocks(xp: Any, y: Any) -> Any:
    return plus_one(y) if _is_numpy(y) else xp.map_blocks(plus_one, y, dtype="f8")


def _named(t: Any) -> Any:
    return xr.DataArray(t, dims=("time", "lat", "lon"), coords={"lat": np.arange(90.0), "lon": np.arange(180.0)})


CASES = [
    Case("y[:10, :10]", lambda np, y, z, v, t: y[:10, :10], 100),
    Case("(y + 1)[:10, :10]", lambda np, y, z, v, t: (y + 1)[:10, :10], 100),
    Case("y.T[:10, :10]", lambda np, y, z, v, t: y.T[:10, :10], 100),
    Case("y.mean(axis=0)[:10]", lambda np, y, z, v, t: y.mean(axis=0)[:10], 40_000),
    Case("y[::100, ::100]", lambda np, y, z, v, t: y[::100, ::100], 1_600),
    Case("y[5]", lambda np, y, z, v, t: y[5], 4_000),
    Case("y[:, 7]", lambda np, y, z, v, t: y[:, 7], 4_000),
    Case("y[-1, -1]", lambda np, y, z, v, t: y[-1, -1], 1),
    Case("(y*z + v)[10:20, 3990:]", lambda np, y, z, v, t: (y * z + v)[10:20, 3990:], 210),
    Case("sin(y)[1500:2500, 1500:2500]", lambda np, y, z, v, t: np.sin(y)[1500:2500, 1500:2500], M),
    Case("concatenate([y, z])[3995:4005]", lambda np, y, z, v, t: np.concatenate([y, z])[3995:4005], 40_000),
    Case("stack([y, z])[1, :3]", lambda np, y, z, v, t: np.stack([y, z])[1, :3], 12_000),
    Case("y.rechunk(500)[:10, :10]", lambda np, y, z, v, t: _rechunk(y, 500)[:10, :10], 100),
    Case("y.sum(axis=1)[[5, 3999]]", lambda np, y, z, v, t: y.sum(axis=1)[[5, 3999]], 8_000),
    Case("y[[3, 3000]][:, [1, 2]]", lambda np, y, z, v, t: y[[3, 3000]][:, [1, 2]], 4),
    Case("y[[3, 3000], [1, 2]]", lambda np, y, z, v, t: _points(y), 2, 4),
    Case("roll(y, 1, axis=0)[:10]", lambda np, y, z, v, t: np.roll(y, 1, axis=0)[:10], 40_000),
    Case("(y + roll(y, 1, 0))[:10, :10]", lambda np, y, z, v, t: (y + np.roll(y, 1, axis=0))[:10, :10], 110),
    Case("pad(y, 2)[:5, :5]", lambda np, y, z, v, t: np.pad(y, 2)[:5, :5], 9),
    Case("y[:100].reshape(10, 10, 4000)[0]", lambda np, y, z, v, t: y[:100].reshape((10, 10, N))[0], 40_000),
    Case("y.reshape(2, 2000, 4000)[1, :5]", lambda np, y, z, v, t: y.reshape((2, 2000, N))[1, :5], 20_000),
    Case("y[10:3000][5:20, 100:200]", lambda np, y, z, v, t: y[10:3000][5:20, 100:200], 1_500),
    Case("where(y > 0, z, 0)[:10, :10]", lambda np, y, z, v, t: np.where(y > 0, z, 0.0)[:10, :10], 200),
    Case("(y @ z)[:10, :10]", lambda np, y, z, v, t: (y @ z)[:10, :10], 80_000, product=True),
    Case("dot(y, v)[:10]", lambda np, y, z, v, t: np.dot(y, v)[:10], 44_000, product=True),
    Case("y.cumsum(axis=0)[:10, :10]", lambda np, y, z, v, t: y.cumsum(axis=0)[:10, :10], 100),
    Case("y.cumsum(axis=1)[:5, :10]", lambda np, y, z, v, t: y.cumsum(axis=1)[:5, :10], 50),
    Case("diff(y, axis=0)[:10, :10]", lambda np, y, z, v, t: np.diff(y, axis=0)[:10, :10], 110),
    Case("y.max(axis=0)[::1000]", lambda np, y, z, v, t: y.max(axis=0)[::1000], 16_000),
    Case("fft(y, axis=1)[3]", lambda np, y, z, v, t: np.fft.fft(_rechunk(y, (1000, -1)), axis=1)[3], 4_000),
    Case("sort(y, axis=0)[:, 7]", lambda np, y, z, v, t: _by_lines(np, "sort", y, 0)[:, 7], 4_000),
    Case("y[:10] + y[-10:]", lambda np, y, z, v, t: y[:10] + y[-10:], 80_000),
    Case("y[:10, :10] + y[-10:, -10:]", lambda np, y, z, v, t: y[:10, :10] + y[-10:, -10:], 200),
    Case("(y - y.mean(axis=0))[:10, :10]", lambda np, y, z, v, t: (y - y.mean(axis=0))[:10, :10], 40_000),
    Case("(y - y.mean())[:10, :10]", lambda np, y, z, v, t: (y - y.mean())[:10, :10], 16 * M),
    Case("y[None][0, 5]", lambda np, y, z, v, t: y[None][0, 5], 4_000),
    Case("y.astype('f4')[:4, ::2]", lambda np, y, z, v, t: y.astype("f4")[:4, ::2], 8_000),
    Case("y[::-1][:10]", lambda np, y, z, v, t: y[::-1][:10], 40_000),
    Case("t[january].mean(axis=0)[:5, :5]", lambda np, y, z, v, t: t[JANUARY].mean(axis=0)[:5, :5], 31 * 25),
    Case("map_blocks(f, y)[:10, :10]", lambda np, y, z, v, t: _blocks(np, y)[:10, :10], M),
    # 3-d
    Case("t[:, 45, 90]", lambda np, y, z, v, t: t[:, 45, 90], 365),
    Case("t[100]", lambda np, y, z, v, t: t[100], 16_200),
    Case("t[6::24].mean(axis=0)", lambda np, y, z, v, t: t[6::24].mean(axis=0), 15 * 16_200),
    Case("t[::30, ::10, ::10]", lambda np, y, z, v, t: t[::30, ::10, ::10], 13 * 9 * 18),
    Case("t.std(axis=0)[10:12, 20]", lambda np, y, z, v, t: t.std(axis=0)[10:12, 20], 730),
    Case("t.mean(axis=(1, 2))[:31]", lambda np, y, z, v, t: t.mean(axis=(1, 2))[:31], 31 * 16_200),
    Case("(t - t.mean(axis=0))[0, :3]", lambda np, y, z, v, t: (t - t.mean(axis=0))[0, :3], 365 * 540),
    Case("diff(t, axis=0)[99:101, 5]", lambda np, y, z, v, t: np.diff(t, axis=0)[99:101, 5], 540),
    Case("transpose(t, (2, 0, 1))[7, :20]", lambda np, y, z, v, t: np.transpose(t, (2, 0, 1))[7, :20], 1_800),
    Case("t.reshape(365, -1)[9, 200:300]", lambda np, y, z, v, t: t.reshape((365, 16_200))[9, 180:360], 180),
    Case("t.max(axis=1)[[3, 300], 5:9]", lambda np, y, z, v, t: t.max(axis=1)[[3, 300], 5:9], 720),
    Case("clip(t, 0, 1)[..., -1][:40]", lambda np, y, z, v, t: np.clip(t, 0, 1)[..., -1][:40], 3_600),
    Case("roll(t, 3, axis=2)[0, 0, :6]", lambda np, y, z, v, t: np.roll(t, 3, axis=2)[0, 0, :6], 6),
    Case("sqrt(t * t)[200:210, ::9].sum()", lambda np, y, z, v, t: np.sqrt(t * t)[200:210, ::9].sum(), 18_000),
    Case("einsum('ijk,k->ij', t, v)[4]", lambda np, y, z, v, t: np.einsum("ijk,k->ij", t, v[:180])[4], 16_380, 0, True),
    # xarray
    Case("isel(time=5)", lambda np, y, z, v, t: _named(t).isel(time=5).data, 16_200),
    Case("isel(lat=45, lon=90)", lambda np, y, z, v, t: (_named(t) * 2).isel(lat=45, lon=90).data, 365),
    Case("sel(lat=slice(10, 12), lon=7)", lambda np, y, z, v, t: _named(t).sel(lat=slice(10, 12), lon=7).data, 1_095),
    Case("mean('time').sel(lat=3)", lambda np, y, z, v, t: _named(t).mean("time").sel(lat=3).data, 65_700),
    Case("isel(time=slice(6, 240, 24)).mean('time')",
         lambda np, y, z, v, t: _named(t).isel(time=slice(6, 240, 24)).mean("time").data, 162_000),
]  # fmt: skip


def column(run: Callable[[Any], Any], make: Callable[[str], Any], xp: Any, log: str) -> list[tuple[int | None, Any]]:
    """Elements read by each case and the value; None and the error where it cannot be computed."""
    found: list[tuple[int | None, Any]] = []
    for case in CASES:
        open(log, "wb").close()
        try:
            value = run(case.function(xp, *map(make, SHAPES)))
        except Exception as error:
            found.append((None, error))
            continue
        with open(log, "rb") as file:
            found.append((sum(map(int, file.read().split())), value))
    return found


def columns(log: str) -> dict[str, list[tuple[int | None, Any]]]:
    """All columns by name."""

    def of_jmars(name: str) -> Any:
        return mt.from_blocks(Logged(name, log), SHAPES[name], "f8", chunks=CHUNKS[name], name=name, takes="steps")

    whole = {name: elements(name, (slice(None),) * len(shape)) for name, shape in SHAPES.items()}
    found = {"needed": column(np.asarray, lambda name: whole[name], np, log)}
    with jmars.Cluster(n_workers=1, memory_limit="3GiB"):
        for title, on in (("jmars", True), ("parts off", False)):
            config.task["parts"] = on
            found[title] = column(lambda x: x.fetch(), of_jmars, mt, log)
        config.task["parts"] = True
    peers = {"dask.array": da}
    try:
        import dask_array
    except ImportError:
        pass
    else:
        peers["dask_array"] = dask_array
    with dask.config.set(scheduler="sync"):
        for title, module in peers.items():
            make = lambda name, own=module: own.from_array(Logged(name, log), chunks=CHUNKS[name])  # noqa: E731
            found[title] = column(lambda x: x.compute(), make, module, log)
    return found


PIECES: list[tuple[str, Callable[[Any], Any], int]] = [
    ("p[:10, :10]", lambda p: p[:10, :10], 1),
    ("(p + 1)[::500, 7]", lambda p: (p + 1)[::500, 7], 8),
    ("p[:, 7]", lambda p: p[:, 7], 16),
    ("p[:10, :10] + p[-10:, -10:]", lambda p: p[:10, :10] + p[-10:, -10:], 2),
    ("p.sum(axis=0)[:10]", lambda p: p.sum(axis=0)[:10], 16),
    ("sort(p, axis=0)[:, 260:300]", lambda p: mt.sort(p, axis=0)[:, 260:300], 16),
    ("sort(p, axis=0)", lambda p: mt.sort(p, axis=0), 256),
    ("p.rechunk(500) + 1", lambda p: p.rechunk(500) + 1, 256),
]


class LoggedPieces(Logged):
    """Reads boxes of y and notes how many pieces of 250² they touch."""

    def __call__(self, box: Sequence[slice]) -> Any:
        touched = [len({at // 250 for at in range(n)[one]}) for one, n in zip(box, self.shape)]
        with open(self.log, "ab", buffering=0) as file:
            file.write(b"%d\n" % math.prod(touched))
        return elements(self.name, box)


def read_pieces(log: str) -> int:
    """Prints the pieces of a file that are read, by default chunks; returns the number of lines that miss."""
    missed = 0
    print(f"{'pieces of a file':42} {'needed':>11}{'jmars':>14}")
    with jmars.Cluster(n_workers=1, memory_limit="3GiB"):
        splits = aligned_splits(SHAPES["y"], np.dtype("f8"), (250, 250), None, None)
        for text, function, needed in PIECES:
            open(log, "wb").close()
            p = mt.from_blocks(LoggedPieces("y", log), SHAPES["y"], "f8", splits, takes="steps", pieces=(250, 250))
            function(p).fetch()
            with open(log, "rb") as file:
                read = sum(map(int, file.read().split()))
            print(f"{text:42} {needed:11,}{read:14,}" + ("over the goal" if read > needed else ""))
            missed += read > needed
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bar", action="store_true", help="only lines that miss the goal; their number is the status")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = columns(os.path.join(folder, "log"))
        missed = read_pieces(os.path.join(folder, "log"))
    titles = [title for title in found if title != "needed"]
    print(f"{'expression':42} {'goal':>11}" + "".join(f"{title:>14}" for title in titles))
    for k, case in enumerate(CASES):
        goal, (read, value) = case.goal or case.needed, found["jmars"][k]
        words = []
        if read is None or read > 1.1 * goal:
            words.append("over the goal")
        if read is not None and (np.asarray(value).tobytes() != np.asarray(found["parts off"][k][1]).tobytes()):
            words += [] if case.product else ["other bits"]
        if read is not None and not np.allclose(value, found["needed"][k][1], rtol=1e-9, atol=1e-9):
            words.append("wrong")
        words += [f"more than {one}" for one in titles[2:] if read and (found[one][k][0] or math.inf) < read]
        missed += bool(words)
        if words or not options.bar:
            numbers = [found[title][k] for title in titles]
            texts = [f"{n:,}" if n is not None else type(error).__name__[:13] for n, error in numbers]
            print(f"{case.text:42} {goal:11,}" + "".join(f"{text:>14}" for text in texts), ", ".join(words))
    for title in titles:
        pairs = [(n, c.goal or c.needed) for (n, _), c in zip(found[title], CASES) if n is not None]
        met = sum(n <= 1.1 * goal for n, goal in pairs)
        mean = math.exp(sum(math.log(max(n, 1) / goal) for n, goal in pairs) / max(len(pairs), 1))
        print(f"{title}: {met} of {len(CASES)} within 1.1 times the goal; read / goal, geometric mean {mean:.3g}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
