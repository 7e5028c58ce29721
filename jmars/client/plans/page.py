"""A plan as HTML. Used by planned.py."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jmars.client.plans.planned import PlannedRun

__all__ = ["page"]


def page(plan: PlannedRun) -> str:
    """What a notebook shows of a plan."""
    return f"<pre>{escape(repr(plan))}</pre>"
