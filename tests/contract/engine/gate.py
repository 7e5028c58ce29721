"""Gate: holds users' functions, in whatever process they run, until a test lets them go on."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Gate"]

LONGEST = 20.0  # seconds: a thread that nobody ends must end by itself


@dataclass(frozen=True)
class Gate:
    """Files in a folder: one per call that came to the gate, and one that opens it."""

    folder: str

    def __call__(self, block: Any) -> Any:
        """Wait at the gate; returns the block."""
        name = f"came-{os.getpid()}-{time.monotonic_ns()}"
        Path(self.folder, name).touch()
        end = time.monotonic() + LONGEST
        while not Path(self.folder, "open").exists() and time.monotonic() < end:
            Path(self.folder, "alive").touch()
            time.sleep(0.01)
        return block

    @property
    def came(self) -> int:
        """Calls that came so far."""
        return len(list(Path(self.folder).glob("came-*")))

    @property
    def silent(self) -> float:
        """Seconds since a waiting call was last seen."""
        return time.time() - Path(self.folder, "alive").stat().st_mtime

    def open(self) -> None:
        Path(self.folder, "open").touch()
