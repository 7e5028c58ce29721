"""scikit-learn's estimators on tensors larger than the memory limit, beside sums by blocks of NumPy.

A table of 50 columns of float64 is drawn chunk by chunk by the workers each time it is read, or lies in a .npy file
(`--file`). Each estimator runs in a process of its own, which is the kernel. Printed are the seconds of `fit` and of
`transform` or `predict`, the peak of the proportional set size of all processes, kernel and shared memory included, how
much of it is the kernel's, and the largest difference of the results from those that NumPy gives block by block in two
passes, relative to the largest element. It fails where the peak of the cluster is above the limit, that of the kernel
above 256 MiB, or a difference above 1e-10.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

Array = np.ndarray[Any, Any]
COLUMNS = 50
BLOCK = 50_000  # rows that are drawn together: 19 MiB
WORKERS = 2
TOLERANCE = 1e-10
KERNEL = 256 * 2**20  # bytes of the kernel, which the limit does not count; imports take 150 MiB
WEIGHTS = np.random.default_rng(1).normal(size=COLUMNS)
CENTRES = np.stack([np.linspace(-1, 1, COLUMNS), np.linspace(1, -1, COLUMNS)])


def drawn(number: int, rows: int) -> Array:
    """Block `number` of the table: two clouds, with columns of different widths and some correlation."""
    rng = np.random.default_rng(number)
    x = rng.normal(size=(rows, COLUMNS)) * np.linspace(0.5, 3, COLUMNS)
    x[:, 1:] += 0.5 * x[:, :-1]
    x += CENTRES[rng.integers(0, 2, rows)]
    return x


def targets(x: Array) -> Array:
    """What Ridge is to find: not quite linear."""
    return x @ WEIGHTS + np.sin(x[:, 0]) + 3


def blocks(rows: int) -> Iterator[Array]:
    """The table, block by block."""
    for number in range(-(-rows // BLOCK)):
        yield drawn(number, min(BLOCK, rows - number * BLOCK))


# -- by NumPy, block by block


@functools.cache
def moments(rows: int) -> tuple[Array, Array]:
    """Means and covariances of the columns, in two passes."""
    mean = sum(x.sum(axis=0) for x in blocks(rows)) / rows
    return mean, sum((x - mean).T @ (x - mean) for x in blocks(rows)) / rows


def pca_by_blocks(rows: int) -> dict[str, Array]:
    """Axes and variances of PCA, and the coordinates of the first rows."""
    mean, covariance = moments(rows)
    values, vectors = np.linalg.eigh(covariance * (rows / (rows - 1)))
    axes = vectors[:, ::-1][:, :3].T
    axes = axes * np.sign(axes[np.arange(3), np.abs(axes).argmax(axis=1)])[:, None]
    return {"variances": values[::-1][:3], "axes": axes, "first rows": (drawn(0, BLOCK)[:5] - mean) @ axes.T}


def scaler_by_blocks(rows: int) -> dict[str, Array]:
    """Means and variances of the columns, and the first rows scaled."""
    mean, covariance = moments(rows)
    variance = np.diag(covariance)
    return {"mean": mean, "variance": variance, "first rows": (drawn(0, BLOCK)[:5] - mean) / np.sqrt(variance)}


def ridge_by_blocks(rows: int) -> dict[str, Array]:
    """Coefficients by the normal equations."""
    mean, covariance = moments(rows)
    middle = sum(targets(x).sum() for x in blocks(rows)) / rows
    against = sum((x - mean).T @ (targets(x) - middle) for x in blocks(rows))
    coef = np.linalg.solve(covariance * rows + np.eye(COLUMNS), against)
    return {"coef": coef, "first rows": (drawn(0, BLOCK)[:5] - mean) @ coef + middle}


def mixture_by_blocks(rows: int) -> dict[str, Array]:
    """Three steps of EM from `CENTRES`."""
    weights, means = np.full(2, 0.5), CENTRES
    cholesky = np.stack([np.eye(COLUMNS)] * 2)  # of the precisions

    def log_density(x: Array, mean: Array, root: Array) -> Array:
        squares = np.square((x - mean) @ root).sum(axis=1)
        found: Array = np.log(np.diag(root)).sum() - 0.5 * (COLUMNS * np.log(2 * np.pi) + squares)
        return found

    def log_shares(x: Array) -> tuple[Array, Array]:
        parts = zip(weights, means, cholesky)
        logs = np.stack([np.log(w) + log_density(x, mean, root) for w, mean, root in parts], axis=1)
        whole = np.logaddexp(logs[:, 0], logs[:, 1])
        return whole, logs - whole[:, None]

    for _ in range(3):
        counts, sums, bound = np.zeros(2), np.zeros((2, COLUMNS)), 0.0
        squares = np.zeros((2, COLUMNS, COLUMNS))
        for x in blocks(rows):
            whole, logs = log_shares(x)
            shares = np.exp(logs)
            bound += whole.sum() / rows
            counts += shares.sum(axis=0)
            sums += shares.T @ x
            squares += np.stack([(s[:, None] * x).T @ x for s in shares.T])
        means = sums / counts[:, None]
        spread = squares / counts[:, None, None] - means[:, :, None] * means[:, None, :] + 1e-6 * np.eye(COLUMNS)
        weights = counts / counts.sum()
        cholesky = np.stack([np.linalg.inv(np.linalg.cholesky(one)).T for one in spread])
    return {"weights": weights, "means": means, "covariances": spread, "bound": np.array(bound)}


# -- by scikit-learn on tensors


def pca(x: Any, y: Any, solver: str = "covariance_eigh") -> Any:
    """PCA by the eigenvectors of the covariances, or by another solver."""
    from sklearn.decomposition import PCA

    model = PCA(n_components=3, svd_solver=solver).fit(x)
    yield
    found = model.transform(x)
    yield from used(found)
    axes = np.asarray(model.components_)
    sign = np.sign(axes[np.arange(3), np.abs(axes).argmax(axis=1)])
    yield {"variances": model.explained_variance_, "axes": axes * sign[:, None], "first rows": found[:5] * sign}


def scaler(x: Any, y: Any) -> Any:
    """StandardScaler."""
    from sklearn.preprocessing import StandardScaler

    model = StandardScaler().fit(x)
    yield
    found = model.transform(x)
    yield from used(found)
    yield {"mean": model.mean_, "variance": model.var_, "first rows": found[:5]}


def ridge(x: Any, y: Any) -> Any:
    """Ridge, with the solver that scikit-learn chooses for arrays of other libraries: singular values."""
    from sklearn.linear_model import Ridge

    model = Ridge().fit(x, y)
    yield
    found = model.predict(x)
    yield from used(found)
    yield {"coef": model.coef_, "first rows": found[:5]}


def mixture(x: Any, y: Any) -> Any:
    """Three steps of a mixture of two Gaussians from given centres; "random" would draw numbers for all rows here."""
    import warnings

    from sklearn.mixture import GaussianMixture

    import jmars.array_api as xp

    given = {"weights_init": [0.5, 0.5], "means_init": CENTRES, "precisions_init": np.stack([np.eye(COLUMNS)] * 2)}
    given = {name: xp.asarray(value) for name, value in given.items()}
    with warnings.catch_warnings(action="ignore"):  # three steps do not converge
        model = GaussianMixture(n_components=2, init_params="random_from_data", max_iter=3, **given).fit(x)
    yield
    yield from used(model.predict(x))
    yield {"weights": model.weights_, "means": model.means_, "covariances": model.covariances_,
           "bound": model.lower_bound_}  # fmt: skip


def used(found: Any) -> Iterator[None]:
    """Read all of a result, as the next step of a program does."""
    float(found.sum())
    yield


ESTIMATORS = {
    "StandardScaler": (scaler, scaler_by_blocks),
    "PCA": (pca, pca_by_blocks),
    "PCA (full)": (functools.partial(pca, solver="full"), pca_by_blocks),
    "Ridge": (ridge, ridge_by_blocks),
    "GaussianMixture": (mixture, mixture_by_blocks),
}


class Peak(threading.Thread):
    """The most memory of this process and all below it, read twenty times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.kernel, self.ended = 0, 0, threading.Event()

    def run(self) -> None:
        """Read until told to end."""
        from tests.benchmarks.memory import pss

        here = psutil.Process()
        while not self.ended.wait(0.05):
            kernel = pss(here.pid)
            whole = kernel + sum(pss(child.pid) for child in here.children(recursive=True))
            self.most, self.kernel = max(self.most, whole), max(self.kernel, kernel)


