"""Fuses programs: a chain, or any operands of which only the last has readers outside.

`compose` lays out the steps of all programs in order, joins elementwise steps of equal shape into an expression where
no other step reads the values between, and counts the bytes held meanwhile. `regions` groups the steps that run
together, block by block. The optimiser chooses the operands to fuse. Time is linear in the steps.

Some values of a program need no memory, because they lie in the memory of other values. A slice that only elementwise
steps read is a view of the sliced value; so are windows, also where they are reduced. Values side by side that only
elementwise steps read are not copied together. A value that is written to a slice is computed there. `sharing` sees the
steps only, so that planned and used memory agree.
Source: docs/explanation/seeds.md, "Graph fusion"; `Fusion.compose` of Mars 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from jmars.kernels.expression import Expression, Node, share
from jmars.kernels.program import Call, ChunkType, Elementwise, Generate, Program, Reduce, Step
from jmars.kernels.row_chains import row_chains


def fuse(programs: Sequence[Program], slots: Sequence[int]) -> Program:
    """Fuse a chain of programs.

    Parameters
    ----------
    programs
        The chain, head first.
    slots
        `programs[k]`'s output is input number `slots[k]` of `programs[k + 1]`; one shorter than `programs`.

    Returns
    -------
    Program
        Its inputs are those of `programs[0]`, then for each later program its other inputs in order; so its arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.program import program_text, single
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((4,), f8)
    >>> double = single("add", (chunk,), Elementwise(Expression((f8,), (Node("add", (0, 0), f8),)), (0,), chunk))
    >>> fuse([double, double], [0]).name
    'add+add'
    """
    assert len(slots) == len(programs) - 1
    taken = len(programs[0].inputs)
    reads = [list(range(taken))]
    for k, (program, slot) in enumerate(zip(programs[1:], slots)):
        others = len(program.inputs) - 1
        read = list(range(taken, taken + others))
        read.insert(slot, -1 - k)
        reads.append(read)
        taken += others
    return compose(programs, reads)


def compose(programs: Sequence[Program], reads: Sequence[Sequence[int]]) -> Program:
    """Fuse programs that may read the outputs of earlier programs; the last program gives the output.

    Parameters
    ----------
    programs
        In an order in which they can run.
    reads
        For each program what its inputs are: 0, 1, ... the inputs of all together, -1 what the first program gives, -2
        the second, and so on; none twice for one program.

    Returns
    -------
    Program
        It takes the programs' arguments one after the other.

    Examples
    --------
    `x = a + b; x * x - exp(x)` as one expression of two inputs:

    >>> import numpy as np
    >>> from jmars.kernels.program import program_text, single
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((4,), f8)
    >>> def apply(op, *args):
    ...     n = max(args) + 1
    ...     step = Elementwise(Expression((f8,) * n, (Node(op, args, f8),)), tuple(range(n)), chunk)
    ...     return single(op, (chunk,) * n, step)
    >>> four = [apply("add", 0, 1), apply("multiply", 0, 0), apply("exp", 0), apply("subtract", 0, 1)]
    >>> program_text(compose(four, [[0, 1], [-1], [-1], [-2, -3]]))
    '((x0 + x1) * (x0 + x1)) - exp((x0 + x1))'
    """
    n = max((number for read in reads for number in read), default=-1) + 1
    inputs: list[ChunkType | None] = [None] * n
    steps: list[Step] = []
    members: list[int] = []  # of each step
    whose: list[tuple[int, ...]] = []  # of each node of each step
    fused = 0  # operands so far
    gives: list[int] = []  # number of the value that each program gives
    for program, read in zip(programs, reads, strict=True):
        value = [number if number >= 0 else gives[-1 - number] for number in read]
        for number, chunk in zip(read, program.inputs, strict=True):
            if number >= 0 and inputs[number] is None:
                inputs[number] = chunk
        own, shift = len(value), n + len(steps) - len(value)
        for step in program.steps:
            steps.append(_reading(step, tuple(value[v] if v < own else v + shift for v in step.inputs)))
        own_members = [fused + member for member in program.members or [0] * len(program.steps)]
        members += own_members
        whose += _whose_nodes(program, own_members, fused)
        fused += program.fused
        gives.append(n + len(steps) - 1)
    steps, shaped = _shaped(steps, n)
    steps, merged, joined = _merged(steps, n)
    kept = [shaped[k] for k in merged]
    name = "+".join(program.name for program in programs)
    types = tuple(chunk for chunk in inputs if chunk is not None)
    assert len(types) == n, "each input is read by some program"
    of_steps = tuple(members[k] for k in kept)
    of_nodes = tuple(tuple(chain.from_iterable(whose[shaped[k]] for k in parts)) for parts in joined)
    of_nodes = tuple(() if set(one) <= {member} else one for one, member in zip(of_nodes, of_steps, strict=True))
    of_nodes = of_nodes if any(of_nodes) else ()
    return Program(name, types, steps[-1].output, tuple(steps), _work(steps, n), of_steps, of_nodes, fused)


def _whose_nodes(program: Program, members: Sequence[int], shift: int) -> list[tuple[int, ...]]:
    """The fused operands of the nodes of all steps, numbered from `shift`; `members` are the steps' nodes."""
    known = program.node_members or ((),) * len(program.steps)
    return [
        tuple(shift + one for one in nodes) or (member,) * len(step.expression.nodes)
        if isinstance(step, Elementwise)
        else ()
        for step, nodes, member in zip(program.steps, known, members, strict=True)
    ]


