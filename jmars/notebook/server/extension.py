"""The extension class that Jupyter's server loads: adds the handlers and closes the connections.

Found through `jmars.notebook.server._jupyter_server_extension_points`.
"""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp

from jmars.notebook.server.discovery import ClusterFinder
from jmars.notebook.server.handlers import FINDER, STARTED, routes
from jmars.notebook.server.started import StartedClusters

__all__ = ["JmarsExtension"]


class JmarsExtension(ExtensionApp):
    """Serves clusters and jobs of jmars to the side bar."""

    name = "jmars"
    extension_url = "/jmars/clusters"

    def initialize_settings(self) -> None:
        """Makes the finder, whose connections all pages share, and the holder of clusters that pages start."""
        self.settings[FINDER] = ClusterFinder()
        self.settings[STARTED] = StartedClusters()

    def initialize_handlers(self) -> None:
        """Adds the handlers; Jupyter puts the base URL before their paths."""
        self.handlers.extend(routes())

    async def stop_extension(self) -> None:
        """Ends the clusters that pages started, and closes the connections."""
        await self.settings[STARTED].close()
        self.settings[FINDER].close()
