"""Cells of small values, plain and `%%jmars`: python -m tests.benchmarks small [--curve].

Each cell runs in one kernel, in turn as a plain cell and as a `%%jmars` cell. Printed are the least milliseconds of the
kernel's CPU, their ratio, and the least milliseconds of wall time. An empty `%%jmars` cell is measured too. With
`--curve` works on arrays of 1 KB to 64 MB are measured.
"""

from __future__ import annotations

import argparse
import time

from jmars.config import config
from tests.benchmarks.machine import this_machine
from tests.notebook.shells import Notebook, new_shell

# By name: a cell that makes the inputs, and the cell that is measured, apart by a line of dashes.
CELLS: dict[str, str] = {
    "nothing": """
---
pass""",
    "elements of 90 x 90": """M = np.random.default_rng(0).random((90, 90))
---
c = 0
for i in range(90):
    for j in range(90):
        if M[i, j] > .99:
            c += 1""",
    "elements of 100 x 100": """M = np.random.default_rng(0).random((100, 100))
---
c = 0
for i in range(100):
    for j in range(100):
        if M[i, j] > .99:
            c += 1""",
    "sqrt of numbers": """
---
t = 0.
for i in range(1000):
    t += float(np.sqrt(i))""",
    "sin in a list": """xs = [k / 7 for k in range(2000)]
---
ys = [np.sin(x) for x in xs]""",
    "Lorenz": """
---
def lorenz(s):
    x, y, z = s
    return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
xs = np.zeros((501, 3))
xs[0] = 1.
for i in range(500):
    xs[i+1] = xs[i] + 0.01 * lorenz(xs[i])""",
    "game of life": """g = (np.random.default_rng(1).random((40, 40)) > .6).astype(int)
---
n = np.zeros_like(g)
for i in range(1, 39):
    for j in range(1, 39):
        s = g[i-1:i+2, j-1:j+2].sum() - g[i, j]
        n[i, j] = 1 if s == 3 or (s == 2 and g[i, j]) else 0""",
    "Kalman": """
---
F = np.array([[1., 1.], [0., 1.]])
H = np.array([[1., 0.]])
Q = np.eye(2) * .01
R = np.array([[1.]])
x = np.zeros(2)
P = np.eye(2)
for k in range(100):
    x = F @ x
    P = F @ P @ F.T + Q
    y = k - H @ x
    S = H @ P @ H.T + R
    K = P @ H.T @ np.linalg.inv(S)
    x = x + K @ y
    P = (np.eye(2) - K @ H) @ P""",
    "bootstrap": """obs = np.random.default_rng(2).random(80)
---
rng = np.random.default_rng(3)
m = [float(np.median(rng.choice(obs, 80))) for _ in range(100)]""",
    "stack": """parts = [np.random.default_rng(k).random(100) for k in range(2000)]
---
s = np.stack([p * 2 for p in parts])""",
    "concatenate": """parts = [np.random.default_rng(k).random(100) for k in range(2000)]
---
s = np.concatenate(parts)""",
    "dict rows": """t = np.random.default_rng(4).random((300, 3))
---
d = [dict(a=float(r[0]), b=r.tolist()) for r in t * 2]""",
    "Metropolis": """
---
rng = np.random.default_rng(5)
x = np.zeros(2)
out = []
lp = lambda v: -0.5 * np.sum(v ** 2)
for k in range(2000):
    y = x + rng.normal(size=2) * .5
    if np.log(rng.random()) < lp(y) - lp(x):
        x = y
    out.append(x)
chain = np.array(out)""",
    "Gram-Schmidt": """A = np.random.default_rng(6).random((200, 60))
---
Q = np.zeros_like(A)
for j in range(60):
    v = A[:, j].copy()
    for i in range(j):
        v -= (Q[:, i] @ A[:, j]) * Q[:, i]
    Q[:, j] = v / np.linalg.norm(v)""",
    "MLP": """rng = np.random.default_rng(7)
X = rng.random((640, 16))
Y = (X.sum(axis=1, keepdims=True) > 8) * 1.0
---
V, W = np.ones((16, 32)) / 16, np.ones((32, 1)) / 32
for k in range(80):
    x, y = X[8 * k: 8 * k + 8], Y[8 * k: 8 * k + 8]
    h = np.maximum(x @ V, 0)
    p = 1 / (1 + np.exp(-(h @ W)))
    d = (p - y) / len(x)
    e = (d @ W.T) * (h > 0)
    W -= 0.5 * (h.T @ d)
    V -= 0.5 * (x.T @ e)
loss = float(np.mean((p - y) ** 2))""",
    "groups": """rng = np.random.default_rng(8)
keys, values = rng.integers(0, 100, 100_000), rng.random(100_000)
---
medians = [float(np.median(values[keys == k])) for k in range(100)]
sums = np.bincount(keys, values)""",
}
WORKS: dict[str, str] = {  # of an array `x` of any size; `s` is a step between elements
    "1,000 elements": "t = 0.\nfor k in range(1000):\n    t += x[k * s]",
    "100 rows": "t = 0.\nfor k in range(100):\n    t += x[k * s: k * s + 100].sum()",
    "300 writes": "for k in range(300):\n    x[k * s] = k",
    "sum": "t = float((x * 2).sum())",
    "loop": "y = x\nfor k in range(10):\n    y = y * 0.5 + 1\nt = float(y[3])",
}


def curve(notebook: Notebook, rounds: int) -> None:
    """Print milliseconds of wall time of works by the size of their array, plain and in a `%%jmars` cell."""
    print(f"{'size':>8}", *(f"{name:>20}" for name in WORKS))
    for power in range(10, 27, 2):
        found, n = [], 2**power // 8
        for work in WORKS.values():
            taken: dict[str, list[float]] = {"": [], "%%jmars\n": []}
            for _ in range(rounds):
                for magic in taken:
                    notebook(f"x = np.random.default_rng(0).random({n})\ns = {max(0, n - 200) // 1000}")
                    begun = time.perf_counter()
                    notebook(magic + work)
                    taken[magic].append(time.perf_counter() - begun)
            found.append(" | ".join(f"{min(one) * 1e3:.1f}" for one in taken.values()))
        print(f"{2**power // 1024:6} K", *(f"{one:>20}" for one in found), flush=True)


def seconds(notebook: Notebook, setup: str, text: str) -> tuple[float, float]:
    """CPU seconds of the kernel, and wall seconds, for a cell."""
    if setup:
        notebook(setup)
    cpu, wall = time.process_time(), time.perf_counter()
    notebook(text)
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    """Measure all cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--curve", action="store_true", help="by the size of an array")
    args = parser.parse_args()
    print(this_machine())
    with new_shell() as shell, config.using(display="none"):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np")
        notebook("%%jmars -w 1 --memory 400MiB\nnp.ones(3)")
        if args.curve:
            curve(notebook, args.rounds)
        for name, text in () if args.curve else CELLS.items():
            setup, _, body = text.partition("\n---\n")
            rounds = [
                [seconds(notebook, setup, cell) for cell in (body, f"%%jmars\n{body}")] for _ in range(args.rounds)
            ]
            plain, ours = ([min(one) * 1e3 for one in zip(*kind)] for kind in zip(*rounds))
            print(
                f"{name:24} CPU {plain[0]:8.1f} {ours[0]:8.1f} ms {ours[0] / plain[0]:6.1f} x"
                f"   wall {plain[1]:8.1f} {ours[1]:8.1f} ms",
                flush=True,
            )
        notebook("%jmars stop")


if __name__ == "__main__":
    main()
