"""The process that holds a cluster which the side bar started; it ends with the Jupyter server.

`python -m jmars.notebook.server.cluster_process` reads an order as a line of JSON, starts the cluster, writes
{"id", "name"} or {"error"} as a line, and closes the cluster when its standard input ends.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from jmars.actors.registry import refuse_twin
from jmars.client.cluster import Cluster
from jmars.errors import JmarsError
from jmars.notebook.server.orders import StartOrder


def start(order: StartOrder) -> Cluster:
    """Starts the cluster of an order; raises JmarsError, ValueError or OSError as `Cluster` does."""
    if order.name:
        refuse_twin(order.name)
    if order.kind == "dask":
        return Cluster.dask(order.address, name=order.name)
    if order.kind == "ray":
        return Cluster.ray(order.address or None, name=order.name)
    settings: dict[str, Any] = {"n_workers": order.workers, "memory_limit": order.memory, "name": order.name}
    if order.kind == "ssh":
        return Cluster.ssh(order.hosts, python=order.python or None, **settings)
    return Cluster(**settings)


def main() -> None:
    """Starts a cluster, and holds it until the standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # standard output has the answers only: output of libraries goes to standard error
    order = StartOrder.read(json.loads(sys.stdin.readline()))
    try:
        cluster = start(order)
    except (JmarsError, ValueError, OSError, ImportError) as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)
        return
    with cluster:
        print(json.dumps({"id": cluster.id, "name": cluster.name}), file=answers, flush=True)
        answers.close()
        sys.stdin.read()


if __name__ == "__main__":
    main()
