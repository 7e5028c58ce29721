"""Which operands of a job run on a GPU: by kernels, annotations and the switch `gpu`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import GraphError, UnsupportedError
from jmars.plan import CPU, GPU, Profile, Workers
from jmars.plan.devices import hosts_with_gpus
from jmars.plan.plan_graph import GPU_ONLY
from jmars.scheduler.prepare import Prepared, prepare
from jmars.scheduler.ranking import Machine
from jmars.tensor.operand import annotate
from jmars.tensor.tensor_graph import TensorGraph

CORES = ["worker-0", "worker-1"]
WITH_GPU = [*CORES, "gpu-0"]
HOST = Machine(Profile(), 2**34)
GPU_HOST = replace(HOST, gpus=(2**33,))


def prepared(x, workers=WITH_GPU, machine=GPU_HOST, **settings) -> Prepared:
    graph = TensorGraph.of([x.data])
    for number, *_ in graph.arrays():
        graph.replace_by_stored(number, f"array-{number}")
    return prepare(graph, settings, workers, lambda: None, machine)


def devices(one: Prepared) -> dict[str, int]:
    """Device by the name of the program; 0 where the table has none."""
    told = one.table.device or bytes(len(one.table.program))
    return {one.table.programs[k].name: told[i] for i, k in enumerate(one.table.program) if k >= 0}


def dear(x):
    for _ in range(12):
        x = mt.sin(x)
    return x


def test_without_a_gpu_nothing_is_added():
    x = dear(mt.ones(40_000_000, chunk_size=10_000_000))
    plain = prepared(x, CORES, HOST)
    assert plain.table.device == b"" and plain.table.planned == [] and plain.classes is None
    for mode in ("auto", "prefer", "off"):
        again = prepared(x, CORES, HOST, gpu=mode)
        assert again.table.rank == plain.table.rank and again.assign == plain.assign and again.table.device == b""
        assert again.compiled.after.n == plain.compiled.after.n


def test_a_dear_chain_goes_to_the_gpu_and_a_cheap_operand_stays():
    x = mt.tensor(np.zeros(40_000_000), chunk_size=10_000_000)
    with annotate(gpu=False):
        y = x * 2
    found = prepared(dear(y))
    assert set(devices(found).values()) == {CPU, GPU}
    owners = np.array(found.assign)
    told = np.frombuffer(found.table.device, np.uint8)
    assert set(owners[told == GPU].tolist()) == {2} and set(owners[told == CPU].tolist()) == {-1, 0, 1}, "-1: stored"
    assert found.table.planned == [], "all of a host share its memory"
    assert found.open("job", 1, 0, None).device == found.table.device
    assert prepared(x + 1).table.device == b""


def test_off_and_prefer():
    x = mt.random.default_rng(1).random(4000, chunk_size=1000)
    assert devices(prepared(x + 1, gpu="prefer")) == {"random": CPU, "add": GPU}, "and both are not fused"
    assert set(devices(prepared(dear(x), gpu="off")).values()) == {0}


def user(block):
    return block


def test_what_only_cores_can_run_never_goes_to_a_gpu():
    x = mt.random.default_rng(1).random(4000, chunk_size=1000)
    for y in (x.map_blocks(user, dtype=float), x.astype("longdouble") * 2, x.astype("U32")):
        assert GPU not in devices(prepared(y, gpu="prefer")).values()


def test_annotations():
    with annotate(gpu=True):
        x = mt.ones(4000, chunk_size=1000)
        mapped = mt.ones(40).map_blocks(user, dtype=float)
    assert set(devices(prepared(x)).values()) == {GPU_ONLY}
    assert GPU_ONLY in devices(prepared(mapped)).values(), "a user's function, where that asks"
    with annotate(gpu=False):
        y = x * 2
    assert devices(prepared(y, gpu="prefer")) == {"ones": GPU_ONLY, "multiply": CPU}
    with pytest.raises(UnsupportedError, match="ones is annotated with gpu=True, and no worker is a GPU"):
        prepared(x, CORES, HOST)
    with annotate(gpu=True, worker=0):
        z = mt.ones(4)
    with pytest.raises(GraphError, match=r"ones is annotated with gpu=True and with worker-0"):
        prepared(z)
    with annotate(worker="gpu-0"):
        w = mt.ones(4)
    assert set(devices(prepared(w)).values()) == {GPU_ONLY}


def test_only_refuses_with_the_line_and_the_name():
    x = mt.random.default_rng(1).random(4000, chunk_size=1000)
    assert devices(prepared(mt.sin(x), gpu="only")) == {"random": CPU, "sin": GPU_ONLY}, "made on cores"
    with pytest.raises(UnsupportedError, match=r"^user \(line \d+: .*map_blocks\(user.*has no GPU kernel"):
        prepared(x.map_blocks(user, dtype=float) + 1, gpu="only")
    with pytest.raises(UnsupportedError, match="no worker of the cluster is a GPU"):
        prepared(x + 1, CORES, HOST, gpu="only")


def test_a_plan_made_again_keeps_to_the_devices():
    with annotate(fuse=False):
        x = mt.random.default_rng(1).random(40_000_000, chunk_size=10_000_000)
    found = prepared(dear(x).map_blocks(user, dtype=float))
    again = found.planned_again(3, GPU_HOST)
    assert np.array_equal(again.classes, found.classes) and again.table.device
    only_cores = np.flatnonzero(found.classes == CPU)
    assert all(again.table.device[i] == CPU and again.assign[i] in (-1, 0, 1) for i in only_cores)


def hosts_with(*gpus: tuple[int, int]) -> Machine:
    """Two hosts with two cores each, and GPUs as (host, bytes)."""
    rows = hosts_with_gpus(Workers.build(2, cores=2, memory=2**33), gpus, pcie=6e9)
    return Machine(Profile(), 2**34, rows=rows, numbers=[0, 3, *(2 + 3 * host for host, _ in gpus)])


ON_HOSTS = ["a/worker-0", "a/worker-1", "a/gpu-0", "b/worker-0", "b/worker-1", "b/gpu-0"]


def test_on_several_hosts_operands_are_planned_for_the_gpus_of_both():
    machine = hosts_with((0, 2**33), (1, 2**33))
    found = prepared(dear(mt.arange(80_000_000, chunk_size=10_000_000) * 1.0), ON_HOSTS, machine, gpu="prefer")
    assert set(devices(found).values()) == {GPU} and set(found.assign) == {2, 5}
    assert found.table.planned == found.assign and found.watched is None
    cores = prepared(dear(mt.arange(80_000_000, chunk_size=10_000_000) * 1.0), ON_HOSTS, machine, gpu="off")
    assert cores.table.device == b"" and set(cores.assign) == {0, 3}
    assert len(cores.watched.hosts[0]) == 2 and list(cores.watched.hosts[1]) == [0, 3], "a run on cores is watched"


def test_on_several_hosts_auto_uses_a_gpu_where_it_pays():
    machine = hosts_with((1, 2**33))
    x = dear(mt.arange(80_000_000, chunk_size=10_000_000) * 1.0)
    assert GPU in devices(prepared(x, ON_HOSTS, machine)).values()
    small = prepared(mt.arange(80, chunk_size=10) * 2, ON_HOSTS, machine)
    assert small.table.device == b""


def test_only_marks_what_no_core_may_run_on_several_hosts():
    x = mt.arange(80_000_000, chunk_size=10_000_000) * 1.0
    for machine in (hosts_with((1, 2**33)), hosts_with()):
        assert set(devices(prepared(x, ON_HOSTS, machine, gpu="only")).values()) == {GPU_ONLY}
    assert prepared(x, ON_HOSTS, hosts_with(), gpu="prefer").table.device == b""


def test_copies_to_gpus_on_several_hosts_are_counted_by_their_way():
    two = hosts_with((0, 2**33), (0, 2**33), (1, 2**33)).rows
    assert two.bandwidth[2, 3] == two.bandwidth[0, 3] == 6e9, "the output is in shared memory by then"
    assert two.bandwidth[2, 0] > 1e12 and two.bandwidth[2, 1] == two.bandwidth[0, 1]
    assert two.bandwidth[2, 4] == two.bandwidth[0, 4] < min(6e9, two.bandwidth[0, 1])


def test_the_memory_of_gpus_is_no_memory_of_hosts():
    machine = hosts_with((0, 2**20), (1, 2**40))
    assert machine.largest == 2**33 and machine.share(6) == 2**32
