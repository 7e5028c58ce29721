"""Reductions, cumulative functions and histograms.

In reading order:

- trial.py: dtype and errors of a reduction, asked of NumPy
- where_argument.py: the arguments `where=`, `initial=` and `mean=`
- reduction.py: sums, extremes, means, variances, positions
- derived_reductions.py: NaN-aware reductions, averages, `allclose`
- cumulative.py: `cumsum`, `cumprod`, `diff`
- ufunc_methods.py: `np.add.reduce`, `accumulate`, `reduceat`, `outer`, `at`
- covariance.py: `cov` and `corrcoef`
- bin_rules.py: number of bins by rule
- histograms.py: `bincount`, `histogram`, `digitize`, `searchsorted`
"""