def one(name: str, rows: int, limit: int, file: Path | None, spill: str) -> None:
    """Run one estimator in this process; print what it gave as JSON."""
    from sklearn import config_context

    import jmars
    import jmars.tensor as mt

    peak = Peak()
    peak.start()
    with jmars.Cluster(n_workers=WORKERS, memory_limit=limit, spill_dir=spill) as cluster:
        if file is None:
            lengths = tuple(min(BLOCK, rows - at) for at in range(0, rows, BLOCK))
            numbers = mt.arange(len(lengths), chunk_size=1).reshape(-1, 1)
            made: Any = lambda number, block_id: drawn(int(number[0, 0]), lengths[block_id[0]])  # noqa: E731
            x = mt.map_blocks(made, numbers, dtype="f8", chunks=(lengths, (COLUMNS,)))
        else:
            x = mt.load(file)
        y = x @ mt.asarray(WEIGHTS) + mt.sin(x[:, 0]) + 3
        with config_context(array_api_dispatch=True):
            run, times = ESTIMATORS[name][0](x, y), [time.perf_counter()]
            next(run), times.append(time.perf_counter())
            next(run), times.append(time.perf_counter())
            values = {key: np.asarray(value).tolist() for key, value in next(run).items()}
        memory = cluster.info()["memory"]
    peak.ended.set()
    found = {"fit": times[1] - times[0], "use": times[2] - times[1], "peak": peak.most, "kernel": peak.kernel}
    print(json.dumps(found | {"cluster": memory["peak"], "spilled": memory["spilled_total"], "values": values}))