def share_inputs(program: Program, slots: Sequence[int]) -> Program:
    """Take input `i` of a program from the new input `slots[i]`, for a chunk that is read twice.

    Examples
    --------
    `share_inputs(add, [0, 0])` has one input and doubles it.
    """
    inputs = tuple(program.inputs[list(slots).index(i)] for i in range(max(slots) + 1))
    shift = len(inputs) - len(program.inputs)
    steps: list[Step] = []
    for step in program.steps:
        values = tuple(slots[v] if v < len(program.inputs) else v + shift for v in step.inputs)
        steps.append(_reading(step, values))
    return replace(program, inputs=inputs, steps=tuple(steps))


class Region(NamedTuple):
    """Steps, by number, that run together block by block; a step that runs alone is a tail."""

    heads: tuple[int, ...]  # generators
    middle: int | None  # an expression
    tail: int | None  # number of a reduction, or of a step that runs alone
    chains: tuple[tuple[int, ...], ...] = ()  # of row_chains.py

    @property
    def last(self) -> int:
        """The step that gives the region's value."""
        ends = [chain[-1] for chain in self.chains]
        return next(step for step in (self.tail, self.middle, *self.heads[-1:], *ends) if step is not None)

    @property
    def steps(self) -> list[int]:
        """All steps."""
        own = [step for step in (*self.heads, self.middle, self.tail) if step is not None]
        return [*chain.from_iterable(self.chains), *own]


def regions(steps: Sequence[Step], n: int) -> list[Region]:
    """Group a program's steps into regions, in an executable order; `n` is the number of inputs."""
    readers = step_readers(steps, n)
    taken: list[list[int]] = [[] for _ in steps]  # steps that run in the region of each
    found: list[Region] = []
    for k, step in enumerate(steps):
        taker = _taker(steps, readers[k], step)
        if taker >= 0:
            taken[taker].append(k)
        elif isinstance(step, Generate):
            found.append(Region((k,), None, None))
        elif isinstance(step, Elementwise):
            found.append(Region(tuple(taken[k]), k, None))
        elif taken[k]:  # a reduction of a computed value
            (value,) = taken[k]
            is_made = isinstance(steps[value], Generate)
            found.append(Region((value,), None, k) if is_made else Region(tuple(taken[value]), value, k))
        else:
            found.append(Region((), None, k))
    return found


