"""The mover and its disk: the real `Mover` on a small folder, slow, full, refusing, and losing what it holds."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from jmars.processes.zygote import Mover
from jmars.storage.arena import Arena
from tests.sim.processes import Child

__all__ = ["Disk"]

SECONDS = 0.002  # that the disk takes for a chunk, on average
FULL = "cannot spill: No space left on device; free disk space, or give another spill_dir"


class Disk:
    """Files of one run."""

    def __init__(self, arena: Arena) -> None:
        self._memory = memoryview(arena.memory)
        self.folder = Path(tempfile.mkdtemp(prefix="jmars-sim-"))
        self._written: list[Path] = []  # names are drawn at random, their order is not
        self.died = False  # a mover: what it was to delete then goes with the folder
        self.lost = 0  # files

    async def main(self, child: Child, *_: object) -> None:
        """Serve one mover."""
        faults, random = child.children.faults, child.random
        mover = Mover(self._memory, str(self.folder))
        mover.direct = False
        child.say(("disk", False))
        while True:
            message = await child.read()
            await child.take(SECONDS * faults.disk_slow)
            if faults.mover_deaths and random.random() < faults.mover_dies:
                faults.mover_deaths -= 1
                self.died = True
                child.die("killed by SIGKILL")
                await child.take(1.0)
            if message[0] in ("load", "gather") and random.random() < faults.disk_loses:
                self._harm(random.random())
            refused = random.random() < faults.disk_refuses
            if message[0] == "spill" and (refused or self.used + message[3] > faults.disk_size):
                child.say(("spilled", message[1], "", b"", FULL))
                continue
            answer = getattr(mover, message[0])(*message[1:])
            if message[0] == "spill" and answer[2]:
                self._written.append(self.folder / answer[2])
            if answer is not None:
                child.say(answer)

    def _harm(self, share: float) -> None:
        """Something happens to one file: a byte flips, its end is cut off, it is gone, or another one lies there."""
        files = [path for path in self._written if path.exists()]
        if not files:
            return
        self.lost += 1
        path, kind = files[int(share * len(files))], int(share * 1000) % 4
        data = path.read_bytes()
        if kind == 0 and data:
            path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        elif kind == 1:
            path.write_bytes(data[: len(data) // 2])
        elif kind == 2:
            path.unlink()
        else:
            path.write_bytes(files[0].read_bytes())

    @property
    def used(self) -> int:
        """Bytes in files."""
        return sum(path.stat().st_size for path in self.folder.iterdir())

    @property
    def left(self) -> list[str]:
        """Files that nobody deleted; what a dead mover left goes with the folder."""
        return [] if self.died else [path.name for path in self.folder.iterdir()]

    def close(self) -> None:
        """Remove the folder."""
        self._memory.release()
        shutil.rmtree(self.folder)
