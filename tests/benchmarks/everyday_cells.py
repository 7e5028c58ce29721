"""Cells of data analysis, for `python -m tests.benchmarks everyday`: titles and code.

Before a line of dashes stands a plain cell that makes the inputs; many cells need none. The sizes are those of a
notebook that NumPy computes in 5 ms to 2 s. Names that end with an underscore are not compared.
"""

from __future__ import annotations

__all__ = ["ANALYSIS"]

ANALYSIS: dict[str, str] = {
    "climate anomalies, trends, percentiles": """
rng_ = np.random.default_rng(1)
months = np.arange(240)
temp = 15 + 8 * np.sin(2 * np.pi * months / 12)[:, None, None] + rng_.normal(size=(240, 90, 180))
---
by_year = temp.reshape(20, 12, 90, 180)
climate = by_year.mean(axis=0)
anomaly = (by_year - climate).reshape(temp.shape)
t = months - months.mean()
slope = np.tensordot(t, anomaly, axes=(0, 0)) / (t ** 2).sum()
p10, p90 = np.percentile(anomaly, [10, 90], axis=0)
hot = (anomaly > p90).sum(axis=0)
weights = np.cos(np.deg2rad(np.linspace(-89, 89, 90)))
series = np.average(anomaly.mean(axis=2), axis=1, weights=weights)
warmest = np.argsort(series)[-5:][::-1]
print("trend per decade:", (slope * 120).mean().round(4), "hottest month", warmest[0])
""",
    "segmentation by scipy.ndimage": """
rng_ = np.random.default_rng(2)
image = rng_.random((1000, 1000))
---
from scipy import ndimage
smooth = ndimage.gaussian_filter(image, 3)
mask = smooth > smooth.mean() + smooth.std()
labels, count = ndimage.label(mask)
sizes = ndimage.sum_labels(mask, labels, np.arange(1, count + 1))
large = np.flatnonzero(sizes > 50) + 1
boxes = ndimage.find_objects(labels)
areas = [(b[0].stop - b[0].start) * (b[1].stop - b[1].start) for b in boxes]
distance = ndimage.distance_transform_edt(mask)
centres = np.array(ndimage.center_of_mass(mask, labels, large))
print(f"{count} objects, {len(large)} large, widest {distance.max():.2f}")
""",
    "sensor windows and events": """
rng_ = np.random.default_rng(3)
load = np.sin(np.arange(24 * 3650) / 24 * 2 * np.pi) + rng_.normal(size=24 * 3650) * 0.3
---
days = load.reshape(-1, 24)
daily = days.max(axis=1) - days.min(axis=1)
windows = np.lib.stride_tricks.sliding_window_view(load, 24)
rolling = windows.mean(axis=1)
spread = windows.std(axis=1)
high = load > 1.4
edges = np.flatnonzero(np.diff(high.astype(int))) + 1
events = [part for part in np.split(load, edges) if part[0] > 1.4]
longest = max(len(e) for e in events)
peaks = np.array([e.max() for e in events])
ema = np.zeros(2000)
for i in range(1, 2000):
    ema[i] = 0.9 * ema[i - 1] + 0.1 * load[i]
print(len(events), longest, f"{peaks.mean():.3f}")
""",
    "Asian option": """
rng_ = np.random.default_rng(4)
noise = rng_.normal(size=(20_000, 100))
---
S0, K, r, sigma, T = 100.0, 105.0, 0.03, 0.2, 1.0
dt = T / noise.shape[1]
steps = (r - sigma ** 2 / 2) * dt + sigma * np.sqrt(dt) * noise
paths = S0 * np.exp(np.cumsum(steps, axis=1))
payoff = np.maximum(paths.mean(axis=1) - K, 0)
price = np.exp(-r * T) * payoff.mean()
error = payoff.std(ddof=1) / np.sqrt(len(payoff))
knocked = (paths.min(axis=1) < 80).mean()
quantiles = np.quantile(paths[:, -1], [0.05, 0.5, 0.95])
print(f"{price:.3f} +- {error:.3f}, knocked out {knocked:.1%}")
""",
    "ridge path, Gram-Schmidt, eigen": """
rng_ = np.random.default_rng(5)
A = rng_.normal(size=(400, 60))
y = A @ rng_.normal(size=60) + rng_.normal(size=400)
---
path = []
for lam in np.logspace(-3, 3, 30):
    path.append(np.linalg.solve(A.T @ A + lam * np.eye(60), A.T @ y))
path = np.array(path)
Q = np.zeros_like(A)
for j in range(A.shape[1]):
    v = A[:, j].copy()
    for i in range(j):
        v -= (Q[:, i] @ A[:, j]) * Q[:, i]
    Q[:, j] = v / np.linalg.norm(v)
orthogonal = np.allclose(Q.T @ Q, np.eye(60))
w, V = np.linalg.eigh(A.T @ A)
L = np.linalg.cholesky(A.T @ A + np.eye(60))
b = np.linalg.solve(L, A.T @ y)
V = np.abs(V)
print(orthogonal, w[-1] / w[0] > 1, L.shape)
""",
    "records: trades": """
rng_ = np.random.default_rng(6)
n = 200_000
trades = np.zeros(n, dtype=[("sym", "U4"), ("price", "f8"), ("size", "i4"), ("t", "M8[s]")])
trades["sym"] = rng_.choice(["AAPL", "MSFT", "GOOG"], n)
trades["price"] = 100 + rng_.normal(size=n).cumsum() * 0.01
trades["size"] = rng_.integers(1, 500, n)
trades["t"] = np.datetime64("2024-01-02T09:30:00") + np.sort(rng_.integers(0, 23400, n))
---
minute = trades["t"].astype("M8[m]")
starts = np.flatnonzero(np.concatenate([[True], minute[1:] != minute[:-1]]))
volume = np.add.reduceat(trades["size"], starts)
vwap = np.add.reduceat(trades["price"] * trades["size"], starts) / volume
per = {s: trades["size"][trades["sym"] == s].sum() for s in np.unique(trades["sym"])}
book = trades[:1000].copy()
book["price"] *= 1.01
book["size"][book["size"] < 10] = 10
first, last = trades[0], trades[-1]["price"]
top = np.sort(trades[:2000], order=["sym", "size"])[-3:]
print(book.dtype.names, first["sym"], f"{last:.2f}", {k: int(v) for k, v in per.items()})
""",
    "log lines": """
kind_ = ["ERROR", *["INFO"] * 6]
lines_ = [f"2024-03-{d % 28 + 1:02d} {kind_[d % 7]} user{d % 13} took {d % 977}ms" for d in range(20_000)]
---
log = np.array(lines_)
is_error = np.strings.find(log, "ERROR") >= 0
day = np.strings.slice(log, 8, 10).astype(int)
at = np.strings.find(log, "took ")
took = np.array([int(line.rsplit(" ", 1)[1][:-2]) for line in log])
user = np.strings.slice(log, np.strings.find(log, "user"), at - 1)
names, counts = np.unique(user, return_counts=True)
per_day = np.bincount(day, weights=is_error)
slowest = log[np.argmax(took)]
upper = np.char.upper(user[:5])
joined = np.strings.add(np.strings.add(user[:3], "@"), "host")
print(dict(zip(names.tolist(), counts.tolist())))
print(slowest, upper, joined, np.strings.str_len(log).max())
""",
    "dates": """
rng_ = np.random.default_rng(7)
---
days = np.arange("2020-01-01", "2024-01-01", dtype="M8[D]")
sales = rng_.integers(0, 100, len(days))
months = days.astype("M8[M]")
first = np.unique(months, return_index=True)[1]
monthly = np.add.reduceat(sales, first)
weekday = (days.astype("i8") - 4) % 7
by_weekday = np.array([sales[weekday == k].mean() for k in range(7)])
business = np.is_busday(days)
n_days = np.busday_count("2020-01-01", "2024-01-01", holidays=["2020-12-25"])
due = np.busday_offset(days[:5], 10, roll="forward")
gaps = days.copy()
gaps[::100] = np.datetime64("NaT")
missing = np.isnat(gaps).sum()
span = (np.nanmax(gaps) - np.nanmin(gaps)).astype(int)
one = days[3].item()
print(one.isoformat(), one.weekday(), months[0], due, missing, span, business.sum(), n_days)
""",
    "groupby of a million rows": """
rng_ = np.random.default_rng(8)
key = rng_.integers(0, 200, 1_000_000)
value = rng_.gamma(2.0, size=1_000_000)
---
counts = np.bincount(key)
sums = np.bincount(key, weights=value)
means = sums / counts
squares = np.bincount(key, weights=value ** 2)
std = np.sqrt(squares / counts - means ** 2)
largest = np.zeros(200)
np.maximum.at(largest, key, value)
order = np.argsort(key, kind="stable")
groups = np.split(value[order], np.cumsum(counts)[:-1])
medians = [float(np.median(g)) for g in groups]
table = [dict(key=k, n=int(counts[k]), mean=float(means[k])) for k in range(200)]
centred = value - means[key]
best = int(np.argmax(medians))
print(best, f"{medians[best]:.4f}", table[0]["n"])
""",
    "masked sensor table": """
rng_ = np.random.default_rng(9)
raw = rng_.normal(size=(4000, 50))
raw[rng_.random(raw.shape) < 0.1] = -999
---
m = np.ma.masked_equal(raw, -999)
m = np.ma.masked_outside(m, -3, 3)
share = m.mask.mean(axis=0)
mean, sd = m.mean(axis=0), m.std(axis=0)
z = (m - mean) / sd
filled = z.filled(0.0)
rows = np.ma.compress_rows(z[:500, :5])
valid = m.count(axis=1)
best = int(valid.argmax())
cov = np.ma.cov(m[:, :4], rowvar=False)
first = m[0].compressed()[:3]
gone = m[np.unravel_index(np.argmax(m.mask), m.shape)] is np.ma.masked
print(gone, best, f"{m.sum():.3f}", rows.shape)
""",
    "pandas and xarray": """
rng_ = np.random.default_rng(10)
import pandas as pd, xarray as xr
frame = pd.DataFrame({"g": rng_.integers(0, 20, 50_000), "x": rng_.normal(size=50_000), "y": rng_.random(50_000)})
cube = xr.DataArray(rng_.random((100, 50, 60)), dims=("t", "y", "x"), coords={"t": np.arange(100)})
---
frame["z"] = np.log1p(np.abs(frame["x"])) * np.sqrt(frame["y"])
frame["band"] = np.where(frame["y"] > 0.5, "high", "low")
by = frame.groupby("g")["z"].agg(["mean", "std", "max"])
pivot = frame.pivot_table(index="g", columns="band", values="x", aggfunc="mean")
corr = np.corrcoef(frame["x"].to_numpy(), frame["z"].to_numpy())[0, 1]
frame["rank"] = frame["z"].rank()
weights = frame["y"].to_numpy() / frame["y"].sum()
weighted = np.dot(weights, frame["z"].to_numpy())
clim = cube.groupby(cube.t % 10).mean()
anomaly = (cube.mean(("y", "x")) - cube.mean()).values
rolled = cube.rolling(t=5).mean().isel(t=10).values
out = pd.DataFrame({"a": np.linspace(0, 1, 5), "b": np.arange(5)}).describe()
print(by.head(3).round(3), f"{corr:.4f} {weighted:.4f}")
""",
    "scikit-learn pipeline": """
rng_ = np.random.default_rng(11)
X = rng_.normal(size=(4000, 12))
y = (X[:, 0] + X[:, 1] ** 2 + rng_.normal(size=4000) * 0.3 > 0.7).astype(int)
---
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, confusion_matrix
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
F = np.column_stack([X, np.abs(X[:, :2])])
A, B, ya, yb = train_test_split(F, y, random_state=0)
model = make_pipeline(StandardScaler(), PolynomialFeatures(2), LogisticRegression(max_iter=300))
model.fit(A, ya)
p = model.predict(B)
accuracy = accuracy_score(yb, p)
confusion = confusion_matrix(yb, p)
scores = cross_val_score(model, F, y, cv=3)
explained = PCA(3).fit(X).explained_variance_ratio_
print(f"{accuracy:.3f} {np.mean(scores):.3f}", confusion.ravel(), explained.round(3))
""",
    "matplotlib": """
rng_ = np.random.default_rng(12)
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
field = rng_.random((1000, 1000))
---
fig, axes = plt.subplots(2, 2, figsize=(8, 6))
x = np.linspace(0, 10, 500)
axes[0, 0].imshow(np.sqrt(field), cmap="viridis")
n, bins, patches = axes[0, 1].hist(field.ravel(), bins=50)
axes[1, 0].plot(x, np.sin(x))
axes[1, 0].fill_between(x, np.sin(x) - 0.2, np.sin(x) + 0.2, alpha=0.3)
axes[1, 1].scatter(field[0], field[1], c=field[2], s=3)
limits = axes[1, 0].get_ylim()
fig.canvas.draw()
picture = np.asarray(fig.canvas.buffer_rgba())
shape = picture.shape
plt.close(fig)
print(shape, n.sum(), tuple(round(float(v), 3) for v in limits))
del fig, axes, patches
""",
    "Lorenz and orbit loops": """
def lorenz(s, sigma=10.0, rho=28.0, beta=8 / 3):
    x, y, z = s
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])
xs = np.zeros((2001, 3))
xs[0] = 0.0, 1.0, 1.05
for i in range(2000):
    xs[i + 1] = xs[i] + 0.01 * lorenz(xs[i])
def step(p, v, dt):
    a = -p / np.linalg.norm(p) ** 3
    v = v + dt * a
    return p + dt * v, v
p, v = np.array([1.0, 0.0]), np.array([0.0, 1.1])
orbit = []
for _ in range(500):
    p, v = step(p, v, 0.02)
    orbit.append(p)
orbit = np.stack(orbit)
energy = 0.5 * (v @ v) - 1 / np.hypot(*p)
print(f"{energy:.5f}", np.abs(xs).max(axis=0).round(2))
""",
    "image processing": """
rng_ = np.random.default_rng(25)
photo = rng_.integers(0, 256, (600, 800, 3)).astype(np.uint8)
---
from PIL import Image
grey = photo @ np.array([0.299, 0.587, 0.114])
ky, kx = np.fft.fftfreq(600)[:, None], np.fft.fftfreq(800)[None]
blur = np.fft.ifft2(np.fft.fft2(grey) * np.exp(-200 * (kx ** 2 + ky ** 2))).real
lut = (255 * (np.arange(256) / 255) ** 0.5).astype(np.uint8)
bright = lut[photo]
tiles = bright.reshape(6, 100, 8, 100, 3).mean(axis=(1, 3))
gy, gx = np.gradient(blur)
edges = np.hypot(gx, gy)
hist, _ = np.histogram(grey, bins=32, range=(0, 255))
strong = (edges > np.percentile(edges, 95)).sum()
flip = bright[::-1, ::-1]
padded = np.pad(flip, ((2, 2), (2, 2), (0, 0)), mode="reflect")
picture = Image.fromarray(flip).resize((80, 60))
same = np.asarray(picture)
print(picture.size, strong, hist[:4], padded.shape, tiles[0, 0].round(2))
del picture
""",
    "PageRank, Floyd-Warshall": """
rng_ = np.random.default_rng(26)
from scipy import sparse
n = 2000
links = (rng_.integers(0, n, 12_000), rng_.integers(0, n, 12_000))
---
G = sparse.csr_matrix((np.ones(12_000), links), shape=(n, n))
out = np.asarray(G.sum(axis=1)).ravel()
inverse = np.divide(1.0, out, out=np.zeros_like(out), where=out > 0)
P = sparse.diags(inverse) @ G
rank = np.full(n, 1 / n)
for turn in range(50):
    new = 0.85 * (P.T @ rank) + (0.15 + 0.85 * rank[out == 0].sum()) / n
    if np.abs(new - rank).sum() < 1e-10:
        break
    rank = new
top = np.argsort(rank)[-5:][::-1]
W = np.random.default_rng(27).integers(1, 50, (120, 120)).astype(float)
W[W > 20] = np.inf
np.fill_diagonal(W, 0)
for k in range(len(W)):
    W = np.minimum(W, W[:, k:k + 1] + W[k:k + 1])
print(turn, rank.sum().round(6), W.max())
del G, P
""",
    "edit distance, knapsack, sieve": """
def distance(a, b):
    D = np.zeros((len(a) + 1, len(b) + 1), int)
    D[:, 0], D[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, D[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
    return D[-1, -1]
d = distance("the quick brown fox jumps over the lazy dog", "a quick brown dog jumped over the lazy foxes")
weights, values = np.arange(5, 45), (np.arange(40) * 7) % 31 + 3
best = np.zeros(501, int)
for w, v in zip(weights, values):
    best[w:] = np.maximum(best[w:], best[:-w] + v)
sieve = np.ones(100_000, bool)
sieve[:2] = False
for k in range(2, int(np.sqrt(len(sieve))) + 1):
    if sieve[k]:
        sieve[k * k::k] = False
primes = np.flatnonzero(sieve)
gaps = np.diff(primes)
collatz = np.zeros(200, int)
for n in range(2, 200):
    m = n
    while m != 1:
        m = m // 2 if m % 2 == 0 else 3 * m + 1
        collatz[n] += 1
print(d, best[-1], len(primes), primes[-3:], gaps.max(), collatz.argmax())
""",
    "filters and spectrogram": """
rng_ = np.random.default_rng(28)
fs = 1000
t = np.arange(60_000) / fs
noisy = np.sin(2 * np.pi * 7 * t) + 0.5 * np.sin(2 * np.pi * 40 * t) + rng_.normal(size=t.size) * 0.3
---
from scipy import signal
b, a = signal.butter(4, 12, fs=fs)
low = signal.filtfilt(b, a, noisy)
f, times, S = signal.spectrogram(noisy, fs, nperseg=512)
peaks, info = signal.find_peaks(low, height=0.5, distance=50)
freq = 1 / np.diff(t[peaks]).mean()
spectrum = np.abs(np.fft.rfft(noisy * np.hanning(len(noisy)))) ** 2
main = np.fft.rfftfreq(len(noisy), 1 / fs)[np.argsort(spectrum)[-2:]]
rms = np.sqrt((low ** 2).mean())
dominant = f[S.argmax(axis=0)]
envelope = np.abs(signal.hilbert(low))
snr = 10 * np.log10(low.var() / (noisy - low).var())
print(f"{freq:.2f} {rms:.3f} {snr:.2f}", main, len(peaks), dominant[:3])
""",
    "bootstrap and permutation test": """
rng = np.random.default_rng(29)
obs = rng.gamma(2.0, size=80)
other = rng.gamma(2.2, size=90)
boot = [float(np.median(rng.choice(obs, len(obs)))) for _ in range(500)]
low, high = np.percentile(boot, [2.5, 97.5])
pooled = np.concatenate([obs, other])
observed = obs.mean() - other.mean()
count = 0
for _ in range(500):
    shuffled = rng.permutation(pooled)
    if abs(shuffled[:80].mean() - shuffled[80:].mean()) >= abs(observed):
        count += 1
p = (count + 1) / 501
jack = np.array([np.delete(obs, i).mean() for i in range(len(obs))])
bias = (len(obs) - 1) * (jack.mean() - obs.mean())
print(f"{low:.3f} {high:.3f} p={p:.3f} {bias:.1e}")
""",
    "Metropolis": """
rng = np.random.default_rng(30)
cov = np.array([[1.0, 0.6], [0.6, 2.0]])
inv = np.linalg.inv(cov)
def log_p(v):
    return -0.5 * v @ inv @ v
x, accepted, chain = np.zeros(2), 0, []
for k in range(2000):
    y = x + rng.normal(size=2) * 0.8
    if np.log(rng.random()) < log_p(y) - log_p(x):
        x, accepted = y, accepted + 1
    chain.append(x)
chain = np.array(chain)[500:]
mean, estimate = chain.mean(axis=0), np.cov(chain.T)
lag = np.correlate(chain[:, 0] - mean[0], chain[:, 0] - mean[0], "full")[len(chain) - 1:]
tau = 1 + 2 * (lag[1:50] / lag[0]).sum()
print(accepted, mean.round(3), estimate.round(3), f"{tau:.2f}")
""",
    "MLP with mini-batches": """
rng_ = np.random.default_rng(31)
X = rng_.normal(size=(1600, 16))
Y = ((X[:, :3] ** 2).sum(axis=1, keepdims=True) > 3) * 1.0
---
rng = np.random.default_rng(32)
W1, b1 = rng.normal(size=(16, 32)) * 0.2, np.zeros(32)
W2, b2 = rng.normal(size=(32, 1)) * 0.2, np.zeros(1)
losses = []
for epoch in range(4):
    order = rng.permutation(len(X))
    for start in range(0, len(X), 80):
        pick = order[start:start + 80]
        x, y = X[pick], Y[pick]
        h = np.maximum(x @ W1 + b1, 0)
        p = 1 / (1 + np.exp(-(h @ W2 + b2)))
        d2 = (p - y) / len(x)
        d1 = (d2 @ W2.T) * (h > 0)
        W2 -= 0.5 * h.T @ d2
        b2 -= 0.5 * d2.sum(axis=0)
        W1 -= 0.5 * x.T @ d1
        b1 -= 0.5 * d1.sum(axis=0)
        losses.append(float(-np.mean(y * np.log(p + 1e-9) + (1 - y) * np.log(1 - p + 1e-9))))
pred = (np.maximum(X @ W1 + b1, 0) @ W2 + b2 > 0).astype(float)
accuracy = (pred == Y).mean()
print(f"{losses[0]:.3f} -> {losses[-1]:.3f}, {accuracy:.3f}")
""",
    "attention and layernorm in float32": """
rng_ = np.random.default_rng(33)
Q, K, V = (rng_.normal(size=(8, 256, 64)).astype(np.float32) for _ in range(3))
---
def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
def layernorm(x, eps=1e-5):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
scores = Q @ K.swapaxes(-1, -2) / np.sqrt(np.float32(Q.shape[-1]))
mask = np.triu(np.ones((256, 256), bool), 1)
scores = np.where(mask, np.float32(-1e9), scores)
attention = softmax(scores)
out = np.einsum("hqk,hkd->hqd", attention, V)
merged = out.transpose(1, 0, 2).reshape(256, -1)
normal = layernorm(merged)
gelu = 0.5 * normal * (1 + np.tanh(np.sqrt(2 / np.pi) * (normal + 0.044715 * normal ** 3)))
entropy = -(attention * np.log(attention + 1e-9)).sum(axis=-1).mean(axis=1)
print(out.dtype, gelu.dtype, normal.shape, entropy.round(3))
""",
    "SciPy: fit, minimize, ODE, quad, spline": """
from scipy import integrate, interpolate, optimize
x = np.linspace(0, 4, 200)
y = 2.5 * np.exp(-1.3 * x) + 0.5 + 0.01 * np.sin(37 * x)
popt, pcov = optimize.curve_fit(lambda x, a, b, c: a * np.exp(-b * x) + c, x, y, p0=(1, 1, 1))
def rosen(v):
    return np.sum(100 * (v[1:] - v[:-1] ** 2) ** 2 + (1 - v[:-1]) ** 2)
best = optimize.minimize(rosen, np.zeros(5), method="BFGS")
solution = integrate.solve_ivp(lambda t, s: [s[1], -np.sin(s[0])], (0, 10), [1.0, 0.0], t_eval=np.linspace(0, 10, 50))
area, _ = integrate.quad(lambda t: np.exp(-t ** 2), 0, 5)
spline = interpolate.CubicSpline(x[::10], y[::10])
fine = spline(np.linspace(0, 3.9, 300))
root = optimize.brentq(lambda t: np.cos(t) - t, 0, 1)
simpson = integrate.simpson(y, x=x)
line = np.polyfit(x, np.log(y), 1)
end = solution.y[:, -1]
print(popt.round(3), best.success, best.x.round(4), f"{area:.6f} {root:.6f} {simpson:.5f}", end.round(4))
del best, solution, spline
""",
    "polynomials": """
x = np.linspace(-1, 1, 400)
y = np.exp(x) * np.sin(3 * x)
p = np.polynomial.Polynomial.fit(x, y, 6)
fitted = p(x)
c = np.polynomial.chebyshev.chebfit(x, y, 8)
back = np.polynomial.chebyshev.chebval(x, c)
q = np.poly1d([1.0, -6.0, 11.0, -6.0])
roots = np.sort(q.roots.real)
d = np.polyder(q)
coef = p.convert().coef
product = np.convolve([1, 2, 3], [0, 1, 0.5])
quotient, rest = np.polydiv([1.0, -6.0, 11.0, -6.0], [1.0, -1.0])
values = np.polyval(q, np.arange(5))
lg = np.polynomial.legendre.legval(0.3, [1, 2, 3])
error = np.abs(fitted - y).max()
print(q, q(2), roots, d, f"{error:.2e}", coef.round(2))
del p, q, d
""",
    "sets, entropy, digitize": """
rng_ = np.random.default_rng(35)
a = rng_.integers(0, 5000, 200_000)
b = rng_.integers(2500, 7500, 200_000)
v = rng_.normal(size=200_000)
---
both = np.intersect1d(a, b)
either = np.union1d(a, b)
only = np.setdiff1d(a, b)
odd = np.setxor1d(a, b)
jaccard = len(both) / len(either)
known = np.isin(a, [1, 2, 3, 4999])
_, counts = np.unique(a, return_counts=True)
p = counts / counts.sum()
entropy = -(p * np.log2(p)).sum()
bins = np.linspace(-3, 3, 13)
which = np.digitize(v, bins)
per = np.bincount(which, minlength=14)
H, xe, ye = np.histogram2d(a, b, bins=20)
joint = H / H.sum()
px, py = joint.sum(axis=1, keepdims=True), joint.sum(axis=0, keepdims=True)
with np.errstate(divide="ignore", invalid="ignore"):
    mutual = np.nansum(joint * np.log(joint / (px * py)))
u, inverse = np.unique(np.round(v, 1), return_inverse=True)
mode = u[np.bincount(inverse).argmax()]
print(f"{jaccard:.4f} {entropy:.4f} {mutual:.5f}", known.sum(), per[:3], mode)
""",
    "nearest neighbours": """
rng_ = np.random.default_rng(36)
points = rng_.random((2000, 3))
---
d = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=-1))
np.fill_diagonal(d, np.inf)
nearest = d.argmin(axis=1)
distance = d.min(axis=1)
k5 = np.argpartition(d, 5, axis=1)[:, :5]
within = (d < 0.1).sum(axis=1)
mutual = (nearest[nearest] == np.arange(len(points))).mean()
far = np.unravel_index(np.where(np.isinf(d), -1, d).argmax(), d.shape)
density = within / (4 / 3 * np.pi * 0.1 ** 3)
print(f"{distance.mean():.5f} {mutual:.3f}", within.max(), k5.shape, sorted(int(i) for i in far))
del k5
""",
    "standardised, sorted, products": """
rng_ = np.random.default_rng(37)
x = rng_.random((1_000_000, 8))
---
u = (x - x.mean(axis=0)) / x.std(axis=0)
gram = u.T @ u / len(u)
ordered = np.sort(x, axis=0)
quartiles = ordered[[250_000, 500_000, 750_000]]
w, V = np.linalg.eigh(gram)
outliers = (np.abs(u) > 1.7).any(axis=1).sum()
best = int(np.argmax(w))
print(gram.shape, quartiles.round(3)[0, :2], outliers)
del V, best
""",
    "k-means": """
rng_ = np.random.default_rng(38)
X = rng_.normal(size=(100_000, 4)) + rng_.integers(0, 4, (100_000, 1)) * 3
---
C = X[[0, 10, 20, 30]].copy()
for turn in range(10):
    distances = ((X[:, None, :] - C[None]) ** 2).sum(axis=-1)
    label = distances.argmin(axis=1)
    new = np.stack([X[label == k].mean(axis=0) for k in range(4)])
    if np.allclose(new, C, atol=1e-3):
        break
    C = new
sizes = np.bincount(label, minlength=4)
inertia = distances.min(axis=1).sum()
print(turn, sorted(sizes.tolist()), f"{inertia:.2f}")
""",
    "game of life and heat": """
rng_ = np.random.default_rng(39)
start = (rng_.random((300, 300)) > 0.7).astype(int)
---
g = start.copy()
alive = []
for turn in range(40):
    n = sum(np.roll(np.roll(g, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    g = ((n == 3) | ((g == 1) & (n == 2))).astype(int)
    alive.append(int(g.sum()))
small = start[:30, :30].copy()
after = np.zeros_like(small)
for i in range(1, 29):
    for j in range(1, 29):
        s = small[i - 1:i + 2, j - 1:j + 2].sum() - small[i, j]
        after[i, j] = 1 if s == 3 or (s == 2 and small[i, j]) else 0
u = np.zeros((200, 200))
u[80:120, 80:120] = 100.0
for step in range(100):
    u[1:-1, 1:-1] += 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
print(alive[-3:], after.sum(), u.max().round(4))
""",
    "Kalman filter": """
rng = np.random.default_rng(40)
F, H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
Q, R = np.eye(2) * 0.01, np.array([[1.0]])
truth = np.cumsum(0.5 + rng.normal(size=200) * 0.1)
seen = truth + rng.normal(size=200)
x, P = np.zeros(2), np.eye(2) * 10
track, gains = np.zeros((200, 2)), []
for k, z in enumerate(seen):
    x = F @ x
    P = F @ P @ F.T + Q
    S = H @ P @ H.T + R
    G = P @ H.T @ np.linalg.inv(S)
    x = x + G @ (z - H @ x)
    P = (np.eye(2) - G @ H) @ P
    track[k] = x
    gains.append(G[0, 0])
rmse = np.sqrt(((track[:, 0] - truth) ** 2).mean())
better = rmse < np.sqrt(((seen - truth) ** 2).mean())
print(f"{rmse:.3f} {gains[-1]:.4f}", better, P.round(3))
""",
    "functions of groups": """
rng_ = np.random.default_rng(0)
x = rng_.normal(50, 10, 1_250_000)
y = 3 * x + rng_.normal(size=x.size)
g = rng_.integers(0, 30, x.size)
---
medians = [np.median(x[g == k]) for k in range(30)]
lengths = [len(x[g == k]) for k in range(30)]
fits = [np.polyfit(x[g == k], y[g == k], 1) for k in range(30)]
spans = {k: np.percentile(x[g == k], [5, 50, 95]) for k in range(30)}
linked = [np.corrcoef(x[g == k], y[g == k])[0, 1] for k in range(30)]
distinct = [np.unique(x[g == k].astype(int)) for k in range(30)]
""",
    "calibration of each group": """
rng_ = np.random.default_rng(11)
n = 1_000_000
sensor = rng_.integers(0, 30, n); temp = rng_.normal(20, 8, n); raw = rng_.uniform(0, 4095, n)
gain = rng_.normal(0.02, 0.002, 30); off = rng_.normal(0, 1, 30)
ref = gain[sensor] * raw + off[sensor] + 0.05 * (temp - 20) + rng_.normal(0, 0.2, n)
ref[rng_.integers(0, n, 2000)] += 30
---
coef = {}
resid = np.full(n, np.nan)
rms = np.zeros(30)
for s in range(30):
    m = sensor == s
    A = np.column_stack([raw[m], np.ones(m.sum()), temp[m] - 20])
    y = ref[m]
    keep = np.ones(len(y), bool)
    for _ in range(3):
        p, *_rest = np.linalg.lstsq(A[keep], y[keep], rcond=None)
        e = y - A @ p
        new = np.abs(e) < 4 * e[keep].std()
        if np.array_equal(new, keep):
            break
        keep = new
    coef[s] = p
    resid[m] = e
    rms[s] = np.sqrt((e[keep] ** 2).mean())
table = np.array([coef[s] for s in sorted(coef)])
worst = int(np.argmax(np.abs(table[:, 0] - gain)))
assert not np.isnan(resid).any()
print(worst, table[worst].round(4), rms.mean().round(4), (np.abs(resid) > 10).sum())
""",
    "weather: months, years, spells": """
rng_ = np.random.default_rng(28)
days = np.arange("2000-01-01", "2020-01-01", dtype="M8[D]")
season_ = np.sin(2 * np.pi * (np.arange(len(days)) - 110) / 365.25)
temp = 10 + 12 * season_[:, None] + rng_.normal(0, 4, (len(days), 150))
temp[rng_.random(temp.shape) < 0.01] = np.nan
---
year = days.astype("M8[Y]").astype(int) + 1970
month = days.astype("M8[M]").astype(int) % 12 + 1
clim = np.array([np.nanmean(temp[month == m], axis=0) for m in range(1, 13)])
anom = temp - clim[month - 1]
yearly = np.array([np.nanmean(anom[year == y], axis=0) for y in np.unique(year)])
slope = np.array([np.polyfit(np.unique(year), yearly[:, s], 1)[0] for s in range(150)])
p90 = np.nanpercentile(temp, 90, axis=0)
hot = temp > p90
run = np.zeros(temp.shape[1], int); longest = np.zeros(temp.shape[1], int)
for d in range(len(days)):
    run = np.where(hot[d], run + 1, 0)
    longest = np.maximum(longest, run)
frost = {int(y): int((np.nanmin(temp[year == y], axis=0) < -10).sum()) for y in np.unique(year)}
gaps = np.isnan(temp).sum(axis=0)
filled = temp.copy()
for s in range(20):
    bad = np.isnan(filled[:, s])
    filled[bad, s] = np.interp(np.flatnonzero(bad), np.flatnonzero(~bad), filled[~bad, s])
print(slope.mean().round(4), longest.max(), frost[2003], gaps[:4], np.isnan(filled[:, :20]).any())
""",
    "sensor log of 40 devices": """
rng_ = np.random.default_rng(30)
n = 3_000_000
ts = np.cumsum(rng_.exponential(0.5, n))
dev = rng_.integers(0, 40, n)
val = np.sin(ts / 5000) + 0.1 * dev + rng_.normal(0, 0.05, n)
val[rng_.integers(0, n, 3000)] += 5
val[rng_.integers(0, n, 2000)] = np.nan
---
valid = np.isfinite(val)
ts2, dev2, val2 = ts[valid], dev[valid], val[valid]
out, stats_ = [], {}
for k in range(40):
    m = dev2 == k
    t, v = ts2[m], val2[m]
    med = np.median(v)
    mad = 1.4826 * np.median(np.abs(v - med))
    resid = v - np.interp(t, t[::50], v[::50])
    ok = np.abs(resid - np.median(resid)) < 6 * resid.std()
    gaps = np.diff(t[ok])
    stats_[k] = (len(t), int((~ok).sum()), round(float(med), 6), round(float(mad), 6), round(float(gaps.max()), 6))
    a, b = np.polyfit(np.sin(t[ok] / 5000), v[ok], 1)
    out.append((a, b))
fits = np.array(out)
offset = fits[:, 1] - 0.1 * np.arange(40)
worst = max(stats_, key=lambda k: stats_[k][1])
ordered = np.argsort([s[4] for s in stats_.values()])[::-1][:5]
print(stats_[3], fits[:2].round(4), np.abs(offset).max().round(5), worst, ordered)
summary = list(stats_.values())
""",
    "A/B test by countries": """
rng_ = np.random.default_rng(26)
n = 1_500_000
variant = rng_.integers(0, 3, n)
country = rng_.integers(0, 25, n)
spend = np.where(rng_.random(n) < 0.1, rng_.gamma(2, 20, n), 0) * (1 + 0.02 * variant)
---
from scipy import stats
rows = []
for c in range(25):
    here = country == c
    a, b = spend[here & (variant == 0)], spend[here & (variant == 2)]
    t, p = stats.ttest_ind(a, b, equal_var=False)
    u = stats.mannwhitneyu(a[:2000], b[:2000])
    rows.append((c, len(a), len(b), b.mean() / a.mean() - 1, p, u.pvalue))
table = np.array(rows)
order = table[np.argsort(table[:, 4])]
thresholds = 0.05 * np.arange(1, 26) / 25
passed = order[order[:, 4] < thresholds]
conv = np.array([[(spend[(variant == v) & (country == c)] > 0).mean() for v in range(3)] for c in range(5)])
payers = [spend[(variant == v) & (spend > 0)] for v in range(3)]
lift = np.median(payers[2]) / np.median(payers[0]) - 1
counts = np.array([[len(payers[v]), np.sum(variant == v) - len(payers[v])] for v in range(3)])
chi = stats.chi2_contingency(counts)
print(len(passed), table[:2].round(4), conv.round(4)[0], f"{lift:.4f} {chi.pvalue:.3g}")
""",
}