def lifetimes(steps: Sequence[Step], n: int) -> list[tuple[Region, tuple[int, ...]]]:
    """The regions in order, each with the numbers of the values that have no later reader."""
    order, (views, _, joined) = _with_chains(regions(steps, n), steps, n), sharing(steps, n)
    given = {n + region.last for region in order[:-1]}
    after: list[tuple[int, ...]] = []
    seen: set[int] = set()
    for region in reversed(order):
        read = {value for step in region.steps for value in steps[step].inputs}
        read |= {part for value in read if value in joined for part in joined[value]}
        read = (read | {views[value] for value in read if value in views}) & given
        after.append(tuple(sorted(read - seen)))
        seen |= read
    return list(zip(order, reversed(after), strict=True))


def _with_chains(order: Sequence[Region], steps: Sequence[Step], n: int) -> list[Region]:
    """The regions, with steps that run row by row in the region of their reader."""
    if not any(isinstance(step, Call) and step.by_rows for step in steps):
        return list(order)
    found = {region.last: region for region in order}
    readers = step_readers(steps, n)
    alone = {region.last for region in order if region.steps == [region.last]}
    for region in order:
        chains = [] if region.heads else row_chains(steps, n, readers, region.middle, region.tail, alone)
        if chains:
            tail = None if region.tail in chains[0] else region.tail
            for step in chain.from_iterable(chains):
                found.pop(step, None)
            found[region.last] = region._replace(tail=tail, chains=tuple(chains))
    return [found[region.last] for region in order if region.last in found]


def _work(steps: Sequence[Step], n: int) -> int:
    """Bytes that `steps` need beside inputs and output: values between regions, and scratch of single steps."""
    held = most = 0
    parts, (views, inside, joined) = lifetimes(steps, n), sharing(steps, n)
    last = n + parts[-1][0].last

    def own(value: int) -> int:
        return (
            0
            if value in views or value in joined or value in inside or value == last
            else steps[value - n].output.nbytes
        )

    def scratch(step: Step) -> int:
        if isinstance(step, Call) and any(value in views for value in step.inputs):
            return step.work - step.copies
        return step.work

    for region, ending in parts:
        value = n + region.last
        early = value in inside.values()  # its memory is there since a value inside was computed
        size = own(inside[value]) if value in inside else 0 if early else own(value)
        rows = set(chain.from_iterable(region.chains))  # computed in blocks: their scratch does not count
        work = sum(scratch(steps[step]) for step in {*region.heads, region.last} - rows)
        most = max(most, held + size + work)
        held += size - sum(map(own, ending))
    return most


def _taker(steps: Sequence[Step], readers: list[int], step: Step) -> int:
    """The step that ends the region of `step`; -1 if `step` itself ends a region."""
    if len(readers) == 1 and isinstance(step, Elementwise | Generate):
        reader = steps[readers[0]]
        if isinstance(reader, Reduce) and reader.reducer.blocked:
            return readers[0]
        if isinstance(step, Generate) and isinstance(reader, Elementwise) and reader.output.shape == step.output.shape:
            return readers[0]
    return -1


def _shaped(steps: list[Step], n: int) -> tuple[list[Step], list[int]]:
    """Generate elements directly in the shape that a later reshape would give them.

    Returns the new steps, and for each new step the number of the old step.
    """
    readers = step_readers(steps, n)
    stands_for = list(range(n + len(steps)))  # old value: old value with the same elements in the same order
    made: dict[int, ChunkType] = {}  # generator: type of its output after the change
    for k, step in enumerate(steps):
        if isinstance(step, Call) and step.reshapes:
            k_made = stands_for[step.inputs[0]] - n
            if k_made >= 0 and isinstance(steps[k_made], Generate) and len(readers[step.inputs[0] - n]) == 1:
                stands_for[n + k] = n + k_made
                made[k_made] = step.output
    kept = [k for k in range(len(steps)) if stands_for[n + k] == n + k]
    if not made:
        return steps, kept
    number = {v: v for v in range(n)} | {n + k: n + row for row, k in enumerate(kept)}
    found: list[Step] = []
    for k in kept:
        step = steps[k]
        if isinstance(step, Generate) and k in made:
            step = structs.replace(step, output=made[k], opened=step.opened or step.output)
        found.append(_reading(step, tuple(number[stands_for[v]] for v in step.inputs)))
    return found, kept


