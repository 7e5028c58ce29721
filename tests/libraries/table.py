"""What SciPy and scikit-learn do with tensors: the tables of docs/reference/libraries.md.

Each estimator and function runs on a tensor of some megabytes, and what comes into this process is counted: nothing
(lazy), scalars and small arrays, or the array.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

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
