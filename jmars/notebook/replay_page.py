"""The page of a replay: one HTML file that needs no server, no network and no kernel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent / "static"  # written by `npm run build:widget` in labextension/
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
# JupyterLab's colour variables, used by the view
_STYLE = """
html { background: #fff; color-scheme: light; }
html[data-theme='dark'] { --jp-ui-font-color1: #eee; --jp-ui-font-color2: #bbb; --jp-layout-color1: #212121;
  --jp-layout-color2: #424242; --jp-layout-color3: #616161; --jp-border-color1: #616161; --jp-border-color2: #424242;
  background: #111; color-scheme: dark; }
body { color: var(--jp-ui-font-color1, #1a1a1a); margin: 10px; }
.jm { max-width: none; }
"""
_HEIGHT = 860  # pixels of the page within a notebook


def replay_page(saved: Mapping[str, Any], title: str) -> str:
    """The page as text.

    Parameters
    ----------
    saved
        `runs`, base64 text of replay data, and `difference`.
    title
        Of the page.

    Raises
    ------
    FileNotFoundError
        If the front end was not built.
    """
    script = STATIC / "replay.js"
    if not script.exists():
        raise FileNotFoundError(
            f"{script} is missing, so no replay can be shown; install jmars with pip, "
            "or run `jlpm && jlpm build:prod` in labextension/"
        )
    data = json.dumps(saved, allow_nan=False).replace("<", "\\u003c")  # no text ends the element
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{escape(title)}</title>\n'
        f"<style>{_STYLE}{(STATIC / 'widget.css').read_text(encoding='utf-8')}</style></head>\n"
        f'<body><main id="view"></main>\n<script id="replay" type="application/json">{data}</script>\n'
        f"<script>{script.read_text(encoding='utf-8')}</script></body></html>\n"
    )


def replay_frame(page: str, title: str) -> str:
    """The page as an element of another page, which its scripts cannot reach."""
    return (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts" srcdoc="{escape(page)}" '
        f'style="border:0;height:{_HEIGHT}px;width:100%"></iframe>'
    )
