"""`GraphBuilder`: adds vertices, declares dependencies and outputs, finishes the graph, and builds instances.

`GraphBuilder.vertex` makes a `VertexBuilder`, which declares the vertex's dependencies and outputs. `finish` reads and
freezes the declarations, and checks the graph, so that runs cannot hang.

Ready-made vertices (const, alias, select) pass a value on.

Formulas are vertices: a run of `B > C ? D + 4 : E * 5` computes the taken branch only. `parse` reads the text into a
tree; `add_expression` turns a tree into vertices. A part without `? :`, `&&` or `||` is a single vertex; the three
operators are conditional dependencies. Equal parts of a builder's formulas are computed once.
Source: docs/explanation/seeds.md, "GraphBuilder and Graph", "Data nodes and compute nodes", "Build time and run time";
baidu/babylon, anyflow/builder.h; baidu/babylon, anyflow/builtin/{const,alias,select}.h; baidu/babylon,
anyflow/builtin/expression.h.
"""

from __future__ import annotations

import ast
import difflib
import graphlib
import operator
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from jmars.annex.flow.instance import Graph
from jmars.annex.flow.vertex import (
    ALWAYS,
    NEVER,
    WHEN_TAKEN,
    Edge,
    FunctionProcessor,
    GraphPlan,
    GraphProcessor,
    Structure,
    VertexPlan,
    processor_of,
)
from jmars.errors import GraphError

if TYPE_CHECKING:
    from jmars.annex.flow.vertex import GraphVertex


