"""Random programs on simulated hosts with GPUs whose slabs hold a tenth of the data: NumPy's values in every order of
streams, whatever goes wrong.

The control code, `GpuBatches` and the scheduler are the real ones (`tests/sim/gpus.py`).
"""

from __future__ import annotations

import pytest

from tests.sim.faults import Faults
from tests.sim.gpus import GpuHostsWorld, GpuWorld, run_gpus

SHORT, ALL = 20, 1000
PARTS = [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, ALL // SHORT))]


@pytest.mark.parametrize("part", PARTS)
def test_random_programs_in_a_slab_of_a_tenth_of_the_data(part: int) -> None:
    on_device = downs = 0
    for seed in range(part * SHORT, (part + 1) * SHORT):
        world = GpuWorld(seed, Faults())
        assert set(run_gpus(world).ends) == {"succeeded"}
        on_device, downs = on_device + world.made.on_device, downs + world.made.downs
    assert on_device > 1000 and downs > 100


@pytest.mark.parametrize("part", PARTS)
def test_random_programs_with_lost_gpus_and_other_faults(part: int) -> None:
    losses, ends = 0, []
    for seed in range(part * SHORT, (part + 1) * SHORT):
        world = GpuWorld(seed, lost=0.4)
        ends += run_gpus(world).ends
        losses += world.made.losses
    assert losses >= 3 and ends.count("succeeded") > len(ends) / 2


def test_a_gpu_is_lost_while_a_chunk_leaves_for_an_operand() -> None:
    """Its operand was admitted to the lost GPU, since the chunk was lost within the call that takes operands back."""
    run_gpus(GpuWorld(402, lost=0.4))


def test_operands_of_a_gpu_that_is_lost_three_times_run_on_cores() -> None:
    """The same operand ran at all three losses, and is not the cause."""
    world = GpuWorld(562, lost=0.4)
    assert (set(run_gpus(world).ends), world.made.losses) == ({"succeeded"}, 3)


@pytest.mark.parametrize("part", PARTS)
def test_random_programs_on_hosts_with_gpus(part: int) -> None:
    on_device = fetched = 0
    for seed in range(part * SHORT, (part + 1) * SHORT):
        world = GpuHostsWorld(seed, 2 + seed % 2, Faults())
        report = run_gpus(world)
        assert set(report.ends) == {"succeeded"}
        on_device, fetched = on_device + world.made.on_device, fetched + report.fetched
    assert on_device > 1000 and fetched > 0


@pytest.mark.parametrize("part", PARTS)
def test_random_programs_with_lost_hosts_lost_gpus_and_other_faults(part: int) -> None:
    on_device, ends = 0, []
    for seed in range(part * SHORT, (part + 1) * SHORT):
        world = GpuHostsWorld(seed, 2 + seed % 2, lost=0.4)
        ends += run_gpus(world).ends
        on_device += world.made.on_device
    assert on_device > 500 and ends.count("succeeded") > len(ends) / 4
