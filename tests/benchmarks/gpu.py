"""A GPU beside its own limits, CuPy and our cores: python -m tests.benchmarks gpu [--check] [--fake].

In this process, by the calls that a GPU's process makes: a fused chain beside a copy of as many bytes within the GPU,
and beside the same chain by CuPy, an operation at a time; a matrix product beside CuPy's. Both sides read and write the
same arrays in the GPU's memory, in interleaved rounds, timed by events of the stream; the ratios are of medians.

On a cluster: the chain and its sum, made from nothing, on the GPU beside the cores of this machine; and four times as
much data as the GPU may hold, whose bytes over PCIe are compared with those of plain copies of pinned memory here.

Goals: chain 0.8 of the copy, 2 times CuPy, 10 times our cores on 1 GiB; product 0.95 of CuPy's; 0.5 of PCIe. `--check`
fails when one is missed, or a value is wrong. `--fake` runs all of it on a GPU made of NumPy, whose speeds say nothing
and are not judged: it tests this program.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import jmars
import jmars.tensor as mt
from jmars.devices.device import Device
from jmars.devices.device_program import DeviceProgram, device_program
from jmars.devices.find import find_gpus, open_device
from jmars.model.limits import slot_size
from jmars.optimize import compile_graph
from jmars.tensor.tensor_graph import TensorGraph
from tests.benchmarks.machine import describe, this_machine

MIB = 2**20
BEYOND = 4  # times the GPU's memory
LEAST_COPIED = 10 * BEYOND // 4  # times the GPU's memory: result out, and twice in but for what may lie there still
GOALS = {
    "chain beside a copy": 0.8,
    "chain beside CuPy": 2.0,
    "product beside CuPy": 0.95,
    "chain beside cores": 10.0,
    "spilling beside PCIe": 0.5,
}


def chain(xp: Any, x: Any) -> Any:
    """Some operations, which fuse into one kernel."""
    return xp.exp(xp.sin(x) * 2.0 - 1.0) / 3.0 - x


def product(xp: Any, a: Any, b: Any) -> Any:
    """A matrix product."""
    return xp.matmul(a, b)


@dataclass
class Judge:
    """Ratios that were measured, and values that were wrong."""

    ratios: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def ratio(self, name: str, value: float) -> None:
        """A ratio, of a goal's name."""
        self.ratios[name] = value
        print(f"  {name}: {value:.2f} (goal {GOALS[name]:g})")

    def value(self, name: str, found: Any, expected: Any) -> None:
        """A value, which must be NumPy's."""
        if not np.allclose(found, expected, rtol=1e-5 if np.asarray(expected).dtype == np.float32 else 1e-9):
            self.wrong.append(name)
            print(f"  {name}: WRONG")


