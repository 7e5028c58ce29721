"""Reads documents of tasks: JSON, YAML or a dict, from a file or text; a duplicate name is an error."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jmars.errors import GraphError

__all__ = ["read_document"]


def read_document(source: Any) -> Any:
    """Reads a document from a path or text; returns a dict or list unchanged.

    Raises
    ------
    GraphError
        If the text is neither JSON nor YAML, or has a duplicate name.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> read_document('{"tasks": {}}')
    {'tasks': {}}
    """
    if isinstance(source, Mapping) or (isinstance(source, Sequence) and not isinstance(source, str | bytes)):
        return source
    if isinstance(source, os.PathLike) or (isinstance(source, str) and _is_path(source)):
        path = Path(source)
        return _parsed(path.read_text(encoding="utf-8"), str(path))
    if isinstance(source, str):
        return _parsed(source, "the text")
    raise GraphError(f"tasks come as a path, a text, a dict or a list, not as a {type(source).__name__}")


def _is_path(text: str) -> bool:
    """Whether a text is a path rather than a document, which has lines or braces."""
    return "\n" not in text and "{" not in text and "[" not in text and ":" not in text.replace(":\\", "", 1)


def _parsed(text: str, what: str) -> Any:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text, object_pairs_hook=_no_name_twice)
        except json.JSONDecodeError as error:
            wrong = error
            if what.endswith(".json"):
                raise GraphError(f"{what} is not JSON: {error}") from error
    else:
        wrong = None
    try:
        import yaml  # not needed for JSON
    except ImportError as error:
        if wrong is not None:
            raise GraphError(f"{what} is not JSON: {wrong}") from error
        raise GraphError(f"{what} is not JSON, and YAML needs PyYAML: pip install jmars[yaml]") from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # it carries no types
        """Plain data only, no name twice."""

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        loader.flatten_mapping(node)
        return _no_name_twice(loader.construct_pairs(node, deep=True))

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader)  # a SafeLoader: it makes plain data
    except yaml.YAMLError as error:
        raise GraphError(f"{what} is not YAML: {error}") from error


def _no_name_twice(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise GraphError(f"{key!r} is there twice; give each task a name of its own, and each task one {key!r}")
        found[key] = value
    return found
