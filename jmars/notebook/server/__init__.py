"""The Jupyter server part: this user's clusters under `<base>/jmars/`, for the side bar.

discovery.py   clusters by their registry files, and one connection to each
stream.py      what the side bar is sent: a plain object that folds events to frames
handlers.py    REST and websocket, behind Jupyter's own login
extension.py   the extension that Jupyter's server loads

`jupyter-config/jupyter_server_config.d/jmars.json` names this package; the wheel puts it in place.
"""

from __future__ import annotations

from typing import Any

__all__ = ["_jupyter_labextension_paths", "_jupyter_server_extension_points"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Where Jupyter's server finds the extension."""
    from jmars.notebook.server.extension import JmarsExtension  # only Jupyter's server asks, so jupyter_server is there

    return [{"module": "jmars.notebook.server", "app": JmarsExtension}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab finds the built front end, from the folder of `jmars`."""
    return [{"src": "_labextension", "dest": "jmars-lab"}]
