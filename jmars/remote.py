"""Any Python function on the cluster: `spawn`, and task graphs from files."""

from jmars.tensor.spawn import Output, Spawned, spawn

__all__ = ["Output", "Spawned", "spawn"]
