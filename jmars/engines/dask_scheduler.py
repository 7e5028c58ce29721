"""Functions in the scheduler of a Dask cluster: places of group tasks, facts, clean-up.

All are local classes and functions, so that cloudpickle sends their code: a scheduler imports nothing of this module.
Source: docs/explanation/seeds.md, "Execution control".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from heapq import nsmallest
from operator import attrgetter
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.ioloop import PeriodicCallback

from jmars.engines.dask_worker import RESOURCE

__all__ = ["cleaner", "facts", "placing_plugin", "reviver"]

LONG = 1.0  # seconds: tasks behind one that runs for longer go elsewhere
LATE = 5.0  # seconds in which a message of a worker may come after the end
TRIES = 200  # to find the last task of a client that is gone, in 10 s
PERIOD = 0.5  # seconds between looks for such tasks, as often as workers tell


def placing_plugin(cluster: str, topic: str, owner: str) -> SchedulerPlugin:
    """Scheduler plugin that chooses where the group tasks of a cluster of jmars run.

    **Places.** The planned worker is a preference, the memory of the task a condition. Dask's `allow_other_workers`
    would lift both: a task could come to a worker without the resource, where Dask fails, or to a worker with other
    versions. The plugin deletes the planned worker when the task is given to a worker, so that Dask's stealing may move
    the task, or when that worker cannot take the task. A demand beyond every worker is lowered to the largest.

    **Busy workers.** Idle workers take tasks that wait behind a long task. Dask's stealing reckons with the mean time
    of all tasks with the same prefix, so that short tasks would wait there for seconds, and outputs for ever.

    **A killed kernel.** Dask frees the tasks of a client that is gone; where that client is `owner`, the plugin removes
    worker plugin, topic, resource and itself.
    """
    clean = cleaner(topic, cluster)

    class JmarsPlaces(SchedulerPlugin):
        scheduler: Any

        async def start(self, scheduler: Any) -> None:
            self.scheduler = scheduler
            self.busy: set[Any] = set()
            self.is_due = False
            self.looking = PeriodicCallback(self.look, PERIOD * 1000)
            self.looking.start()

        def end(self) -> None:
            self.looking.stop()

        async def close(self) -> None:
            self.end()

        def update_graph(self, scheduler: Any, *, tasks: Iterable[Any], **kwargs: Any) -> None:
            self.check(tasks)

        def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
            if finish == "processing" and self.is_ours(key):
                self.scheduler.tasks[key].worker_restrictions = None
            if self.busy and "processing" in (start, finish) and not self.is_due:
                self.is_due = True
                self.scheduler.loop.add_callback(self.move)

        def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
            self.check([key for key, task in scheduler.tasks.items() if task.state in ("waiting", "no-worker")])

        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == owner:
                scheduler.loop.add_callback(self.clean_up)

        async def clean_up(self) -> None:
            """Remove everything that an ended client left."""
            with suppress(Exception):  # the client was gone before it had a worker plugin
                await self.scheduler.unregister_worker_plugin(comm=None, name=topic)
            for _ in range(TRIES):
                if not clean(self.scheduler):
                    return
                await asyncio.sleep(0.05)

        def is_ours(self, key: Any) -> bool:
            return isinstance(key, str) and key.startswith("jmars-") and cluster in key

        def check(self, keys: Iterable[Any]) -> None:
            """Lift conditions that no worker meets from tasks that no worker has."""
            there = self.scheduler.resources.get(RESOURCE, {})
            for key in filter(self.is_ours, keys):
                task = self.scheduler.tasks[key]
                asked = (task.resource_restrictions or {}).get(RESOURCE)
                if asked is not None and there and asked > max(there.values()):
                    asked = max(there.values())
                    task.resource_restrictions = {**task.resource_restrictions, RESOURCE: asked}
                planned = task.worker_restrictions or ()
                if planned and not any(there.get(worker, -1) >= (asked or 0) for worker in planned):
                    task.worker_restrictions = None

        def look(self) -> None:
            """Find workers with long tasks (over LONG seconds at the last heartbeat) in all threads."""
            self.busy = {
                worker
                for worker in self.scheduler.workers.values()
                if sum(seconds > LONG for task, seconds in worker.executing.items() if task in worker.processing)
                >= worker.nthreads
            }
            self.move()

        def move(self) -> None:
            """Ask busy workers for as many tasks as idle workers can start at once."""
            self.is_due = False
            stealing = self.scheduler.extensions["stealing"]
            free: dict[Any, int] = {}
            for worker in self.scheduler.running if self.busy else ():
                threads = worker.nthreads - len(worker.processing) - stealing.in_flight_tasks[worker]
                if threads > 0:
                    free[worker] = threads
            for victim in self.busy if free else ():
                waiting = [
                    task
                    for task in victim.processing
                    if self.is_ours(task.key) and task not in victim.executing and task not in stealing.in_flight
                ]
                for task in nsmallest(sum(free.values()), waiting, key=attrgetter("priority")):
                    valid = self.scheduler.valid_workers(task)
                    thief = next((worker for worker in free if valid is None or worker in valid), None)
                    if thief is not None:
                        stealing.move_task_request(task, victim, thief)
                        free[thief] -= 1
                        if not free[thief]:
                            del free[thief]

    return JmarsPlaces()


def reviver(plugin: str) -> Callable[..., None]:
    """Function for `Client.run_on_scheduler` that starts group tasks that Dask set aside for want of a worker.

    Dask tries such tasks again when a worker joins, but that worker has no resource yet.
    """

    def revive(dask_scheduler: Any) -> None:
        places = dask_scheduler.plugins[plugin]
        places.check([task.key for task in dask_scheduler.unrunnable])
        for worker in list(dask_scheduler.running):
            found = dask_scheduler.bulk_schedule_unrunnable_after_adding_worker(worker)
            dask_scheduler.transitions(found, plugin)

    return revive


def facts() -> Callable[..., dict[str, Any]]:
    """Function for `Client.run_on_scheduler`: `worker-ttl`, `allowed-failures`, and whether jmars is installed."""

    def tell(dask_scheduler: Any) -> dict[str, Any]:
        from importlib.util import find_spec

        has = find_spec("jmars") is not None
        return {"ttl": dask_scheduler.worker_ttl, "failures": dask_scheduler.allowed_failures, "jmars": has}

    return tell


def cleaner(topic: str, cluster: str) -> Callable[..., int]:
    """Function for `Client.run_on_scheduler` that deletes plugin, topic, resource; returns the number of leftovers.

    Call until the function returns 0, since releases travel on another connection. The resource stays while other
    clusters of jmars use the Dask cluster.
    """

    def clean(dask_scheduler: Any) -> int:
        places = dask_scheduler.plugins.pop(topic, None)
        if places is not None:
            places.end()
        left = sum(str(key).startswith("jmars-") and cluster in str(key) for key in dask_scheduler.tasks)
        with suppress(Exception):  # Dask has no public name for it; at most 1,000 events would stay
            left += dask_scheduler._broker._topics.pop(topic, None) is not None
        others = any(str(name).startswith("jmars-") for name in dask_scheduler.worker_plugins)
        if left:
            return left
        with suppress(Exception):  # a message of a worker may be on the way
            dask_scheduler.loop.call_later(LATE, dask_scheduler._broker._topics.pop, topic, None)
        if not others and not any(
            RESOURCE in (task.resource_restrictions or ()) for task in dask_scheduler.tasks.values()
        ):
            for worker in dask_scheduler.workers.values():
                worker.resources.pop(RESOURCE, None)
                worker.used_resources.pop(RESOURCE, None)
            dask_scheduler.resources.pop(RESOURCE, None)
        return 0

    return clean
