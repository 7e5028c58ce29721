"""The process of a head: `python -m jmars head`, for a cluster of several hosts; see `inside_dask`, `inside_ray`.

Orders come as one JSON line from standard input; the end of standard input is the kernel's end. The answer comes when
all hosts have joined.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from jmars.deploy.folders import Folders
from jmars.deploy.hosts_head import HostsHead
from jmars.deploy.janitor import start_janitor
from jmars.errors import JmarsError

__all__ = ["main"]


def main(make: Callable[[dict[str, Any], Folders, int], HostsHead] = HostsHead) -> None:
    """Be a head, which `make` gives, until the cluster ends."""
    orders = json.loads(sys.stdin.buffer.readline())
    kernel_end, answer = os.dup(0), os.dup(1)  # nobody else reads the first or writes the second
    if orders["detach"] and os.fork():
        os._exit(0)  # whoever started us waits for this process, and is no parent of the one that stays
    if orders["detach"]:
        os.setsid()
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.path[:] = orders["path"]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    folders = Folders(**orders["folders"])
    lock = folders.lock()  # held until both the janitor and this process have ended
    janitor, alive = start_janitor(folders, orders["kernel"], [kernel_end, answer])

    def say(told: dict[str, Any]) -> None:
        os.write(answer, json.dumps(told).encode() + b"\n")
        os.close(answer)

    async def serve_until_the_end() -> None:
        try:
            await make(orders | {"answer": say}, folders, janitor).run(kernel_end)
        except JmarsError as error:
            say({"error": str(error), "kind": "start"})
        os._exit(0)  # what a thread still compiles is of no use

    asyncio.run(serve_until_the_end())
    del lock, alive
