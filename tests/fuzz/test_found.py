"""Statements that the fuzzer once found to differ from NumPy, in few letters; a line for each, by the kind of array."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz.comparing import Tally, Tried
from tests.fuzz.values import Made, inf, nan
from tests.tensor.engine import OneByOne

FOUND = """
record = np.array((1, 2.0), 'i4,f8')
    record[:1] | record[0] | record[()][0] | record[()][:1] | len(record) | list(record) | np.count_nonzero(record)
records = np.array([(0, 0.0), (2, -1.0), (0, nan)], 'i4,f8')
    records[1][0] | len(records[1]) | list(records[1]) | [one[1] for one in records] | records[1][:1]
    records[1][0] = 7 | records[1][1] = 7 | records[1]['f0'] = 7 | np.nonzero(records) | np.flatnonzero(records)
    np.count_nonzero(records) | np.trim_zeros(records) | np.where(records) | np.argwhere(records)
table = np.arange(6.0).reshape(2, 3)
    np.extract([True, False], table) | np.extract([0, 0, 0, 0, 1, 1, 0, 0], table) | np.extract([0] * 6 + [1], table)
    np.compress([0, 1, 0], table, axis=0) | np.compress([0, 0, 1], table, axis=0) | np.place(table.T, table > 1, 9)
    np.place(table, [1, 0] * 3, [5, 6])
"""


def found() -> list[tuple[str, str, str]]:
    """The name of an array, its text, and a statement."""
    rows, name, text = [], "", ""
    for line in FOUND.strip().splitlines():
        if line[0] != " ":
            name, _, text = line.partition(" = ")
        else:
            rows += [(name, text, one) for one in line.strip().split(" | ")]
    return rows


def halves(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Chunks of two elements along each axis."""
    return tuple((2,) * (n // 2) + (1,) * (n % 2) or (0,) for n in shape)


@pytest.mark.parametrize(("name", "text", "line"), found())
def test_statement_that_differed_is_numpys(name: str, text: str, line: str, engine: OneByOne) -> None:
    array = eval(text, {"np": np, "nan": nan, "inf": inf})
    tried = Tried({name: Made(text, array, halves(array.shape))}, line)
    assert not tried.difference(Tally())