class GraphBuilder:
    """A graph under construction, mutable until `finish()`; then a factory of independent instances.

    Parameters
    ----------
    name
        Name of the graph, for errors.

    Examples
    --------
    >>> builder = GraphBuilder("price")
    >>> builder.input("amount", "member")
    >>> _full = builder.function(lambda amount: amount * 10, ["amount"], "full")
    >>> _less = builder.function(lambda full: full * 0.5, ["full"], "reduced")
    >>> _price = builder.select("price", "member", "reduced", "full")
    >>> graph = builder.finish().build()
    >>> graph.run("price", given={"amount": 3, "member": True}).result()
    15.0
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._vertices: dict[str, VertexBuilder] = {}
        self._inputs: dict[str, type] = {}
        self._exclusive: set[str] = set()
        self._expressions: dict[Any, str] = {}  # data that holds each part of an expression
        self._plan: GraphPlan | None = None

    # Declaring.

    def input(self, *names: str, type: type = object) -> None:
        """Declares inputs of the graph; a run is given the needed inputs."""
        self._check_open()
        for name in names:
            if name in self._inputs:
                raise GraphError(f"graph {self.name!r} has an input {name!r} already; declare each one once")
            self._inputs[name] = type

    def exclusive(self, data: str) -> None:
        """Lets several vertices emit a data, at most one vertex per run; the data is empty if no vertex does."""
        self._check_open()
        self._exclusive.add(data)

    def vertex(self, factory: Callable[[], GraphProcessor], name: str | None = None) -> VertexBuilder:
        """Adds a vertex; the returned `VertexBuilder` declares dependencies and outputs.

        Parameters
        ----------
        factory
            A subclass of `GraphProcessor`, or a function without arguments that returns a processor; called for every
            instance.
        name
            Name of the vertex; None: derived from the factory's name.

        Raises
        ------
        GraphError
            If the graph is finished, the name is taken, or `factory` is a processor itself.
        """
        self._check_open()
        if isinstance(factory, GraphProcessor):
            raise GraphError(
                "a processor belongs to one vertex of one instance; give its class, or a function that makes one"
            )
        if name is None:
            stem = getattr(factory, "__name__", "vertex").strip("<>")
            name = self._free(stem)
        if name in self._vertices:
            raise GraphError(f"graph {self.name!r} has a vertex {name!r} already; give each one its own name")
        vertex = self._vertices[name] = VertexBuilder(name, factory, self._check_open)
        return vertex

    def function(
        self,
        function: Callable[..., Any],
        inputs: Sequence[str] | Mapping[str, str] = (),
        output: str | Sequence[str] = (),
        name: str | None = None,
    ) -> VertexBuilder:
        """Adds a vertex that calls a function, plain or `async`.

        Parameters
        ----------
        function
            Called with the values of its inputs; empty inputs are None. Returning None emits an empty value.
        inputs
            Names of data, passed by place; or a mapping from argument to data, passed by keyword.
        output
            Name of the returned data; a sequence of names for a function that returns several values.
        name
            Name of the vertex; None: derived from the function's name.
        """
        if isinstance(inputs, str):
            raise GraphError(f"inputs={inputs!r} is one text; give a list of names, as in [{inputs!r}]")
        several = not isinstance(output, str) and len(output) > 0
        stem = getattr(function, "__name__", "function").strip("<>")
        vertex = self.vertex(processor_of(function, several), self._free(stem) if name is None else name)
        if isinstance(inputs, Mapping):
            for argument, data in inputs.items():
                vertex.depend(data, argument)
        else:
            for data in inputs:
                vertex.depend(data)
        for data in [output] if isinstance(output, str) else output:
            vertex.emit(data)
        return vertex

    def const(self, data: str, value: Any) -> VertexBuilder:
        """Adds a data with the same value in every run."""
        return const(self, data, value)

    def alias(self, data: str, source: str) -> VertexBuilder:
        """Adds a second name for a data."""
        return alias(self, data, source)

    def select(self, data: str, condition: str, yes: str, no: str) -> VertexBuilder:
        """Adds a data that is either of two data; only the selected data is computed."""
        return select(self, data, condition, yes, no)

    def expression(self, text: str, output: str) -> None:
        """Adds a data computed by a formula such as `B > C ? D + 4 : E * 5`; only the taken branch is computed."""
        self._check_open()
        add_expression(self, self._expressions, text, output)

    # Finishing.

    def finish(self) -> Self:
        """Checks and freezes the graph; further calls have no effect.

        Raises
        ------
        GraphError
            If a data that is read has no producer or several, types clash, a mutable dependency reads a borrowed value,
            or vertices form a cycle.
        """
        if self._plan is None:
            for vertex in self._vertices.values():
                vertex.factory().config(vertex)
            vertices = list(self._vertices.values())
            check(self.name, vertices, self._inputs, self._exclusive)
            self._plan = _freeze(self.name, vertices, list(self._inputs))
        return self

    def build(self) -> Graph:
        """Builds a new instance with new processors; the instance does not refer to the builder.

        Raises
        ------
        GraphError
            If the graph is not finished.
        """
        return Graph(self._finished())

    @property
    def structure(self) -> Structure:
        """The structure that all instances share, once the graph is finished."""
        return self._finished().structure

    def _finished(self) -> GraphPlan:
        if self._plan is None:
            raise GraphError(f"graph {self.name!r} is not finished; call finish() before building instances")
        return self._plan

    def _check_open(self) -> None:
        """Raises if the graph is finished."""
        if self._plan is not None:
            raise GraphError(f"graph {self.name!r} is finished and cannot change; make a new GraphBuilder")

    def _free(self, stem: str) -> str:
        """An unused vertex name."""
        names = (f"{stem}_{k}" if k else stem for k in range(len(self._vertices) + 1))
        return next(name for name in names if name not in self._vertices)


def _freeze(name: str, vertices: Sequence[VertexBuilder], inputs: Sequence[str]) -> GraphPlan:
    """Names become numbers."""
    emitted = (output.data for vertex in vertices for output in vertex.emits)
    number = {data: place for place, data in enumerate(dict.fromkeys([*inputs, *emitted]))}
    edges: list[Edge] = []
    plans: list[VertexPlan] = []
    for place, vertex in enumerate(vertices):
        anonymous, named = [], {}
        for dependency in vertex.dependencies:
            if dependency.name is None:
                anonymous.append(len(edges))
            else:
                named[dependency.name] = len(edges)
            condition = -1 if dependency.condition is None else number[dependency.condition]
            level, mutable = dependency.essential_level, dependency.is_mutable
            edges.append(Edge(place, number[dependency.data], condition, dependency.expects, level, mutable))
        emits: dict[str | int, int] = {}
        for k, output in enumerate(vertex.emits):
            emits[k] = emits[output.data] = number[output.data]
        emits.update({output.name: number[output.data] for output in vertex.emits if output.name is not None})
        outputs = tuple(output.data for output in vertex.emits)
        plans.append(
            VertexPlan(vertex.name, vertex.factory, tuple(anonymous), named, outputs, emits, vertex.is_trivial)
        )
    rows = tuple(tuple(number[data] for data in plan.outputs) for plan in plans)
    structure = Structure(tuple(number), tuple(plan.name for plan in plans), tuple(edges), rows)
    return GraphPlan(name, structure, tuple(plans))


def check(graph: str, vertices: Sequence[VertexBuilder], inputs: Mapping[str, type], exclusive: set[str]) -> None:
    """Raises the first error found in a graph.

    Raises
    ------
    GraphError
        If a data that is read has no producer or several, types clash, a mutable dependency reads a borrowed value, or
        vertices form a cycle.
    """
    producers: dict[str, list[tuple[VertexBuilder, EmitBuilder]]] = {}
    for vertex in vertices:
        for output in vertex.emits:
            producers.setdefault(output.data, []).append((vertex, output))
    _check_producers(graph, producers, inputs, exclusive)
    for vertex in vertices:
        _check_dependencies(graph, vertex, producers, inputs)
    _check_order(graph, vertices, producers)


def _check_producers(
    graph: str,
    producers: Mapping[str, Sequence[tuple[VertexBuilder, EmitBuilder]]],
    inputs: Mapping[str, type],
    exclusive: set[str],
) -> None:
    for data, found in producers.items():
        names = " and ".join(repr(vertex.name) for vertex, _ in found)
        if data in inputs:
            raise GraphError(f"data {data!r} of graph {graph!r} is an input and emitted by {names}; it has one source")
        if len(found) > 1 and data not in exclusive:
            raise GraphError(
                f"data {data!r} of graph {graph!r} is emitted by {names}; a data has one producer: give each its own "
                f"data and select() between them, or declare builder.exclusive({data!r}) if one at most emits in a run"
            )


def _check_dependencies(
    graph: str,
    vertex: VertexBuilder,
    producers: Mapping[str, Sequence[tuple[VertexBuilder, EmitBuilder]]],
    inputs: Mapping[str, type],
) -> None:
    for dependency in vertex.dependencies:
        for data in (dependency.data, dependency.condition):
            if data is not None and data not in producers and data not in inputs:
                near = difflib.get_close_matches(data, [*producers, *inputs], n=1)
                raise GraphError(
                    f"vertex {vertex.name!r} of graph {graph!r} reads {data!r}, which no vertex emits and which is no "
                    f"input; {f'is {near[0]!r} meant?' if near else f'declare builder.input({data!r})'}"
                )
        sources = [(producer.name, output.type) for producer, output in producers.get(dependency.data, ())]
        if dependency.data in inputs:
            sources = [("the input", inputs[dependency.data])]
        for name, kind in sources:
            if kind not in (None, object) and not issubclass(kind, dependency.type):
                raise GraphError(
                    f"vertex {vertex.name!r} of graph {graph!r} takes {dependency.data!r} as "
                    f"{dependency.type.__name__} and {name} gives {kind.__name__}; declare types that agree"
                )
        if dependency.is_mutable and any(output.borrowed for _, output in producers.get(dependency.data, ())):
            raise GraphError(
                f"vertex {vertex.name!r} of graph {graph!r} reads {dependency.data!r} as mutable, and its value "
                "belongs to another data (alias, select, const); depend on that one, or copy"
            )


def _check_order(
    graph: str,
    vertices: Sequence[VertexBuilder],
    producers: Mapping[str, Sequence[tuple[VertexBuilder, EmitBuilder]]],
) -> None:
    before: dict[str, list[str]] = {}
    for vertex in vertices:
        data = [name for d in vertex.dependencies for name in (d.data, d.condition) if name is not None]
        before[vertex.name] = [producer.name for name in data for producer, _ in producers.get(name, ())]
    try:
        graphlib.TopologicalSorter(before).prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(map(repr, error.args[1]))
        raise GraphError(f"vertices of graph {graph!r} need one another: {circle}; a graph has no circle") from None


class _Select(GraphProcessor):
    """Emits the value of the taken dependency."""

    def process(self, vertex: GraphVertex) -> None:
        """Emits the first dependency if the condition holds, else the second."""
        vertex.emit(vertex.dependency(0 if vertex.dependency(0).taken else 1).value)


def const(builder: GraphBuilder, data: str, value: Any) -> VertexBuilder:
    """Adds a vertex that emits `value`."""
    return builder.vertex(lambda: FunctionProcessor(lambda: value), f"const {data}").emit(data, borrowed=True).trivial()


def alias(builder: GraphBuilder, data: str, source: str) -> VertexBuilder:
    """Adds a vertex that emits the value of `source`."""
    vertex = builder.vertex(lambda: FunctionProcessor(lambda value: value), f"alias {data}")
    vertex.depend(source)
    return vertex.emit(data, borrowed=True).trivial()


def select(builder: GraphBuilder, data: str, condition: str, yes: str, no: str) -> VertexBuilder:
    """Adds a vertex that emits the value of `yes` if `condition` is true, else the value of `no`."""
    vertex = builder.vertex(_Select, f"select {data}")
    vertex.depend(yes).on(condition)
    vertex.depend(no).unless(condition)
    return vertex.emit(data, borrowed=True).trivial()


# A tree: ("name", text), ("const", type name, value), (operator, tree, ...), ("?", test, yes, no)
Tree = tuple[Any, ...]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<text>'[^'\\]*'|\"[^\"\\]*\")|(?P<name>[^\W\d]\w*)"
    r"|(?P<sign>&&|\|\||[<>=!]=|[-+*/%<>!?:()]))"
)
_LEVELS: list[dict[str, Callable[[Any, Any], Any]]] = [  # loosest first; above them `? :`, `||`, `&&`
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.truediv, "%": operator.mod},
]
_BINARY = {sign: function for level in _LEVELS for sign, function in level.items()}
_UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "!": operator.not_}
_WORDS = {"true": True, "false": False}


def parse(text: str) -> Tree:
    """Parses a formula to a tree of tuples.

    Raises
    ------
    GraphError
        If the formula has a syntax error; the message names the place.

    Examples
    --------
    >>> parse("-a + 2 * b")
    ('+', ('-', ('name', 'a')), ('*', ('const', 'int', 2), ('name', 'b')))
    """
    return _Parser(text).whole()


class _Parser:
    """A recursive-descent parser, with a method per level of precedence."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.place = text, list[tuple[str, str, int]](), 0
        end = len(text.rstrip())
        at = 0
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._error(at)
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)], at))
            at = found.end()

    def whole(self) -> Tree:
        tree = self.ternary()
        if self.place < len(self.tokens):
            raise self._error(self.tokens[self.place][2])
        return tree

    def ternary(self) -> Tree:
        test = self.either()
        if not self._skip("?"):
            return test
        yes = self.ternary()
        self._expect(":")
        return ("?", test, yes, self.ternary())

    def either(self) -> Tree:
        tree = self.both()
        while self._skip("||"):
            tree = ("?", tree, ("const", "bool", True), _truth(self.both()))
        return tree

    def both(self) -> Tree:
        tree = self.binary(0)
        while self._skip("&&"):
            tree = ("?", tree, _truth(self.binary(0)), ("const", "bool", False))
        return tree

    def binary(self, level: int) -> Tree:
        if level == len(_LEVELS):
            return self.unary()
        tree = self.binary(level + 1)
        while (sign := self._peek()) in _LEVELS[level]:
            self.place += 1
            tree = (sign, tree, self.binary(level + 1))
        return tree

    def unary(self) -> Tree:
        for sign in _UNARY:
            if self._skip(sign):
                return (sign, self.unary())
        if self._skip("("):
            tree = self.ternary()
            self._expect(")")
            return tree
        if self.place == len(self.tokens) or self.tokens[self.place][0] == "sign":
            raise self._error(self.tokens[self.place][2] if self.place < len(self.tokens) else len(self.text))
        kind, word, _ = self.tokens[self.place]
        self.place += 1
        if kind == "name" and word not in _WORDS:
            return ("name", word)
        value = _WORDS[word] if kind == "name" else ast.literal_eval(word)
        return ("const", type(value).__name__, value)

    def _peek(self) -> str:
        kind, word, _ = self.tokens[self.place] if self.place < len(self.tokens) else ("", "", 0)
        return word if kind == "sign" else ""

    def _skip(self, sign: str) -> bool:
        found = self._peek() == sign
        self.place += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._skip(sign):
            raise self._error(self.tokens[self.place][2] if self.place < len(self.tokens) else len(self.text))

    def _error(self, at: int) -> GraphError:
        return GraphError(
            f"{self.text!r} cannot be read from its character {at} on: "
            f"{self.text[at:].strip() or 'it ends too soon'!r}; "
            "a formula has names, numbers, texts, + - * / % < <= > >= == != ! && || ? : and parentheses"
        )