def _merged(steps: list[Step], n: int) -> tuple[list[Step], list[int], list[list[int]]]:
    """Merge elementwise steps into the expression that contains all their readers.

    Returns the new steps, for each new step the number of the (last) old step, and of all old steps, in the order of
    their nodes.
    """
    readers = step_readers(steps, n)
    root = list(range(len(steps)))  # the last step of the expression that each is in
    members: dict[int, list[int]] = {}
    for k in range(len(steps) - 1, -1, -1):
        step = steps[k]
        if not isinstance(step, Elementwise):
            continue
        ends = {root[reader] for reader in readers[k]}
        end = ends.pop() if len(ends) == 1 else k
        last = steps[end]
        if isinstance(last, Elementwise) and last.output.shape == step.output.shape:
            root[k] = end
        members.setdefault(root[k], []).append(k)
    kept = [k for k in range(len(steps)) if root[k] == k]
    if len(kept) == len(steps):
        return steps, kept, [[k] for k in kept]
    value = list(range(n)) + [-1] * len(steps)  # new number of each old value
    merged: list[Step] = []
    for k in kept:
        step = steps[k]
        if isinstance(step, Elementwise) and len(members[k]) > 1:
            step = _joined([(n + j, steps[j]) for j in reversed(members[k])])
        merged.append(_reading(step, tuple(value[v] for v in step.inputs)))
        value[n + k] = n + len(merged) - 1
    return merged, kept, [members.get(k, [k])[::-1] for k in kept]


def _joined(parts: Sequence[tuple[int, Step]]) -> Elementwise:
    """Join elementwise steps, given with the numbers of their values; the last step gives the result."""
    steps = [step for _, step in parts if isinstance(step, Elementwise)]
    assert len(steps) == len(parts)
    expression, inputs = joined_expression(
        [step.expression for step in steps], [step.inputs for step in steps], [number for number, _ in parts]
    )
    return Elementwise(expression, inputs, steps[-1].output)


def joined_expression(
    expressions: Sequence[Expression], reads: Sequence[Sequence[int]], gives: Sequence[int]
) -> tuple[Expression, tuple[int, ...]]:
    """Join expressions that may read the results of earlier expressions; the last expression gives the result.

    Parameters
    ----------
    expressions
        In an order in which they can be computed.
    reads
        For each expression the numbers of the values that it reads.
    gives
        The number of the value that each gives; what is read and given by none comes from outside.

    Returns
    -------
    Expression, tuple of int
        And what its inputs are: the numbers from outside, in the order in which they are first read.

    Examples
    --------
    >>> f8 = np.dtype("f8")
    >>> add, square = Expression((f8, f8), (Node("add", (0, 1), f8),)), Expression((f8,), (Node("square", (0,), f8),))
    >>> both, inputs = joined_expression([add, square], [(7, 8), (9,)], [9, 10])
    >>> both.text(), inputs
    ('square((x0 + x1))', (7, 8))
    """
    inside = set(gives)
    inputs: dict[int, np.dtype[Any]] = {}  # value read from outside: its dtype
    for expression, read in zip(expressions, reads, strict=True):
        for value, dtype in zip(read, expression.inputs, strict=True):
            if value not in inside:
                inputs.setdefault(value, dtype)
    place = {value: i for i, value in enumerate(inputs)}  # among the new expression's values
    nodes: list[Node] = []
    for expression, read, number in zip(expressions, reads, gives, strict=True):
        own = [place[value] for value in read]
        own += range(len(inputs) + len(nodes), len(inputs) + len(nodes) + len(expression.nodes))
        for node in expression.nodes:
            args = tuple(own[arg] for arg in node.args)
            nodes.append(node if args == node.args else node.reading(args))
        place[number] = len(inputs) + len(nodes) - 1
    return Expression(tuple(inputs.values()), tuple(nodes)), tuple(inputs)