def difference(ours: Any, theirs: Array) -> float:
    """The largest difference, relative to the largest element."""
    return float(np.max(np.abs(np.asarray(ours) - theirs)) / np.max(np.abs(theirs)))


def run_estimators(given: argparse.Namespace) -> int:
    """Run and compare; 1 where one fails."""
    rows = int(given.gigabytes * 10**9) // (8 * COLUMNS)
    failed = False
    print(f"{rows:,} rows of {COLUMNS} columns, {given.gigabytes:g} GB; {WORKERS} workers, "
          f"limit {given.limit / 2**20:.0f} MiB")  # fmt: skip
    print(f"{'':20}{'fit s':>8}{'then s':>8}{'peak MiB':>10}{'kernel':>8}{'cluster':>9}{'spilled':>9}  error")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        file = Path(folder, "x.npy") if given.file else None
        if file is not None:
            stored = np.lib.format.open_memmap(file, "w+", np.float64, (rows, COLUMNS))
            for number, block in enumerate(blocks(rows)):
                stored[number * BLOCK : number * BLOCK + len(block)] = block
            del stored
        for name in given.names or ESTIMATORS:
            order = [sys.executable, "-m", "tests.libraries", "estimators", name, "--one", "--limit", str(given.limit)]
            order += ["--gigabytes", str(given.gigabytes), "--folder", folder, *(["--file"] if file else [])]
            answer = subprocess.run(order, capture_output=True, text=True, env={**os.environ, "SCIPY_ARRAY_API": "1"})
            if answer.returncode:
                print(f"{name:20} {answer.stderr.strip().splitlines()[-1]}", flush=True)
                print(answer.stderr, file=sys.stderr)
                failed = True
                continue
            found = json.loads(answer.stdout.splitlines()[-1])
            wanted = ESTIMATORS[name][1](rows)
            error = max(difference(found["values"][key], value) for key, value in wanted.items())
            failed |= found["cluster"] > given.limit or found["kernel"] > KERNEL or not error <= TOLERANCE
            mib = [found[key] / 2**20 for key in ("peak", "kernel", "cluster", "spilled")]
            print(f"{name:20}{found['fit']:8.1f}{found['use']:8.1f}{mib[0]:10.0f}{mib[1]:8.0f}{mib[2]:9.0f}{mib[3]:9.0f}"
                  f"  {error:.1e}", flush=True)  # fmt: skip
    return int(failed)


def run_one(given: argparse.Namespace) -> int:
    """The process of an estimator."""
    rows = int(given.gigabytes * 10**9) // (8 * COLUMNS)
    one(given.names[0], rows, given.limit, Path(given.folder, "x.npy") if given.file else None, given.folder)
    return 0
