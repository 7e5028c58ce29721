"""Computes only the parts of tensors that the results need, so that sources are read in parts.

`push_down_parts` walks a tensor graph backwards. A selection asks the input for a part; `Operand.part` gives the
operand that computes a part, and the parts of inputs to read; sources read or generate the part. Operands without a
rule are computed whole, and a selection of them stays: functions of the user see whole chunks. Parts for several
readers are joined where the joined part has no more elements than the parts together; at most `PARTS` parts of a tensor
are computed apart. Parts of uniform random arrays are drawn apart, in the chunks that a rechunk wants, where that costs
less than storing what holds them all, by the rule of rematerialise.py.
Source: docs/decisions/0067-read-what-is-needed.md, 0035-drawn-again.md; predicate pushdown (Ullman 1988).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jmars.optimize.rematerialise import HELD, STORED, doubles_seconds
from jmars.optimize.slices import drawings
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, SourceLine, Splits, TensorMeta
from jmars.tensor.ops.apply import SlidingWindows
from jmars.tensor.ops.chunks import Rechunk
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.ops.indexing import Slice, Take
from jmars.tensor.ops.random_draws import Doubles
from jmars.tensor.ops.reduction import Reduction, is_exact
from jmars.tensor.ops.shape import Reshape
from jmars.tensor.parts import (
    WORTH,
    Axis,
    Part,
    PartOf,
    around,
    counts,
    holds,
    is_plain,
    is_whole,
    joined,
    part_key,
    places_of,
    positions,
    size,
    splits_of,
    whole,
)
from jmars.tensor.tensor_graph import Stored, TensorGraph

PARTS = 4  # parts of a tensor that are computed apart
Line: TypeAlias = SourceLine | None


class Wish(NamedTuple):
    """A part that a reader asks for, the line of the selection behind it, and the chunks that a rechunk wants."""

    part: Part
    line: Line
    chunks: Splits | None = None  # None: those of the tensor, with the kept positions


class PlannedPart(NamedTuple):
    """A part of a tensor to compute."""

    part: Part
    how: PartOf
    line: Line
    chunks: Splits | None = None


def push_down_parts(graph: TensorGraph) -> TensorGraph:
    """Computes parts where parts are needed; `graph` itself where there are none, or if operands are annotated."""
    if not any(
        isinstance(op, Slice | Take)
        and _has_rule(graph.operands[i])
        or isinstance(op, Rechunk)
        and isinstance(graph.operands[i], Doubles)
        for op, read in zip(graph.operands, graph.inputs, strict=True)
        for i in read
    ):
        return graph
    if any(op.annotation is not None for op in graph.operands):
        return graph
    drawn = drawings(graph)
    plans = _planned(graph, drawn)
    if all(_selects(graph.operands[k], drawn[k]) for k, found in plans.items() if found):
        return graph
    return _Rebuilt(graph, plans).made


def arrays_in_parts(graph: TensorGraph) -> TensorGraph:
    """Computes parts where results need parts of large NumPy arrays, so that these are sent; else `graph` itself."""
    made = push_down_parts(graph)
    return made if any(isinstance(op, FromArray) and op.of is not None for op in made.operands) else graph


def _selects(operand: Operand, drawn: bool) -> bool:
    """Whether an operand is a selection, or a rechunk of random numbers."""
    return isinstance(operand, Slice | Take) or drawn and isinstance(operand, Rechunk)


def _has_rule(operand: Operand) -> bool:
    return type(operand).part is not Operand.part


def _planned(graph: TensorGraph, drawn: list[bool]) -> dict[int, list[PlannedPart]]:
    """Parts to compute, by number of the tensor: none of a tensor without reader; a whole tensor has no entry."""
    metas, plain, results = graph.metas, [is_plain(meta) for meta in graph.metas], set(graph.results)
    full = [False] * len(metas)
    asked: dict[int, list[Wish]] = {}
    plans: dict[int, list[PlannedPart]] = {}
    for k in results:
        full[k] = True
    for k in range(len(metas) - 1, -1, -1):
        operand, read = graph.operands[k], graph.inputs[k]
        wishes = asked.pop(k, [])
        if not full[k] and not wishes:
            plans[k] = []
            continue
        found: list[PlannedPart] | None = None
        selects = _selects(operand, drawn[k])
        if _has_rule(operand) and plain[k] and all(plain[i] for i in read):
            if isinstance(operand, Doubles):
                found = _drawings(operand, wishes, metas[k], full[k]) if wishes and k not in results else None
            elif selects or not full[k]:
                if isinstance(operand, Reduction) and isinstance(graph.operands[read[0]], SlidingWindows):
                    wishes = [Wish(around(one.part), one.line) for one in wishes]  # sums read windows where they lie
                if full[k]:
                    wishes = [Wish(whole(metas[k]), None), *(one for one in wishes if one.chunks)]
                found = _plans_of(operand, wishes, [metas[i] for i in read], metas[k], drawn[k])
        if found is None:
            full[k] = True
            for i in read:
                full[i] = True
            continue
        plans[k] = found
        for plan in found:
            for number, part in plan.how.reads:
                i = read[number]
                chunks = _wanted_chunks(operand, plan, metas[k]) if drawn[i] else None
                if is_whole(part, metas[i]) and chunks in (None, metas[i].chunks):
                    full[i] = True
                else:
                    line = plan.line or (operand.line if selects else None)
                    asked.setdefault(i, []).append(Wish(part, line, chunks))
    return plans


def _wanted_chunks(operand: Operand, plan: PlannedPart, meta: TensorMeta) -> Splits | None:
    """The chunks that a slice or rechunk of a random array wants it in."""
    if isinstance(operand, Rechunk):
        return plan.chunks or splits_of(plan.part, meta)
    return plan.chunks if plan.how.operand is None else None


def _drawings(operand: Doubles, wishes: Sequence[Wish], meta: TensorMeta, full: bool) -> list[PlannedPart] | None:
    """Plans of parts of a random array: what costs least of each drawn alone, and a stored box around all of them;
    None: the whole is stored, or needed anyway.
    """

    def seconds(part: Part, chunks: Splits) -> float:
        return doubles_seconds(tuple(map(len, part)), chunks, meta.shape)

    def kept(part: Part) -> float:
        held = 8 * (STORED * size(part) + HELD * sum(size(one) for one, _ in apart))
        return held if full and is_whole(part, meta) else held + seconds(part, splits_of(part, meta))

    apart = {}
    for part, line, chunks in reversed(wishes):
        box = around(part)
        if chunks is None or size(box) > size(part):
            chunks = splits_of(box, meta)
        apart[box, chunks] = line
    box = around(tuple(map(joined, *(one for one, _ in apart))))
    cost, best = min((kept(one), number) for number, one in enumerate((whole(meta), box)))
    if cost < sum(itertools.starmap(seconds, apart)):
        if best == 0 or full or size(box) > WORTH * math.prod(meta.shape):
            return None
        apart = {(box, splits_of(box, meta)): wishes[0].line}
    plans = [PlannedPart(whole(meta), PartOf(operand, []), None)] if full else []
    for (box, chunks), line in apart.items():
        how = operand.part(box, [], meta)
        assert how is not None
        plans.append(PlannedPart(box, how, line, chunks))
    return plans


def _plans_of(
    operand: Operand, wishes: Sequence[Wish], inputs: Sequence[TensorMeta], output: TensorMeta, cuts: bool = False
) -> list[PlannedPart] | None:
    """Plans of the parts for the readers; None: the whole is computed. `cuts`: in the chunks that they want."""
    found: list[PlannedPart] = []
    if cuts:  # each once
        wishes = list({(part_key(one.part), one.chunks): one for one in wishes}.values())
    for wish in wishes if cuts or len(wishes) == 1 else _merged(wishes):
        plan = _fitted(operand, wish, inputs, output)
        if plan is None:
            return None
        found.append(plan)
    if len(found) > 1 and not cuts:
        joint = _merged([Wish(plan.part, plan.line) for plan in found])
        if len(joint) < len(found):
            return _plans_of(operand, joint, inputs, output)
    return found


def _fitted(operand: Operand, wish: Wish, inputs: Sequence[TensorMeta], output: TensorMeta) -> PlannedPart | None:
    """The plan of a part, or of a larger part that the operand has a rule for; None: the whole is computed."""
    part, line, chunks = wish
    most = WORTH * math.prod(output.shape)
    for number in range(2 if chunks is None else 0):
        part = operand.hull(part, inputs, output) if number else part
        if size(part) > most:
            break
        how = operand.part(part, inputs, output)
        if how is not None:
            return PlannedPart(part, how, line)
    if not _selects(operand, True):
        return None
    part = whole(output) if chunks is None else part
    how = operand.part(part, inputs, output)
    return how and PlannedPart(part, how, line, chunks)


def _merged(wishes: Sequence[Wish]) -> list[Wish]:
    """Joins parts where that adds no elements; at most `PARTS` remain."""
    together = tuple(map(joined, *(one.part for one in wishes)))
    if size(together) <= sum(size(one.part) for one in wishes):
        return [Wish(together, wishes[0].line)]
    found: list[Wish] = []
    for wish in wishes:
        found.append(wish)
        while len(found) > 1:
            pairs = [
                (one, other, tuple(map(joined, one.part, other.part)))
                for one, other in itertools.combinations(found, 2)
            ]
            grown = [size(both) - size(one.part) - size(other.part) for one, other, both in pairs]
            best = int(np.argmin(grown))
            if grown[best] > 0 and len(found) <= PARTS:
                break
            one, other, both = pairs[best]
            found = [kept for kept in found if kept is not one and kept is not other]
            found.append(Wish(both, one.line))
    return found


class _Rebuilt:
    """The graph `made` that computes the planned parts."""

    def __init__(self, graph: TensorGraph, plans: dict[int, list[PlannedPart]]) -> None:
        self.made = TensorGraph()
        self._rows: dict[int, list[tuple[Part | None, int]]] = {}  # parts of tensors, None for the whole: new number
        self._cut: dict[Hashable, int] = {}  # parts of parts
        for k, (operand, read, meta) in enumerate(zip(graph.operands, graph.inputs, graph.metas, strict=True)):
            own = plans.get(k)
            if own == []:
                continue
            if own is None or self._stays(own, read, meta):
                rows = self._apart(
                    operand, [graph.operands[i] for i in read], [self._whole(i, graph.metas[i]) for i in read]
                )
                self._rows[k] = [(None, self.made.add(operand, rows, meta))]
                continue
            self._rows[k] = []
            for number, plan in enumerate(own):
                part = None if is_whole(plan.part, meta) else plan.part
                own_meta = meta if part is None and not number else meta.renamed(f"{meta.key}/{number}")
                self._rows[k].append((part, self._computed(operand, plan, read, graph, own_meta)))
        keys = {graph.metas[k].key for k in graph.results}
        for k in graph.results:
            row, meta = self._whole(k, graph.metas[k]), graph.metas[k]
            is_held = isinstance(self.made.operands[row], FromArray | Stored)  # chunks lie under that key
            if self.made.metas[row].key not in keys and not is_held:
                self.made.metas[row] = meta  # of a selection that vanished
            elif self.made.metas[row].key != meta.key:
                row = self.made.add(Rechunk(meta.chunks, line=graph.operands[k].line), (row,), meta)
            self.made.results.append(row)

    def _stays(self, plans: Sequence[PlannedPart], read: Sequence[int], meta: TensorMeta) -> bool:
        """Whether a selection is needed whole, of a tensor that is computed whole, and nowhere else in part."""
        alone = len(plans) == 1 and plans[0].chunks is None and is_whole(plans[0].part, meta)
        return alone and all(len(self._rows[i]) == 1 and self._rows[i][0][0] is None for i in read)

    def _computed(
        self, operand: Operand, plan: PlannedPart, read: Sequence[int], graph: TensorGraph, meta: TensorMeta
    ) -> int:
        """Adds the operand of a part of a tensor with the metadata `meta`; returns its number."""
        line, made, chunks = plan.line or operand.line, plan.how.operand, plan.chunks or splits_of(plan.part, meta)
        assert all(sum(cut) == len(axis) for cut, axis in zip(chunks, plan.part, strict=True)), meta.key
        if isinstance(made, Slice):
            ((_, part),) = plan.how.reads
            row, places = self._found(read[0], graph.metas[read[0]], part)
            if all(isinstance(one, range) for one in places):  # two slices in one
                made = replace(made, index=_composed(made.index, places, self.made.metas[row].shape), line=line)
                return self.made.add(made, (row,), TensorMeta(meta.key, tuple(map(sum, chunks)), meta.dtype, chunks))
        cut = chunks if made is None or isinstance(made, Rechunk) else None  # the chunks that its input may have
        own = [self._part(read[at], graph.metas[read[at]], part, line, cut) for at, part in plan.how.reads]
        rows = self._apart(operand, [graph.operands[read[at]] for at, _ in plan.how.reads], own)
        if cut is not None and self.made.metas[rows[0]].chunks == cut:
            return rows[0]
        if made is None or isinstance(made, Rechunk):
            made = Rechunk(chunks, line=operand.line)
        elif not rows and plan.line is not None:
            made = replace(made, line=line)  # a source has the line of the selection
        return self.made.add(made, rows, TensorMeta(meta.key, tuple(map(sum, chunks)), meta.dtype, chunks))

    def _apart(self, operand: Operand, before: Sequence[Operand], rows: Sequence[int]) -> tuple[int, ...]:
        """Keeps a sum of floats apart from an expression behind a selection that vanished: fused, the sum would add
        other blocks. A reshape to the same shape copies nothing.
        """
        if not isinstance(operand, Reduction) or is_exact(operand.reducer) or isinstance(before[0], ElementwiseOperand):
            return tuple(rows)
        (row,) = rows
        meta, end = self.made.metas[row], row
        while isinstance(self.made.operands[end], Rechunk):
            (before_it,) = self.made.inputs[end]
            if self.made.metas[before_it].chunks != self.made.metas[end].chunks:
                break
            end = before_it
        if not isinstance(self.made.operands[end], ElementwiseOperand):
            return (row,)
        return (self.made.add(Reshape(meta.chunks, line=before[0].line), (row,), meta.renamed(f"{meta.key}/r")),)

    def _whole(self, k: int, meta: TensorMeta) -> int:
        have, row = self._rows[k][0]
        assert have is None, meta.key
        return row

    def _part(self, k: int, meta: TensorMeta, part: Part, line: Line, chunks: Splits | None) -> int:
        """The number of a part of a tensor, cut from a larger part where needed."""
        row, places = self._found(k, meta, part, chunks)
        for axis, wanted in _one_by_one(places, self.made.metas[row].shape):
            row = self._selected(row, wanted, axis, line)
        return row

    def _found(self, k: int, meta: TensorMeta, part: Part, chunks: Splits | None = None) -> tuple[int, Part]:
        """The number of the computed part of a tensor that holds a part, and the places in it: that with the wanted
        chunks, else the smallest.
        """
        fitting = [(have, row) for have, row in self._rows[k] if have is None or all(map(holds, have, part))]
        if len(fitting) > 1:
            cut, metas = chunks or splits_of(part, meta), self.made.metas
            fitting.sort(key=lambda one: (metas[one[1]].chunks != cut, math.inf if one[0] is None else size(one[0])))
        have, row = fitting[0]
        kept = whole(meta) if have is None else have
        return row, tuple(places_of(wanted, own) for wanted, own in zip(part, kept, strict=True))

    def _selected(self, row: int, places: Part, axis: int | None, line: Line) -> int:
        """Adds a slice, or a selection of positions along `axis`."""
        key = (row, axis, *part_key(places))
        if key not in self._cut:
            meta = self.made.metas[row]
            operand: Operand
            if axis is None:
                ends = [(one, n) for one, n in zip(places, meta.shape, strict=True) if isinstance(one, range)]
                operand = Slice(tuple(_entry(one, n) for one, n in ends), line=line)
                chunks = splits_of(places, meta)
            else:
                operand = Take(positions(places[0]), axis, line=line)
                own = counts(places[0], meta.chunks[axis])
                chunks = (*meta.chunks[:axis], own, *meta.chunks[axis + 1 :])
            made = TensorMeta(f"{meta.key}/s{len(self._cut)}", tuple(map(sum, chunks)), meta.dtype, chunks)
            self._cut[key] = self.made.add(operand, (row,), made)
        return self._cut[key]


def _one_by_one(places: Part, shape: Sequence[int]) -> list[tuple[int | None, Part]]:
    """The selections that take a part: a slice of all axes (None), then positions along single axes."""
    found: list[tuple[int | None, Part]] = []
    sliced = tuple(one if isinstance(one, range) else range(n) for one, n in zip(places, shape, strict=True))
    if any(len(one) < n for one, n in zip(sliced, shape, strict=True)):
        found.append((None, sliced))
    return found + [(axis, (one,)) for axis, one in enumerate(places) if not isinstance(one, range)]


def _composed(index: Sequence[Any], places: Part, shape: Sequence[int]) -> tuple[Any, ...]:
    """The index of a slice of what an index of whole axes, numbers, new axes and axes turned round selects."""
    found: list[Any] = []
    axes = iter(zip(places, shape, strict=True))
    for entry in index:
        if entry is None:
            found.append(None)
            continue
        one, n = next(axes)
        assert isinstance(one, range)
        if isinstance(entry, int):
            found.append(one.start)
        elif entry[2] is None:
            found.append(_entry(one, n))
        else:
            turned = one[::-1]
            found.append((turned.start, turned.stop if turned.stop >= 0 else None, turned.step))
    return tuple(found)


def _entry(axis: Axis, n: int) -> tuple[int | None, int | None, int | None]:
    """A slice as an entry of an index."""
    assert isinstance(axis, range)
    if len(axis) == n:
        return (None, None, None)
    return axis.start, axis.stop, axis.step if axis.step > 1 else None
