"""Reads the file of a run in a process with little memory and time: a crafted file must not hold up the Jupyter server.

A saved run holds no code, yet some kilobytes may unpack to gigabytes. `replay_of` starts this module as a program that
writes replay data to standard output. One file is read at a time.
Source: docs/explanation/reliability.md.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
from pathlib import Path

from jmars.errors import JmarsError
from jmars.notebook.replay import Replay
from jmars.units import format_bytes

MEMORY = 2**30  # bytes of data of the process
CPU_SECONDS = 30  # of CPU; of the clock twice as many
REFUSED = 3  # exit status where the error is told

_one = asyncio.Semaphore(1)


async def replay_of(data: bytes) -> str:
    """The replay data of a saved run, as base64 text.

    Parameters
    ----------
    data
        Bytes of a file of `Job.save`.

    Raises
    ------
    JmarsError
        If the file holds no run, a damaged run, or a run that needs more memory or time.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        path.write_bytes(data)
        command = (sys.executable, "-P", "-m", "jmars.notebook.server.run_file", path, str(MEMORY), str(CPU_SECONDS))
        pipe, env = asyncio.subprocess.PIPE, os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        async with _one:
            process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=env)
            try:
                found, error = await asyncio.wait_for(process.communicate(), 2 * CPU_SECONDS)
            except TimeoutError:
                found = error = b""
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode == REFUSED:
            raise JmarsError(error.decode().replace(str(path), "the file"))
        if process.returncode or not found:
            raise JmarsError(
                f"the file was not read with {format_bytes(MEMORY)} of memory in {CPU_SECONDS} s; so large a run is "
                "shown in a notebook, by jmars.replay(path)"
            )
        return found.decode()


def main(path: str, memory: int, seconds: int) -> int:
    """Print the replay data of a file, or the error, with so many bytes of memory and seconds of CPU."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        data = Replay(path).data
    except JmarsError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return REFUSED
    sys.stdout.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
