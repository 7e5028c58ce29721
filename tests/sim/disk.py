"""The mover and its disk: slow, full, and sometimes refusing; the messages of jmars/worker/mover.py."""

from __future__ import annotations

from typing import Any

import xxhash

from jmars.storage.arena import Arena
from tests.sim.processes import Child

__all__ = ["Disk"]

SECONDS = 0.002  # that the disk takes for a chunk, on average


class Disk:
    """Files by name."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.files: dict[str, bytes] = {}
        self.written = 0
        self.died = False  # what was to be deleted then goes with the folder

    async def main(self, child: Child, *_: Any) -> None:
        """Serve one mover."""
        faults, random, memory = child.children.faults, child.random, self.arena.memory
        while True:
            message = await child.read()
            await child.take(SECONDS * faults.disk_slow)
            if faults.mover_deaths and random.random() < faults.mover_dies:
                faults.mover_deaths -= 1
                self.died = True
                child.die("killed by SIGKILL")
                await child.take(1.0)
            if message[0] == "spill":
                _, chunk, offset, size = message
                data = bytes(memory[offset : offset + size])
                self.written += 1
                name, error = f"file-{self.written}", ""
                if self.used + size > faults.disk_size or random.random() < faults.disk_refuses:
                    error = "cannot spill: No space left on device; free disk space, or give another spill_dir"
                else:
                    self.files[name] = data
                child.say(("spilled", chunk, name, xxhash.xxh3_64_intdigest(data), error))
            elif message[0] == "load":
                _, chunk, offset, size, name, checksum = message
                data = self.files[name]
                assert xxhash.xxh3_64_intdigest(data) == checksum and len(data) == size
                memory[offset : offset + size] = data
                child.say(("loaded", chunk, ""))
            else:
                self.files.pop(message[1], None)

    @property
    def used(self) -> int:
        """Bytes in files."""
        return sum(map(len, self.files.values()))

    @property
    def left(self) -> list[str]:
        """Files that nobody deleted; what a dead mover left goes with the folder."""
        return [] if self.died else list(self.files)
