"""What the formats share: libraries of extras, errors that name the file, and pyramids."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jmars.errors import JmarsError, StorageError, UnsupportedError
from jmars.tensor.protocols import call
from jmars.tensor.remote_files import is_url, opened
from jmars.tensor.tensor import Tensor


def library(name: str, extra: str) -> Any:
    """Import a module; the ImportError names the extra to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"{package} is not installed: pip install 'jmars[{extra}]'") from error


def place_of(path: Any) -> str:
    """A URL unchanged, or an absolute path."""
    if not isinstance(path, str | os.PathLike):
        raise UnsupportedError(f"workers open files by path or URL, not by {type(path).__name__}; give the path")
    return path if is_url(path) else os.path.abspath(os.fspath(path))


def file_of(place: str, options: Any, stamp: Hashable = None) -> Any:
    """What a library opens to read a place: the path, or an open file of fsspec, with this stamp if one is given."""
    return opened(place, options, stamp) if is_url(place) else place


def path_to_write(path: Any, kind: str) -> str:
    """The absolute path of a file that the workers will write."""
    place = place_of(path)
    if is_url(place):
        raise UnsupportedError(f"{kind} files are written by path; to an object store, write Zarr: mt.to_zarr(x, url)")
    return place


@contextmanager
def reading(place: str, kind: str) -> Iterator[None]:
    """Errors of a library that reads a file name the file; errors of the system stay, as of a missing file."""
    try:
        yield
    except (JmarsError, ImportError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise StorageError(
            f"{place} cannot be read as {kind}; it may be damaged or cut short ({type(error).__name__}: {error})"
        ) from error


def pyramid(x: Tensor, levels: int, axes: Sequence[int], coarser: Callable[..., Any] | None = None) -> list[Tensor]:
    """An array and its coarser levels, each `coarser(above, {axis: 2})`, by default the mean of 2 x 2 elements.

    A last odd element along an axis is left out; means of whole numbers are rounded.
    """
    found = [x]
    if levels < 1:
        raise ValueError(f"levels is {levels}; give 1 for the array alone")
    for _ in range(1, levels):
        above = found[-1]
        if min(above.shape[axis] for axis in axes) < 2:
            raise ValueError(f"an array of shape {x.shape} has at most {len(found)} levels")
        value = (coarser or means)(above, dict.fromkeys(axes, 2))
        found.append((value if x.dtype.kind in "fc" else call("rint", value)).astype(x.dtype))
    return found


def means(x: Tensor, blocks: Mapping[int, int]) -> Any:
    """Means of neighbours."""
    return call("coarsen", np.mean, x, blocks, trim_excess=True)
