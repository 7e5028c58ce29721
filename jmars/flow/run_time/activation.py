"""`Activation`: the state machine of a run, which data and vertices are active, ready and done.

Pure: `Activation` takes events (data requested, data released, vertex finished) and returns the vertices that can run.
It knows no thread, executor or processor; `instance.Graph` ensures that a single thread at a time calls it.

An unconditional dependency counts +1 when activated and -1 when its target is released, and is ready at 0. The sum over
a vertex's dependencies is a single count, `waiting`, which only falls: below 0 before activation, and to 0, once, after
activation. A conditional dependency has a separate counter: +2 when activated; -1 when its target is released; -1 when
its condition holds, else -2. The dependency fires when the activation leaves the counter at or below 0, or when another
step takes the counter from above 0 to 0 or below (the *edge rule*); firing lowers `waiting` by 1. Before activation all
steps go down from 0, so no dependency fires; after activation the steps sum to 2 or more exactly when the target is
released and taken, or known not to be taken; a falling counter crosses 0 once. The document's rule (fires at exactly 0)
hangs when a target is released before a false condition: +2 -1 -2.
Source: docs/explanation/seeds.md, "Dependency counting", "Conditional dependencies"; baidu/babylon,
anyflow/dependency.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jmars.errors import GraphError, NotReadyError
from jmars.flow.build_time.graph_structure import ALWAYS, NEVER, Structure
from jmars.flow.run_time.loans import CALLER, Loans
from jmars.flow.run_time.unready import path_to

__all__ = ["Activation"]

_GIVEN = object()  # marks a value given by the caller


class Activation:
    """Counters and values of an instance.

    Attributes
    ----------
    waiting
        Dependencies that each vertex still waits for; below 0 for inactive vertices with ready dependencies.
    count
        Counter of each conditional dependency; 0 for dependencies that are only part of `waiting`.
    active, ended
        Vertices that this run needs; vertices that ran or were skipped.
    wanted, released
        Data that this run needs; data with a value.
    values
        Emitted values; None is empty.
    missing
        Requested data that are not released yet.

    Examples
    --------
    >>> from jmars.flow.build_time.graph_structure import Edge
    >>> c_of_a_and_b = Structure(("a", "b", "c"), ("add",), (Edge(0, 0), Edge(0, 1)), ((2,),))
    >>> run = Activation(c_of_a_and_b)
    >>> run.release(0, 3), run.release(1, 4), run.request([2])
    ([], [], [0])
    """

    __slots__ = (
        "active",
        "claims",
        "count",
        "ended",
        "loans",
        "missing",
        "released",
        "requested",
        "silent",
        "structure",
        "truth",
        "values",
        "waiting",
        "wanted",
    )

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        data, vertices = len(structure.data), len(structure.vertices)
        self.waiting = [0] * vertices
        self.count = [0] * len(structure.edges)
        self.active, self.ended = bytearray(vertices), bytearray(vertices)
        self.wanted, self.released, self.truth = bytearray(data), bytearray(data), bytearray(data)
        self.values: list[Any] = [None] * data
        self.claims: dict[int, object] = {}  # emitter of each data; the only part that other threads write
        self.silent: dict[int, int] = {}  # number of producers of each data that ended without emitting
        self.loans = Loans(structure)
        self.requested: dict[int, None] = {}
        self.missing = 0

    def reset(self) -> None:
        """Resets all state in place."""
        data, vertices = len(self.values), len(self.waiting)
        self.waiting[:] = [0] * vertices
        self.count[:] = [0] * len(self.count)
        self.active[:] = self.ended[:] = bytes(vertices)
        self.wanted[:] = self.released[:] = self.truth[:] = bytes(data)
        self.values[:] = [None] * data
        self.claims.clear()
        self.silent.clear()
        self.loans.reset()
        self.requested.clear()
        self.missing = 0

    # Events: each method returns the vertices that can run from now on, each vertex once.

    def request(self, data: Iterable[int]) -> list[int]:
        """Requests data: activates the vertices that lead to them, and no others.

        Raises
        ------
        NotReadyError
            If the data depend on a data without producer and without given value.
        """
        self.requested.update(dict.fromkeys(data))
        self.missing = sum(not self.released[d] for d in self.requested)
        ready: list[int] = []
        for d in self.requested:
            if self.structure.loaned[d]:
                self.loans.take(d, CALLER)
        self._activate(list(self.requested)[::-1], ready)
        return self._without_skipped(ready)

    def claim(self, data: int, value: Any, given: bool = False) -> bool:
        """Stores an emitted value; any thread may call this, and `publish` must follow.

        Returns False, without effect, if the caller of the run gave the value: the given value holds.

        Raises
        ------
        GraphError
            If the data was emitted before in this run.
        """
        mark = _GIVEN if given else object()
        first = self.claims.setdefault(data, mark)  # a single step in C: atomic with and without the GIL
        if first is _GIVEN and not given:
            return False
        if first is not mark:
            raise GraphError(
                f"data {self.structure.data[data]!r} was emitted before in this run; a data has one value, emitted once"
            )
        self.values[data] = value
        return True

    def release(self, data: int, value: Any) -> list[int]:
        """Stores and publishes a value given by the caller."""
        self.claim(data, value, given=True)
        return self.publish(data)

    def publish(self, data: int) -> list[int]:
        """Makes a claimed value visible to its readers."""
        ready: list[int] = []
        if not self.released[data]:
            self._publish(data, ready)
        return self._without_skipped(ready)

    def finish(self, vertex: int) -> list[int]:
        """Ends a vertex: publishes its emitted data, and its other outputs as empty."""
        ready: list[int] = []
        self._end(vertex, ready)
        return self._without_skipped(ready)

    # Transitions.

    def _activate(self, stack: list[int], ready: list[int]) -> None:
        """Activates data and, without recursion, all data that their producers need."""
        structure, edges = self.structure, self.structure.edges
        waiting, count, active = self.waiting, self.count, self.active
        wanted, released = self.wanted, self.released
        while stack:
            data = stack.pop()
            if wanted[data]:
                continue
            wanted[data] = 1
            if released[data]:
                continue
            if not structure.producers[data]:
                raise NotReadyError(
                    f"data {structure.data[data]!r} has no producer and was not given; "
                    f"{path_to(self, data)}; pass it in `given`"
                )
            for vertex in structure.producers[data]:
                if active[vertex]:
                    continue
                active[vertex] = 1
                left = waiting[vertex] + len(structure.depends[vertex])
                stack += structure.needs[vertex][::-1]
                for e in structure.counts[vertex]:
                    edge = edges[e]
                    conditional = edge.condition >= 0
                    now = count[e] = count[e] + (2 if conditional else 1)
                    if now <= 0:
                        left -= 1
                        self._established(e)
                    elif conditional and (now == 2 or not released[edge.condition]):
                        stack.append(edge.condition)
                    else:
                        stack.append(edge.target)
                waiting[vertex] = left
                if not left:
                    ready.append(vertex)

    def _publish(self, data: int, ready: list[int]) -> None:
        """Updates the dependencies that read a data, then the dependencies with the data as condition."""
        structure, count, waiting = self.structure, self.count, self.waiting
        holds = self.truth[data] = bool(structure.gates[data] and self.values[data])
        self.released[data] = 1
        if self.missing and data in self.requested:
            self.missing -= 1
        for vertex in structure.plain[data]:
            left = waiting[vertex] = waiting[vertex] - 1
            if not left:
                ready.append(vertex)
        for e in structure.counted[data]:
            self._step(e, 1, ready)
        if structure.gates[data]:
            triggered = []
            for e in structure.gates[data]:
                taken = structure.edges[e].expects == holds
                self._step(e, 1 if taken else 2, ready)
                if taken and count[e] == 1:  # active, and waits for the target only
                    triggered.append(structure.edges[e].target)
            self._activate(triggered, ready)

    def _step(self, e: int, down: int, ready: list[int]) -> None:
        """Lowers a dependency's counter and fires by the edge rule."""
        before = self.count[e]
        now = self.count[e] = before - down
        if before > 0 and now <= 0:
            self._established(e)
            vertex = self.structure.edges[e].vertex
            left = self.waiting[vertex] = self.waiting[vertex] - 1
            if not left:
                ready.append(vertex)

    def _end(self, vertex: int, ready: list[int]) -> None:
        """Publishes the outputs of an ended vertex; exclusive data are empty after their last silent producer."""
        self.ended[vertex] = 1
        for data in self.structure.outputs[vertex]:
            if self.released[data]:
                continue
            if data not in self.claims:
                silent = self.silent[data] = self.silent.get(data, 0) + 1
                if silent < len(self.structure.producers[data]):
                    continue
                self.claim(data, None)
            self._publish(data, ready)

    def _without_skipped(self, ready: list[int]) -> list[int]:
        """Vertices to run; vertices with an empty essential input end here, with empty outputs."""
        if not any(map(self.structure.picky.__getitem__, ready)):
            return ready
        run = []
        for vertex in ready:  # grows during the loop
            if self.structure.picky[vertex] and self._lacks(vertex):
                self._end(vertex, ready)
            else:
                run.append(vertex)
        return run

    def _lacks(self, vertex: int) -> bool:
        """Whether an essential input is empty."""
        for e in self.structure.depends[vertex]:
            level = self.structure.edges[e].essential
            if level != NEVER and self.value(e) is None and (level == ALWAYS or self.taken(e)):
                return True
        return False

    # Values for a vertex.

    def taken(self, e: int) -> bool:
        """Whether a dependency's condition holds; True without condition."""
        edge = self.structure.edges[e]
        return edge.condition < 0 or bool(self.released[edge.condition] and self.truth[edge.condition] == edge.expects)

    def value(self, e: int) -> Any:
        """Value of a dependency for its vertex; None if the target is empty or the dependency not taken."""
        return self.values[self.structure.edges[e].target] if self.taken(e) else None

    def _established(self, e: int) -> None:
        """Fires a dependency; checks the loan of a target with mutable dependencies."""
        target = self.structure.edges[e].target
        if self.structure.loaned[target] and self.taken(e) and self.values[target] is not None:
            self.loans.take(target, e)