def _truth(tree: Tree) -> Tree:
    """The tree of the truth value of a tree, the result of && and ||."""
    return ("!", ("!", tree))


def add_expression(builder: GraphBuilder, known: dict[Hashable, str], text: str, output: str) -> None:
    """Adds the vertices that compute a formula.

    Parameters
    ----------
    builder
        The graph.
    known
        Data computed by earlier formulas, by tree; updated.
    text, output
        The formula, and the name of the data.
    """
    tree = parse(text)
    if tree[0] == "name" or tree in known:
        builder.alias(output, tree[1] if tree[0] == "name" else known[tree])
        return
    _add(builder, known, tree, output)


def _add(builder: GraphBuilder, known: dict[Hashable, str], tree: Tree, output: str | None = None) -> str:
    """Name of the data of a tree; adds the vertices if needed."""
    if tree[0] == "name":
        return str(tree[1])
    if tree in known:
        return known[tree]
    data = _text(tree) if output is None else output
    if tree[0] == "const":
        builder.const(data, tree[2])
    elif tree[0] == "?":
        test, yes, no = (_add(builder, known, part) for part in tree[1:])
        builder.select(data, test, yes, no)
    else:
        leaves: dict[Tree, int] = {}
        compute = _compile(tree, leaves)
        sources = [_add(builder, known, leaf) for leaf in leaves]
        builder.function(lambda *values: compute(values), sources, data, f"compute {data}").trivial()
    known[tree] = data
    return data


