"""Which tests run in one process."""

from __future__ import annotations

import pytest

from tests.running import unit_of


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/browser/test_side_bar.py::test_it[a/b]", "tests/browser"),
        ("tests/browser/sub/test_it.py::test_it", "tests/browser"),
        ("tests/browsers.py::test_it", "tests/browsers.py"),
        ("tests/graph/test_it.py::TestIt::test_it", "tests/graph/test_it.py"),
        ("notebooks/00_first_cell.ipynb::Cell 0", "notebooks/00_first_cell.ipynb"),
    ],
)
def test_a_file_runs_in_one_process_and_so_do_the_files_of_the_browser(nodeid, unit):
    assert unit_of(nodeid) == unit