def _reading(step: Step, values: tuple[int, ...]) -> Step:
    """Make `step` read other values; an elementwise step reads each value only once."""
    if isinstance(step, Elementwise) and len(set(values)) < len(values):
        unique = list(dict.fromkeys(values))
        return Elementwise(share(step.expression, [unique.index(v) for v in values]), tuple(unique), step.output)
    return step if values == step.inputs else structs.replace(step, inputs=values)  # type: ignore[type-var]


class Sharing(NamedTuple):
    """Values, by number, in the memory of others."""

    views: dict[int, int]  # slice: the viewed value
    inside: dict[int, int]  # value computed in a part of a later value: that value
    joined: dict[int, tuple[int, ...]]  # value: values that hold its elements, side by side

    @property
    def strided(self) -> frozenset[int]:
        """Values with rows apart in memory."""
        return frozenset((*self.views, *self.inside, *self.joined))


def sharing(steps: Sequence[Step], n: int) -> Sharing:
    """The values of `steps` that need no memory of their own; `n` is the number of inputs."""
    views: dict[int, int] = {}
    inside: dict[int, int] = {}
    joined: dict[int, tuple[int, ...]] = {}
    if not any(isinstance(step, Call) and (step.view or step.joins or step.target) for step in steps):
        return Sharing(views, inside, joined)
    readers = step_readers(steps, n)

    def is_pass(k: int) -> bool:
        """Whether a step is elementwise; sums keep the bits of sums of contiguous blocks."""
        reduced = len(readers[k]) == 1 and isinstance(steps[readers[k][0]], Reduce)
        return isinstance(steps[k], Elementwise) and not reduced

    def is_reading(k: int) -> bool:
        """Whether a step may read windows in place: a copy would be many times larger than the elements."""
        step = steps[k]
        return isinstance(step, Elementwise | Reduce) or (isinstance(step, Call) and step.copies > 0)

    def in_cells(k: int, value: int) -> bool:
        """Whether an elementwise step has all elements at hand, so that it can run cell by cell."""
        made = [steps[v - n] for v in steps[k].inputs if v >= n]
        at_once = not any(isinstance(one, Generate) or (isinstance(one, Call) and one.by_rows) for one in made)
        return is_pass(k) and at_once and steps[k].output.shape == steps[value].output.shape

    for k, step in enumerate(steps[:-1]):
        if isinstance(step, Call) and step.joins and all(in_cells(reader, k) for reader in readers[k]):
            joined[n + k] = step.inputs
        if isinstance(step, Call) and step.view is not None and step.inputs[0] not in views:
            is_read = is_reading if step.repeats else is_pass
            if all(map(is_read, readers[k])):
                views[n + k] = step.inputs[0]
    for k, step in enumerate(steps):
        if isinstance(step, Call) and step.target is not None:
            value = step.inputs[-1]
            if value >= n and value not in step.inputs[:-1] and readers[value - n] == [k] and is_pass(value - n):
                inside[value] = n + k
    return Sharing(views, inside, joined)


def step_readers(steps: Sequence[Step], n: int) -> list[list[int]]:
    """List the readers of each step's value."""
    readers: list[list[int]] = [[] for _ in steps]
    for k, step in enumerate(steps):
        for value in dict.fromkeys(step.inputs):
            if value >= n:
                readers[value - n].append(k)
    return readers
