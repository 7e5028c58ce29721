"""The table of all paths of the gateway and their handlers. openapi.py describes them; a test compares the two.

Source: docs/explanation/seeds.md, "Submitting a job"; Mars `web/session.py` (POST /api/session, …/graph).
"""

from __future__ import annotations

import re
from typing import Any

from jmars.web.event_handlers import EventsHandler, EventStreamHandler
from jmars.web.graph_handlers import DetailHandler, GraphHandler, GraphsHandler, ResultHandler
from jmars.web.handlers import BaseHandler, ClusterHandler, FunctionsHandler, MetricsHandler
from jmars.web.openapi import OpenApiHandler
from jmars.web.session_handlers import ArrayHandler, ArraysHandler, SessionHandler, SessionsHandler

__all__ = ["ROUTES", "handlers"]

ROUTES: dict[str, type[BaseHandler]] = {
    "/api/openapi.json": OpenApiHandler,
    "/api/cluster": ClusterHandler,
    "/api/functions": FunctionsHandler,
    "/api/session": SessionsHandler,
    "/api/session/{session}": SessionHandler,
    "/api/session/{session}/array": ArraysHandler,
    "/api/session/{session}/array/{array}": ArrayHandler,
    "/api/session/{session}/graph": GraphsHandler,
    "/api/session/{session}/graph/{graph}": GraphHandler,
    "/api/session/{session}/graph/{graph}/events": EventsHandler,
    "/api/session/{session}/graph/{graph}/stream": EventStreamHandler,
    "/api/session/{session}/graph/{graph}/detail/{what}": DetailHandler,
    "/api/session/{session}/graph/{graph}/result/{result}": ResultHandler,
    "/metrics": MetricsHandler,
}
_PARTS = {"what": "(tileable_graph|tileable_details|subtasks|why)"}


def handlers() -> list[tuple[str, Any]]:
    """The table in the form of tornado.web.Application."""
    return [(re.sub(r"{(\w+)}", lambda found: _PARTS.get(found[1], r"([\w.\-]{1,100})"), path), kind)
            for path, kind in ROUTES.items()]  # fmt: skip
