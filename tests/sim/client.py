"""The client of a simulated cluster: uploads, submits, cancels, fetches, compares, lets go.

It does what `jmars.client` does, by the same orders to the same actors. How a job may end follows from what was done to
it: any other end, and any other value, is a `Wrong`.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import cloudpickle
import numpy as np
from msgspec.structs import replace

from jmars.config import config
from jmars.errors import ClusterError, MemoryLimitError, StorageError
from jmars.model.messages import Submission
from jmars.model.status import JobState
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Splits, TensorData
from jmars.tensor.structure import bindings, canonical, digest
from jmars.tensor.tensor_graph import LinkedGraph, TensorGraph
from tests.sim.programs import Program, program

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["Client", "Wrong"]

PROGRAMS = 150
PATIENCE = 600.0  # virtual seconds in which every job has ended
KEPT = "killed processes that do not end keep"  # an error that says so is excused: the wait would have no limit


class Wrong(Exception):
    """The promise was broken."""


class Client:
    """One client with a few jobs, one after the other, or all at once.

    Attributes
    ----------
    settings
        Of all jobs, beside those that are drawn.
    """

    settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, world: World, random: Random) -> None:
        self.world, self.random = world, random
        self.held: dict[str, Any] = {}  # key of what lies on the cluster: its value
        self.ended: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.cancelled: set[str] = set()
        self.ends: list[str] = []  # how each job ended
        self.bringing: list[tuple[int, int]] = []  # (first, count) of chunks that are being uploaded
        self._tickets = itertools.count()

    async def run(self) -> None:
        """All jobs, and then nothing is held any more."""
        programs = self.programs()
        at_once = self.random.random() < 0.5
        tasks = [asyncio.ensure_future(self._program(one)) for one in programs] if at_once else []
        try:
            for one in programs if not at_once else ():
                await self._program(one)
            for task in tasks:
                await task
        finally:
            for task in tasks:
                task.cancel()
        await self._ask("drop", list(self.held))
        self.held.clear()

    def programs(self) -> list[Program]:
        """What the jobs compute."""
        numbers = self.random.sample(range(PROGRAMS), self.random.randint(1, 3))
        return [program(number) for number in numbers]

    def is_right(self, got: Any, expected: Any) -> bool:
        """Whether a value is NumPy's."""
        return bool(np.array_equal(got, expected))

    async def _ask(self, method: str, *args: Any) -> Any:
        """What the session answers, wherever it is."""
        if self.world.apart is not None:
            return await self.world.apart.ask(method, *args)
        answer = getattr(self.world.session, method)(*args)
        return await answer if inspect.isawaitable(answer) else answer

    async def _program(self, one: Program) -> None:
        await asyncio.sleep(self.random.expovariate(10))
        if self.random.random() < 0.4:  # its first result stays, and the next job reads it
            await self._job(one, [0])
        await self._job(one, range(len(one.results)))

    async def _job(self, one: Program, which: Sequence[int]) -> None:
        world, random = self.world, self.random
        data = [one.results[i] for i in which]
        expected = {one.results[i].key: one.expected[i] for i in which}
        raises = one.raises and len(one.results) - 1 in which
        before = set(self.held)
        try:
            uploaded, job = await self._submit(data, f"program-{one.number}")
        except (StorageError, MemoryLimitError, ClusterError) as error:  # there is no room for what it uploads
            self._excuse("an upload", error)
            return
        world.trace(f"{job} is program {one.number}, results {list(which)}")
        ended = self.ended.setdefault(job, world.loop.create_future())
        if random.random() < world.faults.cancels:
            await asyncio.sleep(random.expovariate(1 / random.choice((0.005, 0.05, 0.5))))
            world.trace(f"the client cancels {job}")
            self.cancelled.add(job)
            await self._ask("cancel", job)
        try:
            report = await asyncio.wait_for(ended, PATIENCE)
        except TimeoutError:
            raise Wrong(f"{job} has not ended after {PATIENCE:g} s: {await world.session.describe(job)}") from None
        world.trace(f"{job} has ended: {report['state']} {report['error'] or ''}")
        await self._ask("drop", uploaded)
        if report["state"] != JobState.SUCCEEDED:
            arrays = [node.key for node in data if isinstance(node.op, FromArray) and node.key not in before]
            await self._ask("drop", arrays)
        self.ends.append(report["state"])
        self._judge(job, report, raises)
        if report["state"] == JobState.SUCCEEDED:
            for node in data:
                self.held.setdefault(node.key, expected[node.key])
            for node in data:
                try:
                    await self._compare(job, node)
                except (StorageError, MemoryLimitError, ClusterError) as error:  # no room to read it back
                    self._excuse(f"a fetch of {job}", error)
            for node in data:
                if random.random() < 0.5 and node.key in self.held:
                    del self.held[node.key]
                    await self._ask("drop", [node.key])

    def _excuse(self, what: str, error: Exception) -> None:
        self.world.trace(f"{what} fails: {error!r}")
        if type(error).__name__ not in self.world.excuses() and KEPT not in str(error):
            raise Wrong(f"{what} failed with {error!r}; nothing excuses that") from error

    def _judge(self, job: str, report: dict[str, Any], raises: bool) -> None:
        """Whether it may end so."""
        state, error = report["state"], report["error"]
        if state == JobState.CANCELLED and job in self.cancelled:
            return
        if state == JobState.SUCCEEDED and not raises:
            return
        if state == JobState.FAILED and raises and error.name == "ZeroDivisionError":
            return
        if state == JobState.FAILED and (error.name in self.world.excuses() or KEPT in str(error)):
            return
        raise Wrong(f"{job} ended as {state} with {error}; nothing excuses that")

    # -- as jmars.client does it
    async def _submit(self, data: Sequence[TensorData], name: str) -> tuple[list[str], str]:
        random = self.random
        linked = LinkedGraph.of(data, set(self.held))
        keys = [node.key for node in linked.nodes]
        asked = set(linked.results)
        uploaded: list[str] = []
        kept: list[str] = []
        try:
            for number, operand in enumerate(linked.operands):
                if isinstance(operand, FromArray):
                    if number not in asked:  # else it keeps its name, and stays
                        keys[number] = f"{keys[number]}-{next(self._tickets)}"
                        uploaded.append(keys[number])
                    await self._upload(keys[number], operand.array, linked.nodes[number].chunks)
                    kept.append(keys[number])
        except BaseException:
            await self._ask("drop", kept)
            raise
        settings = {
            **config.task,
            "combine_size": random.choice((2, 4)),
            "fuse_enabled": random.random() < 0.6,
            "order": random.choice(("auto", "mars", "dfs")),
            "shards": random.choice((1, 1, 2, 3)),
            "dispatch": random.choice(("central", "central", "late")),
            **self.settings,
        }
        ticket = str(next(self._tickets))
        if linked.unfolds:
            graph = TensorGraph.from_linked(linked, keys)
            return uploaded, await self._ask("submit", Submission(cloudpickle.dumps(graph), name, settings, ticket))
        structure = digest(linked.operands, linked.nodes, linked.inputs, linked.results, settings)
        again = Submission(b"", name, settings, ticket, structure, bindings(linked.operands, keys))
        job = await self._ask("submit", again)
        if not job:
            blob = cloudpickle.dumps(canonical(TensorGraph.from_linked(linked, keys)))
            job = await self._ask("submit", replace(again, graph=blob))
        return uploaded, job

    async def _upload(self, key: str, array: Any, splits: Splits) -> None:
        world = self.world
        parts = list(blocks(splits))
        first = await self._ask("take_chunks", len(parts))
        self.bringing.append((first, len(parts)))
        try:
            for chunk, part in enumerate(parts, first):
                piece = np.ascontiguousarray(array[part])
                await world.put(chunk, piece)
        except BaseException:
            world.abandon(first, len(parts))
            self.bringing.remove((first, len(parts)))
            raise
        await self._ask("keep", key, first, len(parts))
        self.bringing.remove((first, len(parts)))

    async def _compare(self, job: str, node: TensorData) -> None:
        """Fetch a result: it must be NumPy's."""
        world = self.world
        if node.key not in self.held:
            return
        expected = self.held[node.key]
        pieces: list[Any] = []
        (chunks,) = await self._ask("chunks", [node.key])
        shapes = [self.world.session.meta.shapes.get(chunk) for chunk in chunks]
        for chunk, shape in zip(chunks, shapes, strict=True):
            pieces.append(await world.get(chunk, shape or _planned_shape(node, len(pieces)), node.dtype))
        got = assembled(pieces, node)
        if got.dtype != expected.dtype or got.shape != expected.shape or not self.is_right(got, expected):
            raise Wrong(f"{job} gave a wrong value of {node.op.label}: {got!r:.300} instead of {expected!r:.300}")


def _planned_shape(node: TensorData, place: int) -> tuple[int, ...]:
    """Shape of a chunk as its graph says."""
    grid = [len(axis) for axis in node.chunks]
    where = np.unravel_index(place, grid) if grid else ()
    return tuple(axis[i] for axis, i in zip(node.chunks, where))


def blocks(splits: Splits) -> list[tuple[slice, ...]]:
    """Where each chunk lies, in C order."""
    edges = [[0, *itertools.accumulate(axis)] for axis in splits]
    return list(itertools.product(*([slice(a, b) for a, b in itertools.pairwise(axis)] for axis in edges)))


def assembled(pieces: list[Any], node: TensorData) -> Any:
    """Chunks in C order as one array."""
    for axis in reversed(range(len(node.chunks))):
        count = len(node.chunks[axis])
        pieces = [np.concatenate(pieces[at : at + count], axis) for at in range(0, len(pieces), count)]
    return pieces[0]