class InProcess:
    """The GPU in this process, with a slab and a stream."""

    def __init__(self, device: Device, slab: int) -> None:
        self.device = device
        device.reserve(slab)
        device.bound_scratch(device.memory()[0])
        self.stream = device.stream()

    def seconds(self, run: Callable[[], None]) -> float:
        """Seconds of the stream for what `run` gives it."""
        start = self.device.record(self.stream, timed=True)
        run()
        end = self.device.record(self.stream, timed=True)
        self.device.synchronise(end)
        return self.device.seconds(start, end)

    def plainly(self, function: Callable[..., Any], *inputs: Any) -> None:
        """The function by CuPy alone, or by NumPy for a GPU made of NumPy."""
        if self.device.backend != "cupy":
            function(np, *inputs)
            return
        import cupy

        with self.stream:
            function(cupy, *inputs)

    def put(self, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Copy an array into the slab, in pieces."""
        data = array.reshape(-1).view(np.uint8)
        buffer = self.device.pinned(min(data.size, 64 * MIB))
        for at in range(0, data.size, buffer.size):
            part = data[at : at + buffer.size]
            np.copyto(buffer[: part.size], part)
            self.device.copy_in(offset + at, buffer[: part.size], self.stream)
            self.device.synchronise(self.device.record(self.stream))

    def get(self, offset: int, dtype: Any, count: int) -> Any:
        """The first elements of an array in the slab."""
        buffer = self.device.pinned(np.dtype(dtype).itemsize * count)
        self.device.copy_out(buffer, offset, self.stream)
        self.device.synchronise(self.device.record(self.stream))
        return buffer.view(dtype)

    def pcie(self, size: int) -> float:
        """Bytes a second of copies of pinned memory, in the slower direction."""
        buffer, best = self.device.pinned(min(size, 64 * MIB)), {}
        for name, copy in (("in", self._in), ("out", self._out)):
            rounds = [self.seconds(lambda copy=copy: copy(buffer)) for _ in range(6)]  # type: ignore[misc]
            best[name] = 4 * buffer.size / min(rounds[1:])
        print(f"  PCIe: {best['in'] / 1e9:.1f} GB/s to the GPU, {best['out'] / 1e9:.1f} from it")
        return min(best.values())

    def _in(self, buffer: Any) -> None:
        for _ in range(4):
            self.device.copy_in(0, buffer, self.stream)

    def _out(self, buffer: Any) -> None:
        for _ in range(4):
            self.device.copy_out(buffer, 0, self.stream)


def ours(function: Callable[..., Any], *arrays: Any) -> DeviceProgram:
    """The program of a function that jmars makes for a GPU, with an input for each array."""
    tensors = [mt.array(one, chunk_size=max(one.shape)) for one in arrays]
    graph = TensorGraph.of([function(mt, *tensors).data])
    for number, *_ in graph.arrays():
        graph.replace_by_stored(number, f"array-{number}")
    (program,) = [one for one in compile_graph(graph, {}).after.programs if one.name != "rechunk"]
    found = device_program(program)
    assert found is not None, "a GPU runs it"
    return found


def interleaved(gpu: InProcess, works: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median seconds of each work; the first round, which compiles, does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name in [*works][:: 1 if number % 2 else -1]:
            found = gpu.seconds(works[name])
            if number:
                seconds[name].append(1e3 * found)
    for name, some in seconds.items():
        print(f"  {name:16}{describe(some, 'ms')}")
    return {name: statistics.median(some) for name, some in seconds.items()}


def in_process(gpu: InProcess, size: int, side: int, rounds: int, judge: Judge) -> None:
    """The chain on `size` bytes and a product of matrices of so many rows and columns."""
    device, stream, n = gpu.device, gpu.stream, size // 8
    values = np.random.default_rng(0).random(n)
    gpu.put(0, values)
    x, y = (device.view(at, (n,), np.dtype("f8")) for at in (0, size))
    program, few = ours(chain, values), min(n, 1000)
    print(f"chain of 5 operations on {size / MIB:g} MiB of float64")
    took = interleaved(
        gpu,
        {
            "copy": lambda: gpu.plainly(lambda xp: xp.copyto(y, x)),
            "CuPy": lambda: gpu.plainly(chain, x),
            "jmars": lambda: program.enqueue(device, stream, [0], size, 2 * size, ()),
        },
        rounds,
    )
    program.enqueue(device, stream, [0], size, 2 * size, ())
    judge.value("chain", gpu.get(size, "f8", few), chain(np, values[:few]))
    judge.ratio("chain beside a copy", took["copy"] / took["jmars"])
    judge.ratio("chain beside CuPy", took["CuPy"] / took["jmars"])

    matrices = np.random.default_rng(1).random((2, side, side), dtype="f4")
    each = slot_size(matrices[0].nbytes)
    gpu.put(0, matrices[0])
    gpu.put(each, matrices[1])
    program = ours(product, *matrices)  # a product of parts: jmars divides large matrices
    shapes = [kind.shape for kind in program.types[:2]]
    a, b = (device.view(at, shape, np.dtype("f4")) for at, shape in zip((0, each), shapes))
    first, second = (one.reshape(-1)[: math.prod(shape)].reshape(shape) for one, shape in zip(matrices, shapes))
    print(f"product of matrices of float32, {a.shape} and {b.shape}")
    took = interleaved(
        gpu,
        {
            "CuPy": lambda: gpu.plainly(product, a, b),
            "jmars": lambda: program.enqueue(device, stream, [0, each], 2 * each, 3 * each, ()),
        },
        rounds,
    )
    program.enqueue(device, stream, [0, each], 2 * each, 3 * each, ())
    judge.value("product", gpu.get(2 * each, "f4", second.shape[1]), first[0] @ second)
    judge.ratio("product beside CuPy", took["CuPy"] / took["jmars"])


def beside_cores(name: str, size: int, rounds: int, judge: Judge, cores: int | None) -> None:
    """The chain and its sum, made from nothing, on the GPU and on cores of one cluster."""
    n, seconds, values = size // 8, dict[str, list[float]](), dict[str, float]()
    print(f"sum of the chain on {size / MIB:g} MiB, made where it is computed")
    with jmars.Cluster(n_workers=cores, gpus=[name]):
        for number in range(rounds + 1):
            for mode in ("off", "only") if number % 2 else ("only", "off"):
                x = mt.linspace(0, 1, n, chunk_size=-(-n // 16))
                start = time.perf_counter()
                values[mode] = float(jmars.execute(chain(mt, x).sum(), gpu=mode).fetch())
                if number:
                    seconds.setdefault(mode, []).append(1e3 * (time.perf_counter() - start))
    for mode, some in seconds.items():
        print(f"  {'cores' if mode == 'off' else 'GPU':16}{describe(some, 'ms')}")
    judge.value("sum of the chain", values["only"], values["off"])
    judge.ratio("chain beside cores", statistics.median(seconds["off"]) / statistics.median(seconds["only"]))


def beyond_memory(name: str, pcie: float, limit: str | None, rounds: int, judge: Judge) -> None:
    """Four times the data that the GPU may hold: made there, copied out as a result, and read there twice.

    The first round compiles kernels and touches the pages of shared memory; it is printed and does not count.
    """
    with jmars.Cluster(n_workers=1, gpus=[name], memory_limit=limit) as cluster:
        room = int(cluster.info()["workers"][-1]["device"]["memory"])
        n = BEYOND * room // 8
        size = -(-n // (8 * BEYOND))
        print(f"{BEYOND} times {room / MIB:g} MiB of chunks")
        seconds = []
        for _ in range(rounds + 1):
            start = time.perf_counter()
            x = mt.linspace(0, 1, n, chunk_size=size)
            y = jmars.execute(x * 2.0, gpu="only")
            between = time.perf_counter()
            found = float(jmars.execute(((y - y.mean()) ** 2).sum(), gpu="only").fetch())
            seconds.append(time.perf_counter() - start)
            print(f"  {between - start:.3f} s to make it and copy it out, {seconds[-1]:.3f} s with two reads")
            judge.value("data beyond the GPU's memory", found, n * (n + 1) / (3 * (n - 1)))
            del x, y
    least, took = LEAST_COPIED * room, statistics.median(seconds[1:])
    print(f"  {took:.3f} s for {least / MIB:g} MiB at least over PCIe: {least / took / 1e9:.2f} GB/s")
    judge.ratio("spilling beside PCIe", least / took / pcie)


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser("python -m tests.benchmarks gpu", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mib", type=int, default=1024, help="MiB of the chain")
    parser.add_argument("--side", type=int, default=8192, help="rows and columns of the matrices")
    parser.add_argument("--slab", default="2GiB", help="memory of the GPU for four times as much data")
    parser.add_argument("--memory", default=None, help="memory limit of the cluster with that data")
    parser.add_argument("--cores", type=int, default=None, help="workers on cores; all cores by default")
    parser.add_argument("--fake", action="store_true", help="on a GPU made of NumPy; speeds are not judged")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    given = parser.parse_args()
    size = given.mib * MIB
    slab = 3 * max(size, slot_size(4 * given.side**2))
    if not given.fake and not find_gpus():
        print("there is no GPU of NVIDIA here, or CuPy is not installed; use --fake to test this program")
        return 2
    judge = Judge()
    name = f"fake:{2 * slab}" if given.fake else find_gpus()[0]
    print(f"machine: {this_machine()}")
    # clusters first: their GPU processes end before this process uses the GPU
    beside_cores(name, size, given.rounds, judge, given.cores)
    gpu = InProcess(open_device(name), slab)
    print(f"GPU: {gpu.device.name}")
    in_process(gpu, size, given.side, given.rounds, judge)
    pcie = gpu.pcie(slab)
    gpu.device.close()
    bounded = f"fake:{given.slab}" if given.fake else f"{name}:{given.slab}"
    beyond_memory(bounded, pcie, given.memory, min(given.rounds, 5), judge)
    missed = [one for one, value in judge.ratios.items() if value < GOALS[one]]
    if given.fake:
        print(f"a GPU made of NumPy: speeds are not judged; values {'WRONG' if judge.wrong else 'right'}")
        return int(bool(judge.wrong) and given.check)
    print(f"goals missed: {', '.join([*missed, *judge.wrong]) or 'none'}")
    return int(bool(missed or judge.wrong) and given.check)


if __name__ == "__main__":
    sys.exit(main())
