"""Upper floors that a lower floor loads at first use, by functions that `jmars/__init__.py` puts here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

client: list[Callable[[], Any]] = []  # loads jmars.client, which sets the engine of tensors
notebook: list[Callable[[], Any]] = []  # loads and returns jmars.notebook.controls
