"""Versions of jmars, NumPy and Python, which processes that exchange pickles must share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmars.errors import ClusterLostError


def versions() -> dict[str, str]:
    """Versions that head and workers must share: results depend on them, and pickles."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"jmars": importlib.import_module("jmars").__version__, "numpy": np.__version__, "python": python}


def differences(theirs: Mapping[str, str]) -> str:
    """Versions of another process that are not those of this process, in words; empty where all are equal.

    Examples
    --------
    >>> differences(versions() | {"python": "2.7"}).partition(", not ")[0]
    'python 2.7'
    """
    return ", ".join(f"{name} {theirs[name]}, not {ours}" for name, ours in versions().items() if theirs[name] != ours)


def refuse_other_versions(who: str, theirs: Mapping[str, Any]) -> None:
    """Raise ClusterLostError where a cluster has other versions than this process.

    Examples
    --------
    >>> refuse_other_versions("the cluster mine", versions())
    """
    for what, ours in versions().items():
        if (other := theirs.get(what)) != ours:
            found = "does not say which versions it has" if other is None else f"has {what} {str(other)!a}"
            raise ClusterLostError(
                f"{who} {found}, and this process has {what} {ours}; graphs and functions of one cannot be read by the "
                "other: use the same versions in both environments"
            )
