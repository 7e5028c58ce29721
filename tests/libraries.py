"""scikit-learn's own array API tests on tensors, and what SciPy and scikit-learn do with them.

    python -m tests.libraries tests [-k NAMES]     # scikit-learn's tests, with jmars.array_api as the only namespace
    python -m tests.libraries table                # the table of docs/reference/libraries.md

The tests are those of the installed scikit-learn whose parameters are array namespaces: estimators, metrics, utilities.
They compute in this process. The table runs each estimator and function on a tensor of some megabytes and counts what
comes into this process: nothing (lazy), scalars and small arrays, or the array.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NAMESPACE = "jmars.array_api"


class OnTensors:
    """Keeps the tests of the namespace, and collects how they end."""

    def __init__(self) -> None:
        self.ended: dict[str, list[str]] = defaultdict(list)
        self.causes: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others."""
        items[:] = [item for item in items if NAMESPACE in item.name]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Compute in this process."""
        from jmars.tensor.engine import current_engine, set_engine
        from tests.tensor.engine import OneByOne

        before = current_engine()
        set_engine(OneByOne())
        try:
            return (yield)
        finally:
            set_engine(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the result of a test."""
        if report.when == "call" or report.skipped or report.failed:
            self.ended[report.outcome].append(report.nodeid.rpartition("sklearn/")[2])
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.causes[(crash.message if crash else str(report.longrepr)).splitlines()[0][:160]] += 1


def run_tests(names: str) -> int:
    """Run scikit-learn's tests; 1 if one fails."""
    os.environ["SCIPY_ARRAY_API"] = "1"
    import sklearn
    from sklearn.utils import _array_api

    _array_api.yield_namespaces = lambda include_numpy_namespaces=True: iter([NAMESPACE])
    folder = Path(sklearn.__file__).parent
    files = [str(one) for one in sorted(folder.rglob("test_*.py")) if "yield_namespace" in one.read_text()]
    plugin = OnTensors()
    options = ["-q", "--no-header", "--tb=short", "-W", "ignore", "-p", "no:cacheprovider", "-c", os.devnull]
    pytest.main([*options, f"--rootdir={folder.parent}", *(["-k", names] if names else []), *files], plugins=[plugin])
    print({outcome: len(tests) for outcome, tests in plugin.ended.items()})
    for name in plugin.ended["failed"]:
        print("   ", name)
    for cause, count in plugin.causes.most_common():
        print(f"{count:5}  {cause}")
    return bool(plugin.ended["failed"])


# Estimators that scikit-learn 1.9 lists as compatible, with the methods that follow `fit`.
ESTIMATORS = {
    "calibration.CalibratedClassifierCV": "sklearn.naive_bayes.GaussianNB",
    "decomposition.PCA": {"n_components": 3, "svd_solver": "covariance_eigh"},
    "decomposition.PCA (full)": {"n_components": 3, "svd_solver": "full"},
    "decomposition.PCA (randomized)": {"n_components": 3, "svd_solver": "randomized", "random_state": 0,
                                       "power_iteration_normalizer": "QR"},
    "discriminant_analysis.LinearDiscriminantAnalysis": {},
    "kernel_approximation.Nystroem": {"n_components": 20, "random_state": 0},
    "linear_model.LogisticRegression": {"solver": "lbfgs"},
    "linear_model.PoissonRegressor": {},
    "linear_model.Ridge": {"solver": "svd"},
    "linear_model.RidgeClassifier": {"solver": "svd"},
    "linear_model.RidgeClassifierCV": {},
    "linear_model.RidgeCV": {},
    "mixture.GaussianMixture": {"n_components": 2, "init_params": "random", "max_iter": 3, "random_state": 0},
    "naive_bayes.GaussianNB": {},
    "preprocessing.Binarizer": {},
    "preprocessing.MaxAbsScaler": {},
    "preprocessing.MinMaxScaler": {},
    "preprocessing.Normalizer": {},
    "preprocessing.PolynomialFeatures": {},
    "preprocessing.StandardScaler": {},
}  # fmt: skip
METRICS = """accuracy_score balanced_accuracy_score confusion_matrix f1_score log_loss roc_auc_score roc_curve
    average_precision_score mean_squared_error mean_absolute_error r2_score explained_variance_score max_error
    mean_pinball_loss zero_one_loss""".split()  # noqa: SIM905
