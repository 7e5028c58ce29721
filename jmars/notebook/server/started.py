"""Clusters that the side bar started, each held by a process of its own, which is a child of the Jupyter server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Collection
from dataclasses import asdict

from jmars.errors import ClusterStartError
from jmars.notebook.server.orders import StartOrder

__all__ = ["MOST", "StartedClusters"]

MOST = 16  # clusters at once
START_SECONDS = 120.0  # hosts by ssh and engines need longer than processes of this machine
END_SECONDS = 10.0
_COMMAND = (sys.executable, "-P", "-m", "jmars.notebook.server.cluster_process")


class StartedClusters:
    """Starts clusters and ends them; used on the Jupyter server's event loop only."""

    def __init__(self) -> None:
        self._processes: dict[str, asyncio.subprocess.Process] = {}  # by id of the cluster
        self._starting = 0

    def __contains__(self, cluster: str) -> bool:
        return cluster in self._processes

    @property
    def holders(self) -> set[int]:
        """Ids of the processes that hold the clusters."""
        return {process.pid for process in self._processes.values()}

    async def start(self, order: StartOrder, folder: str) -> dict[str, str]:
        """Starts a cluster; returns its id and name.

        Parameters
        ----------
        folder
            Where its process runs.

        Raises
        ------
        ClusterStartError
            If the cluster does not come up, or there are too many.
        """
        if len(self._processes) + self._starting >= MOST:
            raise ClusterStartError(f"{MOST} clusters were started here; stop one of them first")
        self._starting += 1
        try:
            pipe = asyncio.subprocess.PIPE
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            process = await asyncio.create_subprocess_exec(
                *_COMMAND, stdin=pipe, stdout=pipe, cwd=folder, env=environment, start_new_session=True
            )
            try:
                told = await self._first_words(process, order)
            except BaseException:
                process.kill()
                await process.wait()
                raise
        finally:
            self._starting -= 1
        if "error" in told:
            await process.wait()
            raise ClusterStartError(told["error"])
        self._processes[told["id"]] = process
        return told

    async def _first_words(self, process: asyncio.subprocess.Process, order: StartOrder) -> dict[str, str]:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
            told: dict[str, str] = json.loads(line)
        except TimeoutError:
            raise ClusterStartError(f"the cluster did not come up within {START_SECONDS:g} s") from None
        except ValueError:
            raise ClusterStartError("the cluster did not come up; the server's log has the reason") from None
        return told

    async def stop(self, cluster: str) -> None:
        """Ends a cluster of ours, and waits until its processes have ended; no effect if another call ends it."""
        process = self._processes.pop(cluster, None)
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()  # upon which the janitor of the cluster removes what is left
            await process.wait()

    async def forget(self, registered: Collection[str]) -> None:
        """Ends the processes of clusters that others have ended."""
        await asyncio.gather(*[self.stop(cluster) for cluster in self._processes if cluster not in registered])

    async def close(self) -> None:
        """Ends all clusters of ours."""
        await asyncio.gather(*(self.stop(cluster) for cluster in list(self._processes)))
