"""Submission: the record that a client sends to start a job, from `SentGraphs.start` to `ClientSession.submit`.

`ClientSession` keeps the result descriptors, `SessionActor.submit` starts the job. NumPy arrays of the graph travel
before the record (client/sent_graphs.py). For a graph of a known structure the GraphActor
gets the prepared graph instead of the record.

Source: docs/explanation/seeds.md, "Submitting a job".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Submission"]


@dataclass(frozen=True, slots=True)
class Submission:
    """A tensor graph and how to run it.

    Attributes
    ----------
    graph
        Pickled TensorGraph; empty to run the graph that was submitted before under the same `structure`.
    name
        Name of the job for people; "" to use the job's id.
    settings
        Task configuration, as `jmars.config.task` has it.
    ticket
        The client's own name of the submission: two submissions with one ticket are one job.
    structure, bindings
        Digest of a canonical graph, and the keys and lines of this one (tensor/structure.py); b"" and
        None for a graph that is not canonical.
    results
        (single, descriptors) of the job's results, for clients that attach to the job (client/job_registry.py).
    """

    graph: bytes
    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    ticket: str = ""
    structure: bytes = b""
    bindings: Sequence[Any] | None = None
    results: Sequence[Any] | None = None
