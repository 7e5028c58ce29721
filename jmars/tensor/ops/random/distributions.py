"""Parameters of NumPy's distributions: names, order and defaults.

Source: `numpy.random.Generator` (NumPy 2).
"""

from __future__ import annotations

from typing import Any

__all__ = ["DISTRIBUTIONS", "VECTORS", "parameters"]

# distributions of numbers: parameters, "a" or "a=default"
DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    "beta": ("a", "b"),
    "binomial": ("n", "p"),
    "chisquare": ("df",),
    "exponential": ("scale=1.0",),
    "f": ("dfnum", "dfden"),
    "gamma": ("shape", "scale=1.0"),
    "geometric": ("p",),
    "gumbel": ("loc=0.0", "scale=1.0"),
    "hypergeometric": ("ngood", "nbad", "nsample"),
    "laplace": ("loc=0.0", "scale=1.0"),
    "logistic": ("loc=0.0", "scale=1.0"),
    "lognormal": ("mean=0.0", "sigma=1.0"),
    "logseries": ("p",),
    "negative_binomial": ("n", "p"),
    "noncentral_chisquare": ("df", "nonc"),
    "noncentral_f": ("dfnum", "dfden", "nonc"),
    "normal": ("loc=0.0", "scale=1.0"),
    "pareto": ("a",),
    "poisson": ("lam=1.0",),
    "power": ("a",),
    "rayleigh": ("scale=1.0",),
    "standard_cauchy": (),
    "standard_gamma": ("shape",),
    "standard_t": ("df",),
    "triangular": ("left", "mode", "right"),
    "vonmises": ("mu", "kappa"),
    "wald": ("mean", "scale"),
    "weibull": ("a",),
    "zipf": ("a",),
}

# distributions of vectors, which form a last axis
VECTORS: dict[str, tuple[str, ...]] = {
    "dirichlet": ("alpha",),
    "multinomial": ("n", "pvals"),
    "multivariate_hypergeometric": ("colors", "nsample"),
}


def parameters(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any, dict[str, Any]]:
    """Binds a call's arguments: distribution parameters in order, `size`, other keywords.

    Examples
    --------
    >>> parameters("gamma", (2.0,), {"size": 5, "chunk_size": 2})
    ([2.0, 1.0], 5, {'chunk_size': 2})
    """
    rest = dict(kwargs)
    given = list(args)
    found: list[Any] = []
    for parameter in _parameter_names(name):
        key, _, default = parameter.partition("=")
        if given:
            if key in rest:
                raise TypeError(f"{name}() got multiple values for keyword argument {key!r}")
            found.append(given.pop(0))
        elif key in rest:
            found.append(rest.pop(key))
        elif default:
            found.append(float(default))
        else:
            raise TypeError(f"{name}() misses the argument {key!r}")
    if given:
        rest["size"] = given.pop(0)
    if given:
        raise TypeError(
            f"{name}() takes {', '.join((*_parameter_names(name), 'size'))}; {len(args)} arguments were given"
        )
    return found, rest.pop("size", None), rest


def _parameter_names(name: str) -> tuple[str, ...]:
    return DISTRIBUTIONS[name] if name in DISTRIBUTIONS else VECTORS[name]
