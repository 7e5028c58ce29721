"""A `BufferManager` without processes, for tests of who gets memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jmars.memory.buffer_manager import AllocationRequest, BufferManager
from jmars.storage.arena import SLAB, Allocator
from jmars.storage.chunks import ChunkRange, Chunks, SpillFile


class Host:
    """A `BufferManager` over four slots, and a mover that notes what it is told and does it when asked to."""

    def __init__(self) -> None:
        self.arena: Any = Allocator(4 * SLAB)
        self.chunks = Chunks(self.arena, next_use=lambda chunk: chunk)
        self.told: list[tuple[Any, ...]] = []
        self.said: list[Any] = []  # who was granted which slot, or refused why
        self.lost: list[int] = []
        self.pulled: list[tuple[Any, ...]] = []  # asked of other hosts
        self.withdrawn: list[int] = []  # chunks of reads that are not wanted any more
        self.calls: dict[str, Any] = {"lost": lambda chunk, why: self.lost.append(chunk), "one_reader": lambda _: False}
        self.buffers = BufferManager(
            self.arena,
            self.chunks,
            start_mover=lambda received, ended: self,
            in_use=set,
            idle=lambda: True,
            moved=lambda *_: None,
            lost=lambda chunk, why: self.calls["lost"](chunk, why),
            shed=lambda lacking: False,
            has_one_reader=lambda chunk: bool(self.calls["one_reader"](chunk)),
            copied=lambda chunk: self.said.append(("copied", chunk)),
        )
        self.buffers.pull_by(self._pull)
        self.buffers.disk.patience = 0.0

    def _pull(self, wanted: ChunkRange, hosts: Any, done: Callable[[str], None]) -> Callable[[], None]:
        self.pulled.append((wanted, hosts, done))
        return lambda: self.withdrawn.append(wanted.chunk)

    def send(self, message: tuple[Any, ...]) -> None:
        self.told.append(message)

    def store(self, *chunks: int) -> None:
        for chunk in chunks:
            self.chunks.memory[chunk] = self.arena.allocate(SLAB)

    def spilled(self, *chunks: int) -> None:
        for chunk in chunks:
            self.chunks.disk[chunk] = SpillFile(f"file-{chunk}", b"", SLAB)

    def ask(self, name: str, chunks: Any = (), slots: int = 0) -> AllocationRequest:
        def refused(error: Exception) -> None:
            self.said.append((name, type(error)))

        def granted(slot: int) -> None:
            self.said.append((name, slot))

        request = AllocationRequest(chunks, slots * SLAB or None, granted, refused, name)
        self.buffers.enqueue(request)
        return request

    def move(self, error: str = "") -> None:
        while self.told:
            what, chunk, *_ = self.told.pop(0)
            if what == "spill":
                self.buffers.received(self, ("spilled", chunk, f"file-{chunk}", b"", error))
            elif what == "load":
                self.buffers.received(self, ("loaded", chunk, error))
