"""Scratch memory promised to running operands on one host.

Outputs and inputs need no promise: their slots are taken before an operand is sent. `Quota` decides; `execution` asks.
Source: seed 003, "内存管理" (QuotaActor).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jmars.errors import MemoryLimitError
from jmars.units import format_bytes

__all__ = ["Quota"]


@dataclass
class Quota:
    """Bytes of process memory, granted first come, first served: who is refused waits at the head of the line."""

    total: int  # bytes
    granted: dict[tuple[str, int], int] = field(default_factory=dict)  # (job, operand): bytes

    @property
    def free(self) -> int:
        """Bytes that nobody was promised."""
        return self.total - sum(self.granted.values())

    def request(self, job: str, operand: int, size: int) -> bool:
        """Whether `size` bytes are granted now; the same operand asking again is granted at once.

        Raises
        ------
        MemoryLimitError
            If the host never has so much.
        """
        if size > self.total:
            raise MemoryLimitError(
                f"an operand needs {format_bytes(size)} of working memory and the host keeps "
                f"{format_bytes(self.total)} for that; use a smaller chunk_size or raise memory_limit"
            )
        if (job, operand) in self.granted:
            return True
        if size > self.free:
            return False
        self.granted[job, operand] = size
        return True

    def release(self, job: str, operand: int) -> None:
        """Give back what an operand was promised, if anything."""
        self.granted.pop((job, operand), None)
