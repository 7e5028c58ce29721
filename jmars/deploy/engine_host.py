"""EngineHost: starts the head of a cluster on an engine, in a thread of this process, and ends it.

The thread has an event loop of its own. There are no processes to end; closing frees our results on the engine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jmars.actors import new_token
from jmars.deploy.engine_head import EngineHead
from jmars.deploy.folders import Folders, sweep
from jmars.engines.engine import START_SECONDS, TaskEngine
from jmars.errors import ClusterStartError, text_of

__all__ = ["EngineHost"]

log = logging.getLogger("jmars.host")

THREADS = 4  # that prepare graphs
DEADLINE = 2.5 * START_SECONDS  # until the head listens: the steps of an engine's start have deadlines of their own
END_SECONDS = 30.0  # for an engine to free our results


class EngineHost:
    """A cluster on an engine; has the interface of `LocalHost`.

    Parameters
    ----------
    engine
        Not started yet.
    name
        What lists of clusters show; "" for one of its id.
    mode, why
        How the engine is used, and why so, for `Cluster.info`.

    Raises
    ------
    ClusterStartError
        If the engine does not start, or the head does not listen within DEADLINE seconds.
    """

    arena = -1  # no memory is shared
    detached = far = False

    def __init__(self, engine: TaskEngine, name: str = "", mode: str = "tasks", why: str = "") -> None:
        sweep()
        self.id = secrets.token_hex(4)
        self.name = name or f"{engine.kind}-{self.id}"
        self.token = new_token()
        self.limit = self.janitor = 0
        self.pid = os.getpid()
        self.words = ""  # why it ended
        self.folders = Folders.make(self.id, None)
        self._lock = self.folders.lock()  # others see by it that the cluster lives
        self._engine, self._mode, self._why = engine, mode, why
        self._loop: asyncio.AbstractEventLoop | None = None
        self._head: EngineHead | None = None
        self._error: BaseException | None = None
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"jmars-{engine.kind}", daemon=True)
        self._thread.start()
        try:
            if not self._listening.wait(DEADLINE):
                raise ClusterStartError(
                    f"the {engine.kind.title()} cluster at {engine.address} did not start within {DEADLINE:.0f} s; "
                    "look whether it and its workers answer (its dashboard and logs tell), and try again"
                )
            if self._error is not None:
                raise self._error
        except BaseException:
            self.close()
            raise

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            log.debug("the head ended", exc_info=error)
            self.words = f"{type(error).__name__}: {text_of(error)}"
            if not self._listening.is_set():
                self._error = error if isinstance(error, Exception) else ClusterStartError(self.words)
        finally:
            self.folders.remove()  # nobody finds it any more, whether or not its owner hears of the end
            self._listening.set()

    async def _serve(self) -> None:
        orders = {
            "id": self.id,
            "name": self.name,
            "token": self.token,
            "kernel": os.getpid(),
            "detach": False,
            "mode": self._mode,
            "why": self._why,
        }
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS, f"jmars-{self._engine.kind}"))
        self._head = EngineHead(orders, self.folders, self._engine)
        await self._head.run(self._listening.set)

    @property
    def socket(self) -> Path:
        """Where the cluster listens."""
        return self.folders.socket

    def is_alive(self) -> bool:
        """Whether the head runs."""
        return self._thread.is_alive()

    def hang_up(self) -> None:
        """No effect: the head ends with this process."""

    def close(self) -> None:
        """End the head and free our results on the engine."""
        if self._loop is not None and self._thread.is_alive():
            try:
                self._loop.call_soon_threadsafe(self._end)
            except RuntimeError:  # its loop has just closed
                pass
        if threading.current_thread() is not self._thread:
            self._thread.join(END_SECONDS)
        self.folders.remove()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _end(self) -> None:
        if self._head is not None and self._listening.is_set():
            self._head.stop(f"by the program that started it (process {os.getpid()})")
        else:  # it starts still
            for task in asyncio.all_tasks():
                task.cancel()
