"""Cache of prepared graphs by structure: a cell run again with other data is not tiled, fused or planned again.

The last used graphs stay, within a budget of bytes; a dropped graph is only prepared again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from jmars.scheduler.prepare import Prepared, Ready, least_plan_size, prepare
from jmars.scheduler.ranking import Machine
from jmars.tensor.structure import Bindings, bindings, canonical, digest_of
from jmars.tensor.tensor_graph import TensorGraph

KEPT = 256  # plans: the memory of a kernel that runs ever new cells stays flat


class Plans:
    """Cache that evicts the least recently used plan, bounded in plans and bytes.

    Attributes
    ----------
    size, budget
        Bytes of what is kept, and the most that may be.
    found, missed, dropped, refined
        How often a structure was here, was not, was dropped, and was planned again with what its runs taught.
    turn
        Changes with the machines.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.size = self.found = self.missed = self.dropped = self.refined = 0
        self.turn = 0
        self._lock = Lock()  # graphs are prepared in threads
        self._kept: dict[bytes, Prepared] = {}  # the last used one last

    def find(
        self, structure: bytes, machine: Callable[[], Machine] | None = None, bound: Bindings | None = None
    ) -> Prepared | None:
        """The prepared graph of a structure, planned for the places where the stored chunks lie on these machines."""
        with self._lock:
            prepared = self._kept.get(structure)
            suits = prepared is not None
            if prepared is not None and machine is not None and bound is not None:
                suits = prepared.suits(machine, bound)
            if prepared is None or not suits:
                self.missed += 1
                return None
            self._kept[structure] = self._kept.pop(structure)
            self.found += 1
            return prepared

    def keep(self, structure: bytes, prepared: Prepared, turn: int | None = None) -> None:
        """Keep a prepared graph by structure, unless a single graph is over the budget.

        `turn` is of before the machines were asked: no effect where they have changed since.
        """
        with self._lock:
            if turn is not None and turn != self.turn:
                return
            old = self._kept.pop(structure, None)
            self.size -= old.size if old is not None else 0
            if prepared.size > self.budget:
                self.dropped += 1
                return
            self.size += prepared.size
            self._kept[structure] = prepared
            while self.size > self.budget or len(self._kept) > KEPT:
                gone = self._kept.pop(next(iter(self._kept)))
                self.size -= gone.size
                self.dropped += 1

    def replace(self, old: Prepared, new: Prepared) -> None:
        """Replace a structure's plan for later runs; no effect where the old plan was dropped."""
        with self._lock:
            for structure, prepared in self._kept.items():
                if prepared is old:
                    self._kept[structure] = new
                    self.size += new.size - old.size
                    self.refined += 1
                    break

    def forget(self) -> None:
        """Drop all plans: they were made for other machines, or for links of another bandwidth."""
        with self._lock:
            self.turn += 1
            self.dropped += len(self._kept)
            self._kept.clear()
            self.size = 0

    def ready(
        self,
        graph: TensorGraph,
        settings: Mapping[str, Any],
        workers: Sequence[str],
        check: Callable[[], None],
        now: Callable[[], Machine] | None = None,
    ) -> Ready:
        """A graph that is not canonical, as a stage's: found by its structure, or prepared now. For a thread."""
        turn, machine = self.turn, None if now is None else now()
        bound = bindings(graph.operands, [meta.key for meta in graph.metas])
        if least_plan_size(graph) > self.budget:  # no digest is needed
            with self._lock:
                self.missed, self.dropped = self.missed + 1, self.dropped + 1
            return Ready(prepare(canonical(graph), settings, workers, check, machine, bound), bound)
        structure = digest_of(graph, settings)
        prepared = self.find(structure, None if machine is None else lambda: machine, bound)
        if prepared is None:
            prepared = prepare(canonical(graph), settings, workers, check, machine, bound)
            self.keep(structure, prepared, turn)
        return Ready(prepared, bound)

    def __len__(self) -> int:
        return len(self._kept)

    def counts(self) -> dict[str, int]:
        """The numbers, for `Cluster.info()`."""
        return {
            "plans": len(self),
            "size": self.size,
            "found": self.found,
            "missed": self.missed,
            "dropped": self.dropped,
            "refined": self.refined,
        }