def _compile(tree: Tree, leaves: dict[Tree, int]) -> Callable[[tuple[Any, ...]], Any]:
    """Compiles a tree to a function of the values of the leaves, names and branches."""
    if tree[0] == "const":
        return lambda values: tree[2]
    if tree[0] in ("name", "?"):
        place = leaves.setdefault(tree, len(leaves))
        return lambda values: values[place]
    parts = [_compile(part, leaves) for part in tree[1:]]
    if len(parts) == 1:
        function, (only,) = _UNARY[tree[0]], parts
        return lambda values: function(only(values))
    both, (left, right) = _BINARY[tree[0]], parts
    return lambda values: both(left(values), right(values))


def _text(tree: Tree) -> str:
    """Text of a tree, fully parenthesised: the name of the data."""
    if tree[0] in ("name", "const"):
        return str(tree[1]) if tree[0] == "name" else repr(tree[2])
    if tree[0] == "?":
        return f"({_text(tree[1])} ? {_text(tree[2])} : {_text(tree[3])})"
    parts = [_text(part) for part in tree[1:]]
    return f"({tree[0]}{parts[0]})" if len(parts) == 1 else f"({parts[0]} {tree[0]} {parts[1]})"


class DependencyBuilder:
    """A dependency under construction; every method returns it, for chaining."""

    def __init__(self, vertex: VertexBuilder, data: str, name: str | None, type: type) -> None:
        self._vertex = vertex
        self.data, self.name, self.type = data, name, type
        self.condition: str | None = None
        self.expects = True
        self.essential_level = NEVER
        self.is_mutable = False

    def on(self, condition: str) -> Self:
        """Reads the data only if the data `condition` is true; empty data are not true."""
        return self._under(condition, True)

    def unless(self, condition: str) -> Self:
        """Reads the data only if the data `condition` is false or empty."""
        return self._under(condition, False)

    def essential(self, when_taken: bool = False) -> Self:
        """Skips the vertex if this input is empty: the vertex does not run, and the outputs are empty.

        With `when_taken` an input that is empty because the condition did not hold does not skip the vertex.
        """
        self._vertex._check_open()
        self.essential_level = WHEN_TAKEN if when_taken else ALWAYS
        return self

    def mutable(self) -> Self:
        """Lets the vertex write into the value, so in a run no other vertex may read the value."""
        self._vertex._check_open()
        self.is_mutable = True
        return self

    def _under(self, condition: str, expects: bool) -> Self:
        self._vertex._check_open()
        if self.condition is not None:
            raise GraphError(
                f"the dependency of vertex {self._vertex.name!r} on {self.data!r} has the condition {self.condition!r}"
                "; combine two conditions in an expression, as in builder.expression('a && b', output='both')"
            )
        self.condition, self.expects = condition, expects
        return self


