"""Drawing: a graph drawn by Graphviz, shown by notebooks and saved to files.

Needs the Python package `graphviz` (`pip install "jmars[reports]"`) and Graphviz's program `dot`.
Source: https://graphviz.readthedocs.io/en/stable/api.html.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from jmars.errors import JmarsError
from jmars.tensor.atomic_file import atomic_file

__all__ = ["Drawing"]

KINDS = ("svg", "png", "pdf", "dot")


class Drawing:
    """A graph as text for `dot`; notebooks show it as SVG.

    Examples
    --------
    >>> Drawing("digraph { a -> b }").dot
    'digraph { a -> b }'
    """

    def __init__(self, dot: str) -> None:
        self.dot = dot

    def __repr__(self) -> str:
        return f"<Drawing of {len(self.dot):,} characters; save(path), or show it in a notebook>"

    def _repr_svg_(self) -> str:
        return self._drawn("svg").decode()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the drawing to a file, atomically: .svg, .png, .pdf, or .dot for the text; returns the path.

        Raises
        ------
        ValueError
            If the file's name ends otherwise.
        JmarsError
            If Graphviz is not installed.
        """
        target = Path(path)
        kind = target.suffix.lstrip(".").lower()
        if kind not in KINDS:
            raise ValueError(f"{target.name!r} has no known ending; name the file .svg, .png, .pdf or .dot")
        data = self.dot.encode() if kind == "dot" else self._drawn(kind)
        with atomic_file(os.path.abspath(target)) as part:
            Path(part).write_bytes(data)
        return target

    def _drawn(self, kind: str) -> bytes:
        graphviz = _graphviz()
        try:
            drawn: bytes = graphviz.Source(self.dot).pipe(format=kind)
        except graphviz.ExecutableNotFound:
            raise JmarsError(
                "drawing needs Graphviz's program dot, which is not in the PATH; install it with apt-get install "
                "graphviz, conda install graphviz or brew install graphviz, or save the drawing as .dot"
            ) from None
        return drawn


def _graphviz() -> Any:
    try:
        return importlib.import_module("graphviz")
    except ImportError as error:
        raise JmarsError(f"drawing needs the package graphviz ({error}); pip install 'jmars[reports]'") from error
