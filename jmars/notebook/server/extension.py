"""The extension that Jupyter's server loads: our handlers, and their end.

Found through `jmars.notebook.server._jupyter_server_extension_points`.
"""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp

from jmars.notebook.server.discovery import Finder
from jmars.notebook.server.handlers import FINDER, routes

__all__ = ["JmarsExtension"]


class JmarsExtension(ExtensionApp):
    """Clusters and jobs of jmars for the side bar."""

    name = "jmars"
    extension_url = "/jmars/clusters"

    def initialize_settings(self) -> None:
        """One finder, and so one connection to a cluster, for all pages."""
        self.settings[FINDER] = Finder()

    def initialize_handlers(self) -> None:
        """Add ours to Jupyter's; the base URL is put before them."""
        self.handlers.extend(routes())

    async def stop_extension(self) -> None:
        """Cut our connections."""
        self.settings[FINDER].close()