FUNCTIONS = {
    "cluster.vq.whiten": "whiten(table)",
    "fft.dct": "dct(table)",
    "fft.fft": "fft(table)",
    "integrate.cumulative_trapezoid": "cumulative_trapezoid(line)",
    "integrate.simpson": "simpson(line)",
    "integrate.trapezoid": "trapezoid(line)",
    "interpolate.make_interp_spline": "make_interp_spline(xp.arange(1.0 * len(line)), line)",
    "linalg.svdvals": "svdvals(table)",
    "ndimage.gaussian_filter": "gaussian_filter(table, 2)",
    "ndimage.label": "label(table > 0)",
    "signal.convolve": "convolve(line, xp.ones(9))",
    "signal.detrend": "detrend(line)",
    "signal.fftconvolve": "fftconvolve(line, xp.ones(9))",
    "signal.hilbert": "hilbert(line)",
    "signal.lfilter": "lfilter(xp.ones(3), xp.asarray([1.0, 0.5]), line)",
    "signal.resample": "resample(line, 1000)",
    "signal.savgol_filter": "savgol_filter(line, 9, 2)",
    "signal.welch": "welch(line)",
    "spatial.distance.cdist": "cdist(table[:100], table[:100])",
    "special.erf": "erf(line)",
    "special.expit": "expit(line)",
    "special.logsumexp": "logsumexp(line)",
    "special.softmax": "softmax(line)",
    "special.xlogy": "xlogy(line, line)",
    "stats.describe": "describe(line)",
    "stats.entropy": "entropy(xp.abs(line))",
    "stats.gmean": "gmean(xp.abs(line))",
    "stats.kurtosis": "kurtosis(line)",
    "stats.linregress": "linregress(line, line * 2)",
    "stats.moment": "moment(line, 3)",
    "stats.pearsonr": "pearsonr(line, line[::-1])",
    "stats.quantile": "quantile(line, 0.5)",
    "stats.rankdata": "rankdata(line)",
    "stats.sem": "sem(line)",
    "stats.skew": "skew(line)",
    "stats.spearmanr": "spearmanr(line, line[::-1])",
    "stats.trim_mean": "trim_mean(line, 0.1)",
    "stats.ttest_1samp": "ttest_1samp(line, 0.0)",
    "stats.ttest_ind": "ttest_ind(line, line * 2)",
    "stats.variation": "variation(line)",
    "stats.zscore": "zscore(line)",
}
SMALL = 2**16  # bytes of a value that is no array of the data
ROWS = 300_000


class Watched:
    """Computes in this process and tells what a call brought here, in words of the table."""

    def __init__(self) -> None:
        from jmars.tensor.engine import set_engine
        from tests.tensor.engine import OneByOne

        self.sizes: list[int] = []
        sizes = self.sizes

        class Watching(OneByOne):
            def fetch(self, data: Any, copy: bool = True) -> Any:
                value = super().fetch(data, copy)
                sizes.append(value.nbytes)
                return value

        set_engine(Watching())

    def __call__(self, work: Callable[[], Any]) -> str:
        """What comes into this process while `work()` runs."""
        self.sizes.clear()
        try:
            work()
        except Exception as error:
            return f"refused: {type(error).__name__}: {str(error).splitlines()[0][:100]}".replace("|", "\\|")
        large = [size for size in self.sizes if size > SMALL]
        if large:
            return f"brings arrays, {sum(large) / 2**20:.0f} MiB"
        return "computes small values" if self.sizes else "lazy"


def estimator(name: str, options: Any) -> Any:
    """The estimator of a row."""
    module, _, kind = name.partition(" ")[0].rpartition(".")
    if isinstance(options, str):
        inner, _, base = options.rpartition(".")
        options = {"estimator": getattr(importlib.import_module(inner), base)(), "method": "temperature"}
    return getattr(importlib.import_module(f"sklearn.{module}"), kind)(**options)


def print_table() -> int:
    """Print the tables in Markdown."""
    os.environ["SCIPY_ARRAY_API"] = "1"
    import numpy as np
    import scipy
    import sklearn
    from sklearn import config_context, metrics

    import jmars.array_api as xp
    import jmars.tensor as mt

    watched, rng = Watched(), np.random.default_rng(0)
    table = rng.normal(size=(ROWS, 10))
    targets = (table @ rng.normal(size=10) > 0).astype(np.int64)
    x, y = mt.tensor(table, chunk_size=ROWS // 4), mt.tensor(targets, chunk_size=ROWS // 4)
    line = mt.tensor(rng.normal(size=10 * ROWS), chunk_size=ROWS)

    def row(name: str, *words: str) -> None:
        print(f"| `{name}` | {' | '.join(words)} |", flush=True)

    print(f"scikit-learn {sklearn.__version__}, `X` of 23 MiB, `y` of 2 MiB:\n")
    print("| estimator | `fit` | then |\n|---|---|---|")
    with config_context(array_api_dispatch=True):
        for name, options in ESTIMATORS.items():
            made = estimator(name, options)
            fitted = watched(lambda made=made: made.fit(x, y))
            method = "predict" if hasattr(made, "predict") else "transform"
            call = getattr(made, method)
            used = "" if fitted.startswith("refused") else f"`{method}`: {watched(lambda call=call: call(x))}"
            row(name, fitted, used)
        print("\n| metric | |\n|---|---|")
        for name in METRICS:
            scores = name in ("log_loss", "roc_auc_score", "roc_curve", "average_precision_score")
            given = x[:, 0] / 20 + 0.5 if scores else mt.roll(y, 1)
            row(name, watched(lambda name=name, given=given: getattr(metrics, name)(y, given)))
    print(f"\nSciPy {scipy.__version__}, `SCIPY_ARRAY_API=1`, arrays of 23 MiB:\n\n| function | |\n|---|---|")
    for name, text in FUNCTIONS.items():
        module, _, short = name.rpartition(".")
        names = {"xp": xp, "table": x, "line": line, short: getattr(importlib.import_module(f"scipy.{module}"), short)}
        row(f"scipy.{name}", watched(lambda text=text, names=names: eval(text, names)))
    return 0


def main() -> int:
    """Run the tests, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tests", "table"])
    parser.add_argument("-k", dest="names", default="", help="only tests with such names, as pytest's -k")
    given = parser.parse_args()
    return run_tests(given.names) if given.what == "tests" else print_table()


if __name__ == "__main__":
    sys.exit(main())
