"""Small graphs and helpers for the tests of GraphBuilder and Graph."""

from jmars.flow import Graph, GraphBuilder

FORMULA = "B > C ? D + 4 : E * 5"


class Calls(list):
    """Which functions ran, in order: `calls("add", f)` is f and writes it down."""

    def __call__(self, name, function):
        def counted(*values, **named):
            self.append(name)
            return function(*values, **named)

        counted.__name__ = str(name)
        return counted


def graph_of(*functions, inputs=()) -> Graph:
    """An instance of a graph of functions: (function, inputs, output) each."""
    builder = GraphBuilder()
    builder.input(*inputs)
    for function, sources, output in functions:
        builder.function(function, sources, output)
    return builder.finish().build()


def counters(graph):
    """Everything that a run changes, as plain values."""
    state = graph.state
    return (
        list(state.waiting),
        list(state.count),
        bytes(state.active),
        bytes(state.ended),
        bytes(state.wanted),
        bytes(state.released),
        bytes(state.truth),
        list(state.values),
        dict(state.claims),
        dict(state.silent),
        dict(state.firsts),
        dict(state.loans.readers),
        list(state.missing),
    )
