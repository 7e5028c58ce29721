"""Accessibility faults that axe-core finds on a page, by the rules of WCAG 2.1, levels A and AA."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.harness import ROOT

AXE = ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21aa"]
CONTRAST = {"type": "rule", "values": ["color-contrast"]}  # for another theme, which differs in colours only


def add_axe(page: Page) -> None:
    """Load axe-core into the page; skips the test where it is not installed."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run `jlpm` in labextension/")
    page.evaluate(AXE.read_text(encoding="utf-8"))


def check(place: str, rules: Any = RULES) -> str:
    """An expression of JavaScript that gives the faults at a place (a CSS selector): their rules and elements."""
    options = json.dumps({"runOnly": rules, "preload": False, "resultTypes": ["violations"]})
    faults = "it.violations.map(one => [one.id, one.nodes.slice(0, 3).map(node => node.html.slice(0, 160))])"
    return f"axe.run({json.dumps(place)}, {options}).then(it => {faults})"
