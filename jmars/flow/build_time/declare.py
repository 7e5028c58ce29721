"""Declarations of a vertex under construction: its dependencies and outputs.

`GraphBuilder.vertex` makes a `VertexBuilder`; `finish` reads and freezes its declarations.
Source: docs/explanation/seeds.md, "Build time and run time"; baidu/babylon, anyflow/builder.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from jmars.errors import GraphError
from jmars.flow.build_time.blueprint import ALWAYS, NEVER, WHEN_TAKEN
from jmars.flow.run_time.processor import GraphProcessor

__all__ = ["DependencyBuilder", "EmitBuilder", "VertexBuilder"]


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
        """Skips the vertex if this input is empty: the vertex does not run, and its outputs are empty.

        With `when_taken` an input that is empty because its condition did not hold does not skip the vertex.
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
        """Marks the vertex as small: the thread that finds it ready runs it at once, without an executor."""
        self._check_open()
        self.is_trivial = True
        return self
