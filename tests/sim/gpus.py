"""Simulated hosts with GPUs: the real control code and the real `GpuBatches`, on fake devices as late as events allow.

The slab of each GPU holds a tenth of the data of a run's programs, or an operand if that is more. Programs are of
floating-point numbers, which GPUs take; functions that GPUs lack run on cores in between.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from random import Random
from typing import Any, ClassVar, NoReturn

import numpy as np

import jmars.tensor as mt
from jmars.devices.device import Device, DeviceLostError
from jmars.devices.device_program import device_program
from jmars.devices.fake_device import FakeDevice
from jmars.devices.runner import PinnedSegments
from jmars.model.limits import PAGE
from jmars.optimize import compile_graph
from jmars.plan import Profile
from jmars.processes.executor import _Ready
from jmars.processes.executor_messages import ACCEPTED, GPU_LOST, REVOKED, CopyDown, ExecutorReport, RunOnDevice
from jmars.processes.gpu_batches import GpuBatches
from jmars.scheduler.ranking import Machine
from jmars.storage.arena import SLAB, removals
from jmars.tensor.tensor_graph import TensorGraph
from tests.sim.client import Client
from tests.sim.executor import SECONDS, Executor, _Batch
from tests.sim.faults import Faults
from tests.sim.hosts import HostsWorld
from tests.sim.processes import Child, Tokens
from tests.sim.programs import Program
from tests.sim.world import Report, World, run_world

__all__ = ["GpuHostsWorld", "GpuWorld", "run_gpus"]

N = 96  # rows and columns
Step = Callable[[Any, Any, Any], Any]

# Each takes the library and two values of shape (N, N), and gives one of that shape.
STEPS: list[Step] = [
    lambda xp, x, y: x + y,
    lambda xp, x, y: x * y - 0.5,
    lambda xp, x, y: xp.sqrt(xp.abs(x)) + y,
    lambda xp, x, y: xp.maximum(x, y),
    lambda xp, x, y: xp.where(x > y, x, -y),
    lambda xp, x, y: xp.floor(4 * x) % 3 + (y > 0),
    lambda xp, x, y: x.T + y,
    lambda xp, x, y: x - y.sum(axis=0, keepdims=True) / N,
    lambda xp, x, y: x - y.mean(axis=1, keepdims=True),
    lambda xp, x, y: x * (y.max() > 0.5),
    lambda xp, x, y: x - y.min(axis=0),
    lambda xp, x, y: (x @ y) / N,
    lambda xp, x, y: xp.concatenate([x[N // 2 :], y[: N // 2]]),
    lambda xp, x, y: x[::-1] + y[:, ::-1],
    lambda xp, x, y: x.reshape(N // 2, 2 * N).reshape(N, N) - y,
    lambda xp, x, y: xp.sort(x, axis=1) + y,
    lambda xp, x, y: xp.fft.fft(x, axis=0).real / N + y,
    lambda xp, x, y: xp.cumsum(x, axis=0) / N + y,  # stays on the CPU
    lambda xp, x, y: (x > 0).astype("i4") * 2 + y,
]


@cache
def program(number: int) -> tuple[Program, int]:
    """The program of this number, and the bytes of a slab for it."""
    random, rng = Random(number), np.random.default_rng(number)
    theirs: list[Any] = [rng.random((N, N)) - 0.5, rng.random((N, N)) - 0.5]
    ours: list[Any] = [mt.array(one, chunk_size=(24, 32, 40)[number % 3]) for one in theirs]
    for _ in range(random.randint(4, 12)):
        step, left, right = random.choice(STEPS), random.randrange(len(ours)), random.randrange(len(ours))
        ours.append(step(mt, ours[left], ours[right]))
        theirs.append(step(np, theirs[left], theirs[right]))
    made = Program(number, [one.data for one in ours[-2:]], theirs[-2:], False)
    graph = TensorGraph.of(made.results)
    for row, *_ in graph.arrays():
        graph.replace_by_stored(row, f"array-{row}")
    chunks = compile_graph(graph, {}).after
    found = [(program, device_program(program)) for program in chunks.programs]
    needs = [
        on.scratch + sum(-(-kind.nbytes // PAGE) * PAGE for kind in (*one.inputs, one.output))
        for one, on in found
        if on is not None
    ]
    return made, max(SLAB + max(needs, default=PAGE), int(chunks.nbytes.sum()) // 10)


class GpuClient(Client):
    """A client whose programs GPUs can run."""

    settings: ClassVar[dict[str, Any]] = {"gpu": "prefer", "dispatch": "central"}

    def programs(self) -> list[Program]:
        """One for each seed, now and then with a second."""
        return [program(number)[0] for number in self.world.numbers]  # type: ignore[attr-defined]

    def is_right(self, got: Any, expected: Any) -> bool:
        """Sums are rounded in another order."""
        return bool(np.allclose(got, expected, rtol=1e-9, atol=1e-9))


class _Lost(Exception):
    """The context is lost: the process ends."""


class SimBatches(GpuBatches):
    """The real batches, on a device with streams of some order."""

    def __init__(self, memory: Any, device: FakeDevice, slab: int) -> None:
        super().__init__("a fake GPU", memory)
        self._made = device, slab

    @property
    def evicted(self) -> int:
        """Bytes that went out."""
        return self._runner.copied[1]

    def _open(self) -> tuple[Device, int]:
        return self._made

    def _segments(self, device: Device) -> PinnedSegments:
        """Of a few chunks each: half of the copies need no buffer."""
        return PinnedSegments(device, self._bytes, partial(removals, self._memory), 8 * PAGE, 2 * PAGE)

    def _end(self, error: DeviceLostError) -> NoReturn:
        raise _Lost


class SimGpus:
    """What the processes of GPUs do, on one host or on several.

    Attributes
    ----------
    numbers
        Programs of the run.
    slab
        Bytes of each GPU for chunks.
    on_device, downs, losses
        Operands that GPUs ran, chunks that were copied down later, GPUs that lost their context.
    """

    def __init__(self, seed: int, lost: float) -> None:
        random = Random(f"gpus of {seed}")
        self.numbers = [seed] if random.random() < 0.7 else [seed, seed + 1]
        self.slab = max(program(number)[1] for number in self.numbers) // PAGE * PAGE
        self.count = random.choice((1, 1, 2))  # of a host
        self._lacks = random.choice(((), (), (), ("function",), ("permute",)))
        self._lost = lost  # share of processes whose GPU loses its context
        self._left = 3  # of them, for a run has to end
        self.on_device = self.downs = self.losses = 0

    async def main(self, arena: Any, executor: Executor, child: Child, *_: Any) -> None:
        """The process of a GPU."""
        child.link.semaphore = Tokens()  # type: ignore[assignment]
        for _ in range(child.link.waiting_batches()):
            child.link.semaphore.post()
        random = child.random
        lost_after = None
        if self._left and random.random() < self._lost:
            self._left -= 1
            lost_after = random.randint(15, 600)
        order = random.choice(("late", "early", random.randrange(1000)))
        device = FakeDevice(2 * self.slab + 2**20, order, lost_after, self._lacks)
        batches = SimBatches(arena.memory, device, self.slab)
        await child.take(0.01)
        child.say(ExecutorReport(0, [], 0, 0, batches.warm_up(), []))
        blobs: dict[int, bytes] = {}
        ready: dict[int, Any] = {}
        try:
            while True:
                if child.is_idle:
                    batches.settle(child.say)
                message = await child.read()
                await self._order(executor, child, batches, blobs, ready, message)
        except _Lost:
            self.losses += 1
            child.link.how = child.link.how or "gpu"  # as `Children` reads from the exit status
            child.die(f"exit status {GPU_LOST}")
            await child.take(1.0)

    async def _order(
        self,
        executor: Executor,
        child: Child,
        batches: SimBatches,
        blobs: dict[int, bytes],
        ready: dict[int, Any],
        message: Any,
    ) -> None:
        faults, random = child.children.faults, child.random
        if message[0] == "program":
            blobs[message[1]] = message[2]
            ready[message[1]] = _Ready(message[2])
        elif message[0] == "forget":
            blobs.clear()
            ready.clear()
            batches.told.clear()
        elif message[0] == "offer":
            child.say((0, [], 0, 0, (ACCEPTED,), []))
        elif message[0] == "copy down":
            await child.take(SECONDS / 10)
            self.downs += 1
            batches.copy_down(CopyDown(*message), child.say)
        elif not child.link.semaphore.acquire():  # type: ignore[union-attr]
            child.say((0, [], 0, 0, (REVOKED,), []))
        elif message[0] == "run":
            await _Batch(executor, child, blobs, message[1]).run(message[2])
        else:
            batch = RunOnDevice(*message)
            await child.take(SECONDS)
            if faults.executor_deaths > 0 and random.random() < faults.executor_dies:
                faults.executor_deaths -= 1
                child.die("killed by SIGKILL")
                await child.take(1.0)
            self.on_device += len(batch.operands)
            batches.run(ready, batch.operands, lambda: executor.stopped(batch.stop_flag), child.say)


class GpuWorld(World):
    """A host with GPUs, few or many faults."""

    def __init__(self, seed: int, faults: Faults | None = None, lost: float = 0.0) -> None:
        super().__init__(seed, faults)
        self.faults.apart = 0  # deaths of schedulers are simulated without GPUs
        self.made = made = SimGpus(seed, lost)
        self.numbers = made.numbers
        self.gpus = [f"fake:{number}" for number in range(made.count)]
        self.machine = lambda: Machine(Profile(), self.arena.capacity, gpus=[made.slab] * made.count)

    def more_mains(self) -> dict[str, Any]:
        """A child with a GPU."""
        return {"gpu": partial(self.made.main, self.arena, self.executor)}

    def make_client(self, random: Random) -> Client:
        """The client."""
        return GpuClient(self, random)


class GpuHostsWorld(HostsWorld):
    """Hosts of which all but the first have GPUs; that one has some in every second run."""

    def __init__(self, seed: int, hosts: int, faults: Faults | None = None, lost: float = 0.0) -> None:
        super().__init__(seed, hosts, faults)
        self.faults.executor_deaths = 1
        self.made = SimGpus(seed, lost)
        self.numbers = self.made.numbers

    def gpus_of(self, number: int) -> int:
        """Number of GPUs of a host."""
        return self.made.count if number > 1 or self.seed % 2 else 0

    def mains_of(self, arena: Any, executor: Executor) -> dict[str, Any]:
        """A child with a GPU."""
        return {"gpu": partial(self.made.main, arena, executor)}

    def make_client(self, random: Random) -> Client:
        """The client."""
        return GpuClient(self, random)


def run_gpus(world: GpuWorld | GpuHostsWorld) -> Report:
    """Simulate the run of a world; raises `world.Failed` if a promise was broken."""
    return run_world(world, again="pytest --all tests/devices/test_random_programs.py")
