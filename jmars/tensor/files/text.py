"""Text files: `np.savetxt`; the client fetches and writes the rows of one chunk at a time."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from jmars.tensor.numpy_modules import as_values
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import as_tensor

__all__ = ["savetxt"]


@offers("savetxt")
def savetxt(fname: Any, X: Any, fmt: Any = "%.18e", delimiter: str = " ", newline: str = "\n", header: str = "",
            footer: str = "", comments: str = "# ", encoding: Any = None) -> None:  # fmt: skip
    """`np.savetxt`: compute a tensor and write its rows as text.

    Parameters
    ----------
    fname
        A path; an open file, or a compressed file, gets the value whole, not row of chunks by row of chunks.
    X
        A tensor of one or two axes.

    Raises
    ------
    ValueError
        For more than two axes.
    """
    if not isinstance(fname, str | os.PathLike) or os.fspath(fname).endswith((".gz", ".xz", ".bz2")):
        np.savetxt(fname, as_values(X), fmt, delimiter, newline, header, footer, comments, encoding)
        return
    x = as_tensor(X)
    if x.ndim not in (1, 2):
        raise ValueError(f"Expected 1D or 2D array, got {x.ndim}D array instead")
    x = call("rechunk", x, (x.chunks[0], *((n,) for n in x.shape[1:]))).execute()
    mark = {"fmt": fmt, "delimiter": delimiter, "newline": newline}
    with open(fname, "w", encoding=encoding or "latin1") as file:
        if header:
            np.savetxt(file, np.empty((0, 1)), header=header, comments=comments, newline=newline)
        low = 0
        for n in x.chunks[0]:
            np.savetxt(file, x[low : low + n].fetch(copy=False), **mark)
            low += n
        if footer:
            np.savetxt(file, np.empty((0, 1)), footer=footer, comments=comments, newline=newline)
