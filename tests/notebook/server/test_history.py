"""The time line of a cluster over hundreds of jobs."""

from __future__ import annotations

import json

import numpy as np

from jmars.notebook.server.discovery import ClusterHistory
from jmars.notebook.tab_states import MAX_PIECES


def events_of(cells: int, each: int = 4, workers: int = 2):
    """Events of so many cells with so many operands each, a second apart."""

    def u4(*values):
        return np.array(values, "<u4").tobytes()

    number, found = 0, []
    for cell in range(cells):
        job = f"job-{cell}"
        found.append([number := number + 1, 100.0 + cell, "JobSubmitted", job, {"name": f"In [{cell}]"}])
        for worker in range(workers):
            data = {"worker": worker, "ids": u4(*range(each)), "microseconds": [b"", b"", u4(*[50_000] * each), b""]}
            found.append([number := number + 1, 100.5 + cell, "OperandsTimed", job, data])
    return found


def test_pieces_carry_the_names_of_their_cells():
    history = ClusterHistory()
    history.fold(events_of(2, each=1), 6)
    part = history.part()
    assert part is not None and (part["jobs"], part["operands"], history.since) == (2, 4, 6)
    lane = part["lanes"]["lanes"][0]
    assert [part["lanes"]["labels"][label] for label in lane["label"]] == ["In [0]", "In [1]"]
    assert lane["begin"] == [0.0, 1.0] and part["elapsed"] == 1.05


def test_the_history_stays_small_over_five_hundred_cells():
    history, sizes = ClusterHistory(), []
    found = events_of(500)
    for cell in range(500):
        history.fold(found[3 * cell : 3 * cell + 3], 3 * cell + 3)
        if cell in (99, 499):
            sizes.append(len(json.dumps(history.part())))
    part = history.part()
    assert part is not None and part["jobs"] == 500 and part["operands"] == 4000
    lanes = part["lanes"]["lanes"]
    assert sum(len(lane["begin"]) for lane in lanes) <= MAX_PIECES and len(part["lanes"]["labels"]) <= 60
    assert lanes[0]["begin"][0] == 0.0 and lanes[0]["end"][-1] > 498
    assert abs(sum(took[2] for lane in lanes for took in lane["took"]) - 4000 * 0.05) < 0.1
    assert sizes[1] < 1.3 * sizes[0] < 60_000
