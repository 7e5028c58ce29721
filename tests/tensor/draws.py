"""Every distribution as a call of a generator and a size, for NumPy's and ours: `DRAWS["gamma"](rng, size, **cut)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jmars.tensor.ops.random_streams import DISTRIBUTIONS, VECTORS

ARGUMENTS = {
    "beta": (2.0, 3.0), "binomial": (10, 0.3), "chisquare": (3.0,), "f": (3.0, 4.0), "gamma": (2.0,),
    "geometric": (0.2,), "hypergeometric": (9, 8, 7), "logseries": (0.5,), "negative_binomial": (5, 0.5),
    "noncentral_chisquare": (3.0, 1.0), "noncentral_f": (3.0, 4.0, 1.0), "pareto": (3.0,), "power": (3.0,),
    "standard_gamma": (2.0,), "standard_t": (4.0,), "triangular": (0.0, 1.0, 3.0), "vonmises": (0.0, 1.0),
    "wald": (1.0, 2.0), "weibull": (2.0,), "zipf": (3.0,),
    "dirichlet": ([1.0, 2.0],), "multinomial": (9, [0.2, 0.8]), "multivariate_hypergeometric": ([3, 4], 2),
}  # fmt: skip
Draw = Callable[..., Any]


def _of(name: str) -> Draw:
    return lambda rng, size, **cut: getattr(rng, name)(*ARGUMENTS.get(name, ()), size=size, **cut)


def _one(size: Any) -> Any:
    """A shape in place of None, for which NumPy gives a float of Python, whatever dtype is asked for."""
    return () if size is None else size


DRAWS: dict[str, Draw] = {
    **{name: _of(name) for name in (*DISTRIBUTIONS, *VECTORS, "standard_normal", "standard_exponential", "random")},
    "uniform": lambda rng, size, **cut: rng.uniform(-2.5, 7, size, **cut),
    "random32": lambda rng, size, **cut: rng.random(_one(size), "f4", **cut),
    "standard_normal32": lambda rng, size, **cut: rng.standard_normal(_one(size), "f4", **cut),
    "standard_exponential by inversion": lambda rng, size, **cut: rng.standard_exponential(size, method="inv", **cut),
    "standard_gamma32": lambda rng, size, **cut: rng.standard_gamma(2.0, _one(size), "f4", **cut),
    "integers": lambda rng, size, **cut: rng.integers(-5, 2**40, size, **cut),
    "integers to the end": lambda rng, size, **cut: rng.integers(0, 9, size, endpoint=True, **cut),
    "integers u1": lambda rng, size, **cut: rng.integers(0, 100, size, "u1", **cut),
    "integers i2": lambda rng, size, **cut: rng.integers(-300, 300, size, "i2", **cut),
    "integers u8": lambda rng, size, **cut: rng.integers(0, 2**64, size, "u8", **cut),
    "integers bool": lambda rng, size, **cut: rng.integers(0, 2, size, bool, **cut),
    "choice": lambda rng, size, **cut: rng.choice([2.5, 3.5, 4.5], size, **cut),
    "choice by chances": lambda rng, size, **cut: rng.choice(3, size, p=[0.2, 0.3, 0.5], **cut),
}

# what NumPy's RandomState has too
OLDER: dict[str, Draw] = {
    **{name: one for name, one in DRAWS.items() if not name.endswith("32") and not name.startswith("integers")},
    "randint": lambda rng, size, **cut: rng.randint(-5, 2**40, size, **cut),
    "randint u1": lambda rng, size, **cut: rng.randint(0, 100, size, "u1", **cut),
    "rand": lambda rng, size, **cut: rng.rand(*size, **cut),
    "randn": lambda rng, size, **cut: rng.randn(*size, **cut),
    "random_sample": lambda rng, size, **cut: rng.random_sample(size, **cut),
}
for _name in ("multivariate_hypergeometric", "standard_exponential by inversion"):
    del OLDER[_name]
