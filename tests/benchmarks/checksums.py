"""What checksums and authentication cost a chunk of 64 MiB: python -m tests.benchmarks checksums [--check].

Each round writes and reads a chunk with checksums and without, one after the other, as the mover does; the median of
the pairs' ratios counts. A connection is authenticated once, by the user's id and the cluster's token, when it is made,
and carries no chunk, since these lie in shared memory; all that making one takes is counted here nevertheless, as if
each chunk had a connection made for it alone.
Goal: both together at most 3 % of a chunk's write and read. `--check` fails when it is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager

from jmars.actors import Mailbox, connect, new_token, serve
from jmars.storage import spill
from tests.benchmarks.machine import describe, this_machine

SIZE = 64 * 2**20
GOAL = 0.03


@contextmanager
def nothing_summed():
    """Checksums are zeros, made in no time."""
    real, spill.block_sums = spill.block_sums, lambda data: bytes(8 * -(-len(data) // spill.CHECKED))
    try:
        yield
    finally:
        spill.block_sums = real


def move(folder: str, data: memoryview, direct: bool) -> float:
    """Seconds to write a chunk and read it back."""
    start = time.perf_counter()
    name, sums = spill.write_chunk(folder, data, direct)
    spill.read_chunk(folder, name, sums, data, direct)
    seconds = time.perf_counter() - start
    spill.delete_chunk(folder, name)
    return seconds


async def connections(path: str, count: int) -> list[float]:
    """Seconds to make each of so many connections, proofs of both ends and all."""
    token = new_token()
    server = await serve(path, Mailbox(), token)
    found = []
    for _ in range(count):
        start = time.perf_counter()
        channel = await connect(path, token)
        found.append(time.perf_counter() - start)
        channel.close()
    server.close()
    return found


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--check", action="store_true", help="exit 1 when the goal is missed")
    given = parser.parse_args()
    print(f"machine: {this_machine()}")
    sys.setswitchinterval(1e-5)  # as the mover has it
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        direct = spill.takes_direct(folder)
        print(f"{folder}: {'past the page cache' if direct else 'through the page cache'}")
        memory = mmap.mmap(-1, SIZE)
        memory[:] = os.urandom(2**20) * (SIZE // 2**20)
        data = memoryview(memory)
        start = time.process_time()
        spill.block_sums(data)
        print(f"the checksums of 64 MiB take {1e3 * (time.process_time() - start):.1f} ms of CPU")
        move(folder, data, direct)
        found: dict[str, list[float]] = {"with": [], "without": []}
        for number in range(given.rounds):
            for how in ("with", "without") if number % 2 else ("without", "with"):
                if how == "with":
                    found[how].append(move(folder, data, direct))
                else:
                    with nothing_summed():
                        found[how].append(move(folder, data, direct))
        data.release()
        proving = asyncio.run(connections(os.path.join(folder, "socket"), 10 * given.rounds))
    for how, seconds in found.items():
        print(f"{how:8s}{describe([1e3 * one for one in seconds], 'ms')}")
    print(f"a connection is made and proven in {describe([1e3 * one for one in proving], 'ms')}, once")
    sums = statistics.median(a / b for a, b in zip(found["with"], found["without"])) - 1
    proof = statistics.median(proving) / statistics.median(found["without"])
    cost = sums + proof
    print(
        f"checksums cost {100 * sums:.1f} %, authentication {100 * proof:.2f} % "
        f"(goal: at most {100 * GOAL:g} % together): {'met' if cost <= GOAL else 'MISSED'}"
    )
    return 1 if given.check and cost > GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
