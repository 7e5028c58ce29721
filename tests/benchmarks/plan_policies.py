"""Other schedulers' ways, as policies for the simulator: Dask's as published, and chance.

Models, not the programs: a real cluster has delays that are left out here, and the order is our depth-first one, which
holds about as little as `dask.order`. Source: PLANNING 3; distributed's
`scheduler.py` (queued root tasks, worker objective, stealing).
"""

import heapq

import numpy as np

from jmars.plan import Simulation


class DaskModel:
    """Operands that read nothing are queued and handed to a worker with a free core; others go to a holder of inputs,
    by its load and what it lacks; with `steal` an idle worker takes from the most loaded one.
    """

    def __init__(self, steal: bool) -> None:
        self.steal = steal
        self.queue: list[tuple[int, int]] = []

    def ready(self, run: Simulation, operands: list[int]) -> None:
        for operand in sorted(operands, key=run.rank.__getitem__):
            if not run.inputs[operand]:
                heapq.heappush(self.queue, (run.rank[operand], operand))
                continue
            holders = 0
            for chunk in run.inputs[operand]:
                holders |= run.held[chunk]
            able = [w for w in range(run.p) if holders >> w & 1]
            run.place(operand, min(able, key=lambda w: (*self.objective(run, operand, w), w)))

    def objective(self, run: Simulation, operand: int, w: int) -> tuple[float, int]:
        return run.load[w] / run.cores[w] + self.transfer(run, operand, w), run.stores[w].used

    def transfer(self, run: Simulation, operand: int, w: int) -> float:
        lacks = sum(run.nbytes[chunk] for chunk in run.inputs[operand] if not run.held[chunk] >> w & 1)
        return lacks * run.workers.seconds_per_byte

    def idle(self, run: Simulation, worker: int) -> bool:
        if self.queue:
            run.place(heapq.heappop(self.queue)[1], worker)
            return True
        return self.steal and self.take(run, worker)

    def take(self, run: Simulation, worker: int) -> bool:
        """Steal the operand that is quickest to move, from one of the three most loaded workers."""
        loaded = [w for w in range(run.p) if w != worker and run.ready[w] and run.load[w] / run.cores[w] > 0.02]
        for victim in sorted(loaded, key=lambda w: -run.load[w])[:3]:
            found = []
            for rank, operand in run.ready[victim]:
                if run.state[operand] == 1 and run.worker[operand] == victim:
                    moving = self.transfer(run, operand, worker)
                    there = run.load[worker] / run.cores[worker] + moving + run.cost[operand]
                    if run.load[victim] / run.cores[victim] > there:
                        found.append((moving / max(run.cost[operand], 1e-6), rank, operand))
            if found:
                operand = min(found)[2]
                run.take_back(operand)
                run.place(operand, worker)
                return run.state[operand] == 1
        return False


class AtRandom:
    """Any worker."""

    def __init__(self, seed: int = 0) -> None:
        self.draw = np.random.default_rng(seed)

    def ready(self, run: Simulation, operands: list[int]) -> None:
        for operand in operands:
            run.place(operand, int(self.draw.integers(run.p)))

    def idle(self, run: Simulation, worker: int) -> bool:
        return False
