"""JSON Schemas of the gateway's requests and answers, for openapi.py.

Source: JSON Schema 2020-12, as OpenAPI 3.1 uses it.
"""

from __future__ import annotations

from typing import Any

from jmars.model.states import JobState

__all__ = ["SCHEMAS"]

_TEXT, _COUNT, _NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "number"}
_NAME = {"type": "string", "pattern": r"^[A-Za-z_][\w.\-]{0,99}$"}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | (optional or {})}


def _list(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _or_null(kind: Any) -> dict[str, Any]:
    return {"anyOf": [kind, {"type": "null"}]}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_ARRAY = {
    "shape": _or_null(_list(_COUNT)),
    "dtype": {"type": ["string", "array"], "description": "as .npy headers name it"},
    "nbytes": _or_null(_COUNT),
    "chunks": _or_null(_list(_list(_COUNT))),
}
_NODE = {
    **_object({"call": _TEXT}, {"args": _list(_ref("Argument")), "kwargs": {"type": "object"}}),
    "additionalProperties": False,
}
SCHEMAS: dict[str, Any] = {
    "Any": {},
    "Problem": _object(
        {"error": _TEXT, "message": _TEXT, "hint": _TEXT, "line": _or_null(_ref("Line"))},
    ),
    "Line": _object({"file": _TEXT, "line": _COUNT, "text": _TEXT}),
    "Functions": _list(_object({"name": _TEXT, "parameters": _TEXT, "summary": _TEXT})),
    "NewSession": {**_object({}, {"name": _TEXT}), "additionalProperties": False},
    "Session": _object(
        {"id": _TEXT, "name": _TEXT, "created": _NUMBER, "arrays": _list(_TEXT), "graphs": _list(_TEXT)}
    ),
    "Sessions": _list(_ref("Session")),
    "Array": _object({"name": _NAME, **_ARRAY}),
    "Arrays": _list(_ref("Array")),
    "Argument": {
        "description": "null, true, false, a number, a text, a list of arguments, or an object of one key: ref (a "
        "node, or NODE.2 for the third of several that it gave), array (an upload, or GRAPH/RESULT), tuple, slice "
        "[start, stop, step], complex [re, im], float (nan, inf, -inf), ellipsis, datetime64",
    },
    "NewGraph": {
        **_object(
            {
                "nodes": {"type": "object", "additionalProperties": _NODE, "minProperties": 1},
                "results": {"type": "array", "items": _TEXT, "minItems": 1},
            },
            {
                "name": _TEXT,
                "settings": {"type": "object", "description": "of task.default_config"},
                "consumes": {**_list(_NAME), "description": "arrays to release when the graph has ended"},
            },
        ),
        "additionalProperties": False,
    },
    "Graph": _object(
        {
            "id": _TEXT,
            "session": _TEXT,
            "name": _TEXT,
            "state": {"enum": [str(state) for state in JobState]},
            "progress": {"type": "number", "minimum": 0, "maximum": 1},
            "started": _NUMBER,
            "elapsed": _or_null(_NUMBER),
            "eta": _or_null(_NUMBER),
            "operands": _or_null(_COUNT),
            "counts": _or_null({"type": "object", "additionalProperties": _COUNT}),
            "error": _or_null(_ref("Problem")),
            "results": {"type": "object", "additionalProperties": _object(_ARRAY)},
        }
    ),
    "Graphs": _list(_ref("Graph")),
}
