"""The Jupyter server extension: this user's clusters under `<base>/jmars/`, for the side bar.

discovery.py   finds clusters by their registry files and keeps a connection to each
orders.py      checks what a page asks for when it starts or scales a cluster
cluster_process.py  the process that holds such a cluster
run_file.py    reads the file of a run in a process with little memory and time
handlers.py    REST and websocket, behind Jupyter's own login

`jupyter-config/jupyter_server_config.d/jmars.json` names this package; the wheel puts that file in place.
"""

from __future__ import annotations

from typing import Any

__all__ = ["_jupyter_labextension_paths", "_jupyter_server_extension_points"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Tells Jupyter's server where to find the extension."""
    from jmars.notebook.server.handlers import JmarsExtension  # only Jupyter's server asks, so jupyter_server is there

    return [{"module": "jmars.notebook.server", "app": JmarsExtension}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Tells JupyterLab where to find the built front end, relative to the folder of `jmars`."""
    return [{"src": "_labextension", "dest": "jmars-lab"}]
