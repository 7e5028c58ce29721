"""How lower floors reach the notebook part, which stands above them: `jmars/__init__.py` puts a function there."""

from __future__ import annotations

from typing import Any

__all__ = ["loader"]

loader: list[Any] = []  # a function that loads and returns jmars.notebook.controls
