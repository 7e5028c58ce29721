"""Cells that use arrays by Python's own ways, for `python -m tests.benchmarks everyday`: titles and code.

Before a line of dashes stands a plain cell that makes the inputs; many cells need none.
"""

from __future__ import annotations

__all__ = ["PYTHON"]

PYTHON: dict[str, str] = {
    "masked elements": """
m = np.ma.masked_equal(np.array([1, -9, 3]), -9)
print(m[1], m[0], f"{m[0]} {m[2]:>4}")
a = float(m[0])
for v in m:
    print(v, end=" ")
b = m[1] is np.ma.masked
big = np.ma.masked_greater(np.arange(120_000).reshape(400, 300), 100_000)
c = "masked" if big[399, 299] is np.ma.masked else "there"
d = big[0, 1]
e = [x is np.ma.masked for x in big[333, 98:103]]
f = big.mean()
print(b, c, d, e, f, m.tolist())
""",
    "hand-over of bytes": """
rng_ = np.random.default_rng(13)
pixels = rng_.integers(0, 256, (300, 400, 3)).astype(np.uint8)
---
import array, base64, hashlib, io, struct
from PIL import Image
half = pixels[::2, ::2] // 2
im = Image.fromarray(half)
back = np.asarray(im.resize((50, 50)))
raw = half.tobytes()
digest = hashlib.sha1(raw).hexdigest()
im.putpixel((0, 0), (1, 2, 3))
header = struct.pack("<3I", *half.shape)
numbers = array.array("d", np.linspace(0, 1, 5))
text = base64.b64encode(half[:2].tobytes())[:12].decode()
again = np.frombuffer(raw, np.uint8).reshape(half.shape)
same = bool((again == half).all())
buffer = io.BytesIO()
written = buffer.write(half.tobytes())
other = np.from_dlpack(half.astype(np.float32))
print(im.size, back.shape, digest, len(header), list(numbers), text, same, written, other.sum())
del im, buffer
""",
    "helpers: closures, caches, generators": """
from functools import lru_cache, partial, reduce
def scaler(data):
    lo, hi = data.min(), data.max()
    return lambda v: (v - lo) / (hi - lo)
@lru_cache(maxsize=None)
def kernel(n, width=1.0):
    k = np.exp(-0.5 * (np.arange(-n, n + 1) / width) ** 2)
    return k / k.sum()
def batches(data, size):
    for start in range(0, len(data), size):
        yield data[start:start + size]
def quick(a):
    if len(a) <= 8:
        return np.sort(a)
    pivot = a[len(a) // 2]
    return np.concatenate([quick(a[a < pivot]), a[a == pivot], quick(a[a > pivot])])
data = np.random.default_rng(14).normal(size=3000)
unit = scaler(data)(data)
smooth = np.convolve(unit, kernel(10, 3.0), mode="same")
means = [b.mean() for b in batches(smooth, 250)]
ordered = quick(data)
root = partial(np.linalg.norm, ord=1)
size = root(data[:10])
total = reduce(np.add, batches(data[:1000], 100))
pipeline = [np.abs, np.sqrt, lambda v: v.clip(0, 1)]
for f in pipeline:
    data = f(data)
def stats(*arrays, how=np.mean, **kw):
    return {i: how(a, **kw) for i, a in enumerate(arrays)}
s = stats(unit, smooth, how=np.quantile, q=0.3)
print(kernel.cache_info().hits, f"{size:.3f}", {k: round(float(v), 4) for k, v in s.items()})
del kernel, root, pipeline
""",
    "dataclass, ABC, Enum, Gaussian process": """
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
class Kind(Enum):
    RBF = "rbf"
    LINEAR = "linear"
class Kernel(ABC):
    @abstractmethod
    def __call__(self, a, b): ...
@dataclass
class RBF(Kernel):
    scale: float = 1.0
    kind: Kind = Kind.RBF
    def __call__(self, a, b):
        return np.exp(-0.5 * ((a[:, None] - b[None]) / self.scale) ** 2)
@dataclass
class GP:
    kernel: Kernel
    noise: float = 0.1
    x: np.ndarray = field(default=None, repr=False)
    def fit(self, x, y):
        self.x = x
        K = self.kernel(x, x) + self.noise ** 2 * np.eye(len(x))
        self.L = np.linalg.cholesky(K)
        self.alpha = np.linalg.solve(self.L.T, np.linalg.solve(self.L, y))
        return self
    def predict(self, x):
        K = self.kernel(x, self.x)
        v = np.linalg.solve(self.L, K.T)
        return K @ self.alpha, 1 - (v ** 2).sum(axis=0)
@dataclass
class Summary:
    n: int
    mean: float
x = np.linspace(0, 10, 300)
gp = GP(RBF(1.5)).fit(x, np.sin(x))
mean, var = gp.predict(np.linspace(0, 10, 500))
summary = Summary(len(mean), mean.mean())
print(gp, summary)
del gp
""",
    "errors in helpers": """
import traceback
def load(table, name):
    return table[name]
def check(a):
    assert a.ndim == 2, f"two axes are needed, not {a.ndim}"
    return a
def deep(n, a):
    return deep(n - 1, a) if n else a @ np.ones(7)
tries = [
    lambda: load({"a": np.ones(3)}, "b"),
    lambda: check(np.ones(4)),
    lambda: deep(5, np.ones((3, 3))),
    lambda: np.ones(3) + np.ones(4),
    lambda: np.arange(5)[7],
    lambda: np.array(["a", "1"]).astype(int),
    lambda: np.linalg.inv(np.zeros((2, 2))),
    lambda: np.zeros(3).reshape(2, 2),
    lambda: np.concatenate([np.ones((2, 2)), np.ones(3)]),
    lambda: np.arange(3).nothing,
    lambda: np.array([1, 2]).astype("nothing"),
    lambda: np.stack([]),
    lambda: bool(np.ones(3) > 0),
    lambda: np.ones(3, int).__iadd__(0.5),
]
told = []
for attempt in tries:
    try:
        attempt()
    except Exception as error:
        told.append(f"{type(error).__name__}: {error}".replace("Tensor", "numpy.ndarray"))
print(*told, sep="\\n")
del tries
""",
    "errors that are caught": """
found = []
try:
    v = np.linalg.inv(np.zeros((2, 2)))
    print(v)
except np.linalg.LinAlgError as e:
    print("caught", e)
for k in range(6):
    M = np.array([[2.0, k], [k, 2.0]])
    try:
        v = np.linalg.cholesky(M)
        s = float(v.sum())
    except np.linalg.LinAlgError:
        s = np.nan
    found.append(s)
try:
    numbers = np.array(["a", "1"]).astype(int)
except ValueError as e:
    print(type(e).__name__, e)
old = np.seterr(all="raise")
try:
    q = np.ones(3) / np.array([1.0, 0.0, 2.0])
except FloatingPointError as e:
    q = None
    print(e)
finally:
    np.seterr(**old)
with np.errstate(invalid="raise"):
    try:
        np.sqrt(np.array([-1.0, 1.0]))
    except FloatingPointError as e:
        print("again", e)
""",
    "tqdm": """
rng_ = np.random.default_rng(15)
from tqdm import tqdm
import io
X = rng_.normal(size=(2000, 20))
---
losses, w = [], np.zeros(20)
target = X @ np.arange(20.0)
bar = tqdm(range(60), file=io.StringIO())
for epoch in bar:
    g = X.T @ (X @ w - target) / len(X)
    w -= 0.1 * g
    losses.append(float(np.linalg.norm(g)))
    bar.set_postfix(loss=losses[-1])
parts = [c.mean() for c in tqdm(np.array_split(X, 10), file=io.StringIO())]
print(f"{losses[-1]:.3e} {len(parts)}")
del bar
""",
    "logging, redirect, decorators": """
import contextlib, functools, io, logging
stream = io.StringIO()
logger = logging.getLogger("cells")
logger.handlers[:] = [logging.StreamHandler(stream)]
logger.setLevel(logging.INFO)
logger.propagate = False
def logged(f):
    @functools.wraps(f)
    def inner(*a, **k):
        out = f(*a, **k)
        logger.info("%s -> %s", f.__name__, np.shape(out))
        return out
    return inner
@logged
def whiten(X):
    "Whiten."
    C = np.cov(X, rowvar=False)
    w, V = np.linalg.eigh(C)
    return (X - X.mean(axis=0)) @ V / np.sqrt(w)
X = np.random.default_rng(16).normal(size=(3000, 8))
W = whiten(X)
logger.info("mean %.3f, first %s", abs(W.mean()), X[0, :2])
out = io.StringIO()
with contextlib.redirect_stdout(out):
    print("shape", W.shape, np.round(W.std(axis=0, ddof=1), 6))
with contextlib.suppress(IndexError):
    W[9999]
with contextlib.suppress(np.linalg.LinAlgError):
    np.linalg.cholesky(-np.eye(3))
text = stream.getvalue() + out.getvalue()
print(text, whiten.__doc__)
del logger, stream, out
""",
    "warnings and errstate": """
import warnings
x = np.array([1.0, 0.0, -1.0])
a = 1 / x
b = np.sqrt(x)
with np.errstate(divide="ignore", invalid="ignore"):
    c = np.log(x)
    d = 0 / x
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    e = np.arccos(x * 2)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    f = np.exp(np.array([1000.0]))
n = [str(w.message) for w in seen]
g = np.array([]).mean()
h = np.nanmean(np.array([np.nan, np.nan]))
k = np.int8(100) * np.int8(2)
o = np.array([300.0, 1.0]).astype(np.uint8)
print(n, a, np.geterr()["divide"])
del seen
""",
    "threads and fork pool": """
rng_ = np.random.default_rng(17)
parts_ = [rng_.random(100_000) for _ in range(8)]
---
import multiprocessing, queue, threading
from concurrent.futures import ThreadPoolExecutor
from joblib import Parallel, delayed
def work(a):
    return float(np.sort(a)[::1000].sum())
with ThreadPoolExecutor(4) as pool:
    sums = list(pool.map(work, parts_))
found, lock = [], threading.Lock()
def collect(a):
    value = np.quantile(a, 0.25)
    with lock:
        found.append(float(value))
threads = [threading.Thread(target=collect, args=(p,)) for p in parts_]
for t in threads:
    t.start()
for t in threads:
    t.join()
found.sort()
with multiprocessing.get_context("fork").Pool(2) as pool:
    mapped = pool.map(np.max, parts_)
jobs = Parallel(n_jobs=2, backend="threading")(delayed(work)(p) for p in parts_[:4])
q = queue.Queue()
for p in parts_:
    q.put(p.mean())
means = [q.get() for _ in parts_]
print([f"{s:.3f}" for s in sums[:3]])
del threads, t, lock, q, pool
""",
    "process pool and pickle": """
rng_ = np.random.default_rng(18)
x = rng_.random(200_000)
---
import copy, io, os, pickle, tempfile
import joblib
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
y = np.sqrt(x) * 2
with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    sums = list(pool.map(np.sum, np.array_split(y, 4)))
again = pickle.loads(pickle.dumps(y))
deep = copy.deepcopy({"y": y, "n": [y[:3]]})
shallow = copy.copy(y)
shallow[0] = -1
kept = float(y[0])
with tempfile.TemporaryDirectory() as folder:
    joblib.dump({"y": y}, os.path.join(folder, "y.joblib"))
    read = joblib.load(os.path.join(folder, "y.joblib"))["y"]
z = y[:]
z[1] = 7
print(y[1], bool((again == x ** 0.5 * 2).all()), kept >= 0, len(read))
del pool, folder
""",
    "async": """
import asyncio
async def load(k):
    await asyncio.sleep(0.01)
    return np.full(1000, float(k))
async def stream(n):
    for k in range(n):
        await asyncio.sleep(0)
        yield np.arange(k, k + 5)
async def run():
    parts = await asyncio.gather(*(load(k) for k in range(10)))
    total = sum(p.sum() for p in parts)
    rows = [r.mean() async for r in stream(5)]
    heavy = await asyncio.to_thread(lambda: np.sort(np.concatenate(parts))[::-1][:3])
    return total, rows, heavy
total, rows, heavy = await run()
async with asyncio.timeout(5):
    again = (await load(3)).max()
print(total, rows, heavy, again)
""",
    "files": """
rng_ = np.random.default_rng(19)
table_ = rng_.random((2000, 6)).round(4)
---
import csv, glob, io, os, tempfile
here = os.getcwd()
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    np.savetxt("t.csv", table_, delimiter=",", header="a,b,c,d,e,f", fmt="%.4f")
    named = np.genfromtxt("t.csv", delimiter=",", names=True)
    plain = np.loadtxt("t.csv", delimiter=",", skiprows=0, usecols=(0, 2))
    with open("t.csv") as f:
        head = next(csv.reader(f))
    for k in range(5):
        np.save(f"part{k}.npy", table_[k * 400:(k + 1) * 400])
    parts = [np.load(p) for p in sorted(glob.glob("part*.npy"))]
    back = np.concatenate(parts)
    np.savez("all.npz", table=table_, sums=table_.sum(axis=0))
    with np.load("all.npz") as z:
        files, sums = z.files, z["sums"]
    with open("part0.npy", "rb") as f:
        opened = np.load(f)
    buffer = io.BytesIO()
    np.save(buffer, table_[:3])
    buffer.seek(0)
    memory = np.load(buffer)
    table_[:10].tofile("raw.bin")
    raw = np.fromfile("raw.bin").reshape(10, 6)
    mapped = np.array(np.load("part1.npy", mmap_mode="r")[5])
    os.chdir(here)
same = np.array_equal(back, table_)
print(named.dtype.names, head, files, same, plain.shape, opened.shape, memory.shape)
del buffer, folder, z
""",
    "copies and views": """
a = np.arange(12.0).reshape(3, 4)
b, c, d, e = a[:], a.copy(), a.T, a[::2]
b[0, 0] = 100
d[1, 2] = -5
e += 1
c[0] = 0
f = a.ravel()
f[3] = 33
g = a.flatten()
g[3] = 44
h = np.asarray(a)
h[2] *= 2
row = a[1]
row[:] = row[::-1].copy()
shares = [np.shares_memory(a, x) for x in (b, c, d, e, f, g, h)]
bases = [b.base is a, c.base is None, a.flags.owndata, d.flags.c_contiguous]
swap = a.copy()
swap[[0, 2]] = swap[[2, 0]]
x, y = a[0].copy(), a[1].copy()
x, y = y, x
grid = [[0] * 3] * 2
arrays = [np.zeros(2)] * 3
arrays[0][0] = 1
print(a, shares, bases, arrays)
""",
    "type checks": """
import json, numbers
from functools import singledispatch
w = np.linspace(0, 1, 50)
m, ok = w.mean(), np.allclose(w, w)
n, k = np.count_nonzero(w > 0.5), w.argmax()
@singledispatch
def kind(v):
    return "other"
@kind.register
def _(v: float):
    return "float"
@kind.register
def _(v: np.ndarray):
    return "array"
match m:
    case float():
        matched = "float"
    case _:
        matched = "other"
checks = [isinstance(m, float), isinstance(m, np.floating), isinstance(m, np.generic), isinstance(m, numbers.Real),
          isinstance(n, int), isinstance(k, np.integer), isinstance(k, numbers.Integral), np.isscalar(m),
          isinstance(w, np.ndarray), ok is True, isinstance(ok, bool), callable(w),
          isinstance(w[0], np.float64), isinstance(w[:2], np.ndarray), type(w.dtype) is np.dtype, hasattr(w, "shape"),
          isinstance(w.shape, tuple), isinstance(w.tolist()[0], float), isinstance(len(w), int),
          issubclass(type(m), float)]
lookup = {m: 1, k: 2}
text = json.dumps({"m": m, "w": w.tolist()[:2]})
kinds = [kind(m), kind(w), kind(3)]
print(checks, matched, text, kinds, repr(m), type(m).__name__)
""",
    "numba": """
rng_ = np.random.default_rng(20)
from numba import njit, vectorize
x = rng_.random(500_000)
if "walk_" not in globals():  # compiled in the first run
    @njit
    def walk_(a):
        total = 0.0
        for v in a:
            total += v * v if v > 0.5 else 0.0
        return total
    @vectorize(["float64(float64, float64)"])
    def clipped_(a, b):
        return a if a < b else b
---
total = walk_(x)
lazy = walk_(np.sqrt(x))
c = clipped_(x, 0.25)
mean = c.mean()
print(f"{total:.4f} {lazy:.4f} {mean:.5f}")
""",
    "vectorize, fromfunction, apply_along_axis": """
rng_ = np.random.default_rng(21)
X = rng_.random((400, 30))
---
def score(a, b):
    return a if a > b else b * 2
vs = np.vectorize(score)
v = vs(X[:100], 0.5)
pair = np.vectorize(lambda a, b: np.dot(a, b), signature="(n),(n)->()")
dots = pair(X[:200], X[0])
grid = np.fromfunction(lambda i, j: i * 10 + j, (50, 60), dtype=int)
spans = np.apply_along_axis(lambda r: r.max() - r.min(), 1, X)
gcd = np.frompyfunc(lambda a, b: a * b % 7, 2, 1)
outer = gcd.outer(np.arange(5), np.arange(6)).astype(int)
table = np.array([[score(a, b) for a in X[0, :5]] for b in X[1, :5]])
over = np.apply_over_axes(np.sum, X.reshape(20, 20, 30), [0, 2])
pieces = np.piecewise(X[0], [X[0] < 0.3, X[0] > 0.7], [0, 1, lambda t: t * 10])
chosen = np.select([X < 0.2, X < 0.5], [X, -X], default=9)
print(v.shape, outer, over.shape)
del pair, vs
""",
    "print, format, printoptions": """
x = np.linspace(0, 1, 7)
big = np.arange(3000).reshape(50, 60)
print(x)
print(big)
print(f"{x.mean():.3f} {x[2]:>8.4f} {big.sum():,} {x.max()!r} {big.shape}")
print("{:e} {}".format(x[3], x[:2]))
print("%.2f %s" % (x[1], big[0, :3]))
with np.printoptions(precision=2, suppress=True, linewidth=40):
    print(x * 1e3, x / 3)
text = np.array2string(x, precision=3, separator=", ", formatter={"float_kind": lambda v: f"{v:.1f}"})
s, r = str(x[:3]), repr(big[:2, :3])
print(text, s, r, [x[1], big[0, 0]], (x.sum(),), {"a": x[:2]})
display(x[:3])
c = np.array([1 + 2j, 3.5])
b = np.array([True, False])
print(c, b, np.array(["a", "bc"]), np.array([1.0, np.nan, np.inf]), np.float32(1) / 3, x.dtype)
print(*x[:3], sep="|")
x[:4]
""",
    "sorted, heapq, Counter, accumulate": """
import bisect, heapq, itertools, operator
from collections import Counter, defaultdict
rng = np.random.default_rng(22)
points = rng.random((200, 2))
ages = rng.integers(0, 9, 300)
near = sorted(points, key=lambda p: p @ p)[:3]
rows = sorted(range(len(points)), key=lambda i: -points[i, 0])[:5]
least = heapq.nsmallest(3, points[:, 1])
count = Counter(ages.tolist()).most_common(2)
count2 = Counter(ages)
groups = defaultdict(list)
for a, p in zip(ages, points):
    groups[int(a)].append(p[0])
means = {k: np.mean(v) for k, v in sorted(groups.items())}
runs = [(int(k), len(list(g))) for k, g in itertools.groupby(np.sort(ages))]
running = list(itertools.accumulate(points[:5, 0], operator.add))
at = bisect.bisect(np.sort(points[:, 0]), 0.5)
pairs = [(int(a), int(b)) for a, b in itertools.combinations(ages[:4], 2)]
largest, smallest = max(points, key=lambda p: p[1]), min(points[:, 0])
anyone = any(p[0] > 0.99 for p in points)
unique = set(ages.tolist()) | set(ages)
print(count, runs[:3], at, pairs, sorted(unique))
""",
    "30 writes in place": """
rng = np.random.default_rng(23)
a = rng.random((50, 50)); b = rng.integers(0, 100, 60); c = rng.random(60); s = b.copy()
a += 1; a -= 0.5; a *= 2; a /= 3; a **= 2; a //= 0.1; a %= 7
b <<= 2; b >>= 1; b |= 1; b &= 0xFF; b ^= 3
q = rng.random((4, 4)); q @= q
np.add.at(c, [0, 0, 3], 1); np.subtract.at(c, [1, 1], 2)
np.place(s, s > 50, [1, 2]); np.put(s, [0, -1], [-7, -8]); np.putmask(s, s > 40, s * 2); np.copyto(c[:5], 9)
c.sort(); s.partition(10); d = np.zeros(3); d.resize((2, 3), refcheck=False)
np.fill_diagonal(a, -1)
np.sqrt(c, out=c, where=c > 0)
np.multiply(a, 2, out=a)
np.cumsum(c, out=c)
a[1:, 0], a[0, 1:] = a[0, 1:].copy(), a[1:, 0].copy()
a[a > 5] = 5; a[[1, 3]] = 0; a[:, -1] += 1; a[::-1][0] = 4
c.fill(0.5) if c.size > 100 else c.clip(0, 30, out=c)
e = np.arange(10); e.flat[::3] = -1; e.shape = (2, 5); e.T[0] = 99
rng.shuffle(e); np.random.default_rng(1).shuffle(s)
np.maximum(a, 0, out=a)
f = np.arange(6.0); f[1:] += f[:-1]; f[...] = f[::-1]; np.take(f, [1, 2], out=f[:2])
g = np.zeros((2, 3), complex); g.real = 1; g.imag[0] = 2
h = np.empty(4); np.mean(a[:, :4], axis=0, out=h)
print(a.sum().round(6), b.sum(), e.ravel(), f, d.shape)
""",
    "ndindex, ndenumerate, flat, nditer": """
rng = np.random.default_rng(24)
M = rng.random((60, 60))
total, count = 0.0, 0
for i, j in np.ndindex(M.shape):
    if i > j:
        total += M[i, j]
for index, v in np.ndenumerate(M):
    if v > 0.9:
        count += sum(index)
flat = [v for v in M.flat if v > 0.99]
first = M.flat[17]
M.flat[3] = 5
out = np.zeros_like(M)
for v, o in np.nditer([M, out], op_flags=[["readonly"], ["writeonly"]]):
    o[...] = v * 2
with np.nditer(M, op_flags=["readwrite"]) as it:
    for v in it:
        v[...] = -v
b = np.broadcast(np.arange(3)[:, None], np.arange(4))
pairs = [(int(x), int(y)) for x, y in b][:5]
print(f"{total:.4f}", count, len(flat), first, b.shape, pairs)
del b, it
""",
    "reduce, dispatch, unpacking, walrus": """
import math
from functools import reduce
ops = {"mean": np.mean, "rms": lambda v: np.sqrt(np.mean(v ** 2)), "span": np.ptp, "med": np.median}
rng = np.random.default_rng(34)
data = rng.normal(size=(6, 500))
table = {name: [f(row) for row in data] for name, f in ops.items()}
first, *middle, last = data[:, 0]
(a, b), c = data[:2, 1], data[2, 1]
product = reduce(np.matmul, [np.eye(3) * k for k in range(1, 6)])
exact = math.fsum(data[0])
large = [m for row in data if (m := row.max()) > 2.9]
while (norm := np.linalg.norm(data)) > 1:
    data = data / 2
x, y = np.meshgrid(np.arange(4), np.arange(3))
u, v = divmod(np.arange(10), 3)
r, t = np.unravel_index([5, 7], (3, 4))
total = sum(data[0]) + math.sqrt(data[1, 0] ** 2) + abs(data[2, 0]) + round(float(data[3, 0]), 3)
gcd = math.gcd(*np.array([12, 18, 24]).tolist())
i = int(data[0].argmax()); z = [10, 20, 30][np.array(1)]; w = list(range(20))[np.int64(3):np.int64(6)]
text = f"{math.pi * data[0, 0]:.6f} {math.floor(x[0, 2])} {'ab' * x[0, 2]}"
best = max(table, key=lambda n: np.std(table[n]))
print(exact, len(large), f"{norm:.4f}", z, w, text, best, len(middle))
del ops
""",
    "stack and dicts of rows": """
parts_ = [np.random.default_rng(k).random(100) for k in range(2000)]
t = np.random.default_rng(41).random((300, 3))
---
s = np.stack([p * 2 for p in parts_])
c = np.concatenate(parts_)
rows = [dict(a=float(r[0]), b=r.tolist()) for r in t * 2]
sums = np.array([p.sum() for p in parts_])
order = np.argsort(sums)
best = [parts_[i] for i in order[-3:]]
padded = np.zeros((50, 10))
for i in range(50):
    padded[i, :i % 10 + 1] = parts_[i][:i % 10 + 1]
lengths = np.array([len(p) for p in parts_])
table = np.array([(i, p[0], p[-1]) for i, p in enumerate(parts_[:500])])
print(s.shape, c.shape, rows[0]["a"], padded.sum().round(4), table.shape)
""",
    "objects, Fraction, Decimal": """
from decimal import Decimal
from fractions import Fraction
d = np.arange(5.0)
o = d.astype(object)
first = o[0]
half = np.array([Fraction(1, 2), Fraction(1, 3)])
total = half.sum()
exact = Fraction(d.sum())
money = np.array([Decimal("1.10"), Decimal("2.20")])
paid = money.sum()
mixed = np.array([1, "two", None], dtype=object)
ragged = np.array([np.arange(2), np.arange(3)], dtype=object)
lengths = [len(r) for r in ragged]
names = np.array(["a", None, "b"], dtype=object)
kept = [n for n in names if n]
print(first, total, exact, paid, mixed, lengths, kept)
""",
}
