"""The cells of `python -m tests.benchmarks course`: the cell that makes the arrays, and 48 titles with their code."""

from __future__ import annotations

__all__ = ["ARRAYS", "COURSE"]

ARRAYS = """
import numpy as np
rng_ = np.random.default_rng(42)
n = 1_000_000
a = rng_.normal(size=n); b = rng_.normal(size=n); k = rng_.integers(0, 100, n)
M = a.reshape(1000, 1000).copy(); V = b[:1000].copy()
names = np.array(["ann", "bob", "cleo", "dan"])[k % 4]
people = np.zeros(n, dtype=[("name", "U8"), ("age", "i4"), ("height", "f8")])
people["name"] = names; people["age"] = k; people["height"] = 1.7 + 0.1 * a
days = np.datetime64("2020-01-01") + k.astype("timedelta64[D]")
words = np.array(["x%d" % i for i in range(1000)], dtype=object)
"""
COURSE = """
# broadcasting: normalise rows and columns
r = (M - M.mean(axis=0)) / M.std(axis=0)
r2 = M + V[:, None] * V
r3 = np.sqrt(((M[:200, None, :3] - M[None, :200, :3]) ** 2).sum(axis=-1))

# boolean masks
r = a[a > 1]
r2 = a[(a > -1) & (a < 1)].mean()
c = a.copy()
c[c < 0] = 0
r3 = np.count_nonzero(c == 0), (~(a > 0)).sum()

# fancy indexing
idx = np.argsort(k, kind='stable')[:1000]
r = a[idx]
r2 = M[[1, 5, 9]][:, [0, 2]]
r3 = M[np.ix_([1, 2], [3, 4])]
r4 = M[np.arange(1000), np.arange(1000)[::-1]]
r5 = np.take(a, [3, 1, -1])

# fancy assignment and add.at
c = np.zeros(100)
np.add.at(c, k, a)
r = c
d = a.copy()
d[[1, 2, 3]] += 10
d[k[:5]] = -1
r2 = d[:200]

# in-place views
c = M.copy()
c[0] += 1
c[:, 0] *= 2
c[1:-1, 1:-1] = (c[:-2, 1:-1] + c[2:, 1:-1] + c[1:-1, :-2] + c[1:-1, 2:]) / 4
v = c[::2]
v -= v.mean()
r = c
r2 = v.base is c, np.shares_memory(v, c)

# structured arrays
r = people['height'][people['age'] > 50].mean()
p = people.copy()
p['age'] += 1
r2 = p[p['name'] == 'bob'][:3]
r3 = np.sort(p[:1000], order=['age', 'height'])['age']
r4 = p[0]
r5 = p.dtype.names

# sorting
r = np.sort(a)
r2 = np.argsort(M, axis=1)[:, :5]
r3 = np.partition(a, 10)[:10].max()
r4 = np.lexsort((a, k))[:10]
r5 = np.searchsorted(r, [0.0, 1.0])
c = a.copy(); c.sort(); r6 = c[-3:]

# statistics
r = a.mean(), a.std(ddof=1), np.median(a), np.percentile(a, [5, 50, 95])
r2 = np.corrcoef(a, b)
r3 = np.cov(M[:5])
r4 = np.histogram(a, bins=20)
r5 = np.bincount(k)
r6 = np.average(a, weights=k)
r7 = np.var(M, axis=0)

# unique and sets
r = np.unique(k, return_counts=True)
r2 = np.unique(names)
r3 = np.intersect1d(k[:1000], [3, 5, 7])
r4 = np.isin(k, [1, 2]).sum()
r5 = np.setdiff1d(np.arange(120), k)
r6 = np.union1d(k[:5], [200])

# linear algebra
A = M[:300, :300]
r = np.linalg.solve(A, V[:300])
r2 = np.linalg.det(A / 20)
r3 = np.linalg.inv(A) @ A
w = np.linalg.eigvalsh(A + A.T)
r4 = w[-3:]
r5 = np.linalg.svd(A, compute_uv=False)[:3]
r6 = np.linalg.norm(A), np.trace(A), np.linalg.matrix_rank(A)

# matmul and dot
r = M @ M
r2 = M.T @ V
r3 = np.dot(V, V)
r4 = np.outer(V[:10], V[:10])
r5 = np.vdot(a, b)
r6 = np.kron(np.eye(2), M[:2, :2])

# least squares and QR
X = np.column_stack([np.ones(n), a, a ** 2])
y = 1 + 2 * a + 0.1 * b
r, res, rank, sv = np.linalg.lstsq(X, y, rcond=None)
q, rr = np.linalg.qr(M[:, :50])
r2 = np.abs(np.diag(rr))

# FFT
f = np.fft.rfft(a)
r = np.abs(f[:10])
r2 = np.fft.fftfreq(8, 0.1)
r3 = np.fft.irfft(f, n)[:5]
r4 = np.fft.fft2(M)[:2, :2]
r5 = np.fft.fftshift(np.arange(5))

# strings
r = np.char.upper(names)[:3]
r2 = np.strings.str_len(names).sum()
r3 = np.char.add(names[:5], '!')
r4 = names == 'bob'
r5 = np.strings.find(names, 'o')[:8]
r6 = np.char.replace(names[:4], 'o', '0')
r7 = np.strings.title(names)[:4]

# object dtype
r = words[:3] + '!'
r2 = np.array([1, 'two', None], dtype=object)
r3 = np.array([2 ** 100, 3], dtype=object) * 2

# random
rng = np.random.default_rng(0)
x = rng.normal(size=10)
r = x
r2 = rng.integers(0, 10, 5)
r3 = rng.choice(['a', 'b'], 4)
z = rng.permutation(10)
r4 = z
r5 = rng.random((2, 2))
r6 = rng.shuffle(z)

# legacy random
np.random.seed(1)
r = np.random.rand(3)
r2 = np.random.randint(0, 9, 4)
r3 = np.random.choice(5, 3, replace=False)
r4 = np.random.randn(2, 2)

# polynomials
c = np.polyfit(np.arange(10.0), np.arange(10.0) ** 2, 2)
r = c.round(6)
r2 = np.polyval([1, 2, 3], a)[:4]
p = np.poly1d([1, -3, 2])
r3 = p.roots
r4 = np.roots([1, 0, -1])
from numpy.polynomial import Polynomial
r5 = Polynomial([1, 2, 3])(a)[:3]
r6 = Polynomial.fit(a[:1000], b[:1000], 2).convert().coef

# meshgrid
x = np.linspace(-2, 2, 1000)
X, Y = np.meshgrid(x, x)
r = np.exp(-(X ** 2 + Y ** 2))
gx, gy = np.gradient(r)
r2 = gx[500, 500], np.abs(gy).max()
r3 = np.mgrid[0:3, 0:2]
r4 = np.ogrid[0:3, 0:2][0]
r5 = np.indices((2, 3))

# where and select
r = np.where(a > 0, a, 0)
r2 = np.select([a < -1, a > 1], [-1, 1], default=0)
r3 = np.where(a > 3)[0][:5]
r4 = np.piecewise(a, [a < 0, a >= 0], [lambda t: -t, lambda t: t])
r5 = np.clip(a, -1, 1)
r6 = np.choose(k % 3, [a, b, 0])
r7 = np.digitize(a, [-1, 0, 1])

# einsum
r = np.einsum('ij,ij->i', M, M)
r2 = np.einsum('ij,jk->ik', M[:200], M)
r3 = np.einsum('ii', M)
r4 = np.einsum('i,j', V[:3], V[:3])
r5 = np.tensordot(M, M, axes=([0], [0]))[:2, :2]

# masked arrays
m = np.ma.masked_where(a < 0, a)
r = m.mean()
r2 = m[:5].filled(-1)
r3 = np.ma.masked_invalid(np.array([1.0, np.nan, 3.0])).sum()
r4 = m.count()
r5 = (m * 2).compressed()[:3]
r6 = np.ma.median(m)

# datetime64
r = days.min(), days.max()
r2 = (days - days[0]).astype(int)[:5]
r3 = days.astype('datetime64[M]')[:4]
r4 = np.unique(days.astype('datetime64[M]'))
r5 = np.is_busday(days[:10])
r6 = np.diff(np.sort(days)).max()
r7 = np.arange('2020-01', '2020-04', dtype='datetime64[M]')
r8 = np.busday_count('2020-01-01', '2020-02-01')

# reshaping and stacking
r = np.concatenate([a, b]).reshape(2, -1).T
r2 = np.stack([V, V], axis=1)
r3 = np.hstack([M[:2], M[:2]])
r4 = np.split(np.arange(9), 3)[1]
r5 = np.tile(V[:3], 2)
r6 = np.repeat(V[:3], [1, 2, 3])
r7 = np.moveaxis(a.reshape(10, 100, 1000), 0, -1).shape
r8 = np.pad(V[:3], 2, mode='reflect')
r9 = np.flip(M, 1)[0, :3]

# cumulative and differences
r = np.cumsum(a)
r2 = np.diff(a, 2)[:5]
r3 = np.cumprod(1 + a[:50] / 10)
r4 = np.maximum.accumulate(a)
r5 = np.add.reduceat(a, [0, 10, 1000])
r6 = np.trapezoid(a, dx=0.1)
r7 = np.convolve(a, np.ones(5) / 5, mode='valid')
r8 = np.interp([0.5, 1.5], np.arange(1000.0), V)

# loops over elements
s = 0.0
for v in V:
    s += v * v
r = s
best = max(V)
out = []
for i in range(100):
    out.append(a[i] * 2)
r2 = np.array(out)
c = V.copy()
for i in range(1, len(c)):
    c[i] = 0.5 * c[i - 1] + c[i]
r3 = c
r4 = [int(x) for x in k[:5]], best

# sliding windows and strides
from numpy.lib.stride_tricks import sliding_window_view
r = sliding_window_view(a, 7).mean(axis=1)
r2 = np.lib.stride_tricks.as_strided(V, (3, 3), (8, 8))
r3 = sliding_window_view(M, (3, 3))[::10, ::10].max(axis=(2, 3))
r4 = np.broadcast_to(V[:2], (3, 2)).strides

# dtypes and casting
r = k.astype('u1')
r2 = (k / 3).dtype, (k // 3).dtype
r3 = np.float32(1) + a[:3]
r4 = np.int8(100) + np.int8(100)
r5 = np.array([1, 2.5, True])
r6 = a.astype(int)[:5]
r7 = k.view('u8')[:2]
r8 = np.finfo(a.dtype).eps, np.iinfo('i2').max, a.nbytes, a.itemsize
r9 = np.can_cast('f8', 'f4'), np.result_type('i4', 'f4')

# vectorize, apply, frompyfunc
f = np.vectorize(lambda t: t ** 2 if t > 0 else 0.0)
r = f(V)
r2 = np.apply_along_axis(lambda row: row.max() - row.min(), 1, M)
g = np.frompyfunc(lambda p, q: p + q, 2, 1)
r3 = g(V[:3], 1)
r4 = np.fromfunction(lambda i, j: i + j, (3, 3))

# saving and loading
import tempfile, os
path = os.path.join(tempfile.mkdtemp(), 'a.npy')
np.save(path, M)
r = np.load(path).sum()
np.savez(path + 'z', x=V, y=a)
z = np.load(path + 'z.npz')
r2 = z['x'][:3]
np.savetxt(path + '.txt', M[:3, :3])
r3 = np.loadtxt(path + '.txt')
r4 = a.tolist()[:2], a.tobytes()[:8]

# error: shapes
r = M + np.ones(7)

# error: index
r = V[1000]

# error: truth value
if a > 0:
    r = 1

# error: matmul
r = M @ np.ones(5)

# error: reshape
r = a.reshape(3, -1)

# error: int nan
z = np.zeros(3, int)
z[0] = np.nan

# error: singular
r = np.linalg.inv(np.zeros((3, 3)))

# error: axis
r = M.sum(axis=2)

# error: concatenate
r = np.concatenate(V, V)

# error: attribute
r = a.lenght

# error: ragged
r = np.array([[1, 2], [3]])

# error: read-only
r = np.broadcast_to(V, (2, 1000))
r[0, 0] = 1

# error: mask length
r = a[M[0] > 0]

# error: casting
z = np.arange(3)
z += 0.5

# error: name
r = np.arrange(3)

# warnings: divide, log, overflow
r = 1 / (k - 50.0)
r2 = np.log(a)
r3 = np.exp(a * 1000)
r4 = np.int32(2**31 - 1) + np.int32(1)
r5 = np.array([1, 2]) / 0

# printing
print(a[:3], a.shape, k.dtype)
print(f'{a.mean():.3f}', repr(V[:2]), str(M[:2, :2]))
print(M)
r = a[:3]

# iteration and unpacking
r = [row.sum() for row in M[:50]]
x, y, z = V[:3]
r2 = x + y + z
r3 = dict(zip(['p', 'q'], V[:2]))
r4 = list(enumerate(k[:3]))
r5 = 5 in k, len(M), bool(a.any())
r6 = sum(V[:10]), sorted(V[:5])
r7 = {int(i): float(v) for i, v in enumerate(V[:3])}
"""
