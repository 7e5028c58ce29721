"""Simulated: the only host with a GPU leaves while a job needs that GPU. The job ends there, then the host leaves."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest

import jmars.tensor as mt
from tests.sim.client import Client
from tests.sim.faults import Faults
from tests.sim.gpus import GpuClient, GpuHostsWorld, run_gpus
from tests.sim.hosts import HostsWorld
from tests.sim.programs import Program

N = 96


class OnlyClient(GpuClient):
    """A client whose job no core may run."""

    settings: ClassVar[dict[str, Any]] = {**GpuClient.settings, "gpu": "only", "combine_size": 4}

    def programs(self) -> list[Program]:
        """A product and reductions, some steps deep."""
        x = np.random.default_rng(self.world.seed).random((N, N)) - 0.5
        found: list[Any] = []
        start: list[Any] = [mt.array(x, chunk_size=24), x]
        for xp, value in zip((mt, np), start, strict=True):
            for _ in range(3):
                value = xp.sqrt(xp.abs(value @ value.T)) - value.mean(axis=0)
            found.append(value)
        return [Program(0, [found[0].data], [found[1]], False)]

    async def _program(self, one: Program) -> None:
        await self._job(one, [0])


class LeavingWorld(GpuHostsWorld):
    """Two hosts, of which the second has the GPUs and leaves as soon as they have computed something."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, 2, Faults())
        self.made.slab, self.made._lacks = 2**20, ()
        self.when_asked: list[int] = []  # operands that GPUs had run

    def gpus_of(self, number: int) -> int:
        """Only the second."""
        return self.made.count if number == 2 else 0

    def make_client(self, random: Random) -> Client:
        """The client."""
        return OnlyClient(self, random)

    def _plan_faults(self) -> None:
        HostsWorld._plan_faults(self)
        self._leaving.append(asyncio.ensure_future(self._leave_in_mid_run()))

    async def _leave_in_mid_run(self) -> None:
        while not self.made.on_device:
            await asyncio.sleep(0.01)  # of virtual time
        self.when_asked.append(self.made.on_device)
        await self._evacuate(2)


@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_only_its_gpus_can_run_ends_before_the_host_leaves(seed: int) -> None:
    world = LeavingWorld(seed)
    assert run_gpus(world).ends == ["succeeded"]
    assert world._left == {2} and world.when_asked[0] < world.made.on_device, "it was asked in mid-run"
