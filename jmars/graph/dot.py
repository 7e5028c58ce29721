"""A graph as Graphviz text, for export and for debugging.

`to_dot` only writes text; no Graphviz is needed to call it. Used by `Job` exports and the docs.
Source: the DOT language, graphviz.org/doc/info/lang.html.
"""

from __future__ import annotations

from collections.abc import Sequence

from jmars.errors import GraphError
from jmars.graph.dag import Dag

__all__ = ["quoted", "to_dot"]


def to_dot(dag: Dag, labels: Sequence[str] | None = None, colors: Sequence[str] | None = None, name: str = "") -> str:
    """DOT source of the graph, one line per vertex and per edge.

    Parameters
    ----------
    dag
        The graph.
    labels
        Text of each vertex, shown as it is: any character is allowed. The vertex's number if absent.
    colors
        Fill of each vertex, a Graphviz colour such as ``"#5b8def"`` or ``"gold"``; "" leaves it unfilled.
    name
        Name of the graph, shown by some viewers.

    Raises
    ------
    GraphError
        If there is not one label or colour for each vertex.

    Examples
    --------
    >>> print(to_dot(Dag.from_edges(2, [0], [1]), ["rand", 'say "a+b"']))
    digraph "" {
      0 [label="rand"];
      1 [label="say \\"a+b\\""];
      0 -> 1;
    }
    """
    for what, given in (("labels", labels), ("colors", colors)):
        if given is not None and len(given) != dag.n:
            raise GraphError(f"{len(given)} {what} for {dag.n} vertices; give one for each")
    lines = [f"digraph {quoted(name)} {{"]
    for vertex in range(dag.n):
        attributes = [f"label={quoted(labels[vertex] if labels is not None else str(vertex))}"]
        if colors is not None and colors[vertex]:
            attributes.append(f"style=filled, fillcolor={quoted(colors[vertex])}")
        lines.append(f"  {vertex} [{', '.join(attributes)}];")
    starts, ends = dag.edges()
    lines += [f"  {a} -> {b};" for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    return "\n".join([*lines, "}"])


def quoted(text: str) -> str:
    """`text` as a quoted DOT string that Graphviz shows unchanged: quotes, backslashes and line ends escaped."""
    kept = text.replace("\\", "\\\\").replace('"', '\\"')
    kept = kept.replace("\r\n", "\\n").replace("\n", "\\n").replace("\r", "\\n")
    return '"' + kept.replace("\0", "\N{SYMBOL FOR NULL}") + '"'  # NUL would end the file for Graphviz