@dataclass(frozen=True)
class EmitBuilder:
    """An output under construction."""

    data: str
    name: str | None
    type: type | None
    borrowed: bool  # passes on the value of an input data


class VertexBuilder:
    """A vertex under construction."""

    def __init__(self, name: str, factory: Callable[[], GraphProcessor], check_open: Callable[[], None]) -> None:
        self.name, self.factory = name, factory
        self.dependencies: list[DependencyBuilder] = []
        self.emits: list[EmitBuilder] = []
        self.is_trivial = False
        self._check_open = check_open

    def depend(self, data: str, name: str | None = None, type: type = object) -> DependencyBuilder:
        """Adds a dependency on a data.

        Parameters
        ----------
        data
            Name of the data.
        name
            Name of the dependency in the processor; None for an anonymous dependency, known by its place.
        type
            Type that the processor accepts; `finish` refuses producers of another type.
        """
        self._check_open()
        if name is not None and any(dependency.name == name for dependency in self.dependencies):
            raise GraphError(f"vertex {self.name!r} has a dependency {name!r} already; give each one its own name")
        dependency = DependencyBuilder(self, data, name, type)
        self.dependencies.append(dependency)
        return dependency

    def dependency(self, which: str | int) -> DependencyBuilder:
        """A declared dependency, by name, or an anonymous dependency by place."""
        if isinstance(which, str):
            found = [dependency for dependency in self.dependencies if dependency.name == which]
        else:
            found = [dependency for dependency in self.dependencies if dependency.name is None][which : which + 1]
        if not found:
            raise GraphError(f"vertex {self.name!r} has no dependency {which!r}; declare it with depend()")
        return found[0]

    def emit(self, data: str, name: str | None = None, type: type | None = None, borrowed: bool = False) -> Self:
        """Adds an output.

        Parameters
        ----------
        data
            Name of the data; a second vertex that emits the data is refused, unless the data is declared exclusive.
        name
            Name of the output in the processor; None for an output known by its place or the data's name.
        type
            Type of the value; None: unknown.
        borrowed
            Whether the value belongs to another data, so that no reader may declare it mutable.
        """
        self._check_open()
        if any(output.data == data or (name is not None and output.name == name) for output in self.emits):
            raise GraphError(
                f"vertex {self.name!r} emits {data!r} or has an output {name!r} already; declare each one once"
            )
        self.emits.append(EmitBuilder(data, name, type, borrowed))
        return self

    def trivial(self) -> Self:
        """Marks the vertex as small: the thread that finds the vertex ready runs it at once, without an executor."""
        self._check_open()
        self.is_trivial = True
        return self
