"""Formulas as vertices: a run of `B > C ? D + 4 : E * 5` computes the taken branch only.

`parse` reads the text into a tree; `add_expression` turns a tree into vertices. A part without `? :`, `&&` or `||` is
one vertex; those three are conditional dependencies. Equal parts of a builder's formulas are computed once.
Source: baidu/babylon, anyflow/builtin/expression.h.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from jmars.errors import GraphError

if TYPE_CHECKING:
    from jmars.flow.build_time.builder import GraphBuilder

__all__ = ["add_expression", "parse"]

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
    """A recursive-descent parser, with a method for each level of precedence."""

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
        The formula, and the name of its data.
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
    """Compiles a tree to a function of the values of its leaves, names and branches."""
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
    """Text of a tree, fully parenthesised: the name of its data."""
    if tree[0] in ("name", "const"):
        return str(tree[1]) if tree[0] == "name" else repr(tree[2])
    if tree[0] == "?":
        return f"({_text(tree[1])} ? {_text(tree[2])} : {_text(tree[3])})"
    parts = [_text(part) for part in tree[1:]]
    return f"({tree[0]}{parts[0]})" if len(parts) == 1 else f"({parts[0]} {tree[0]} {parts[1]})"
