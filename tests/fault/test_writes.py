"""A dozen drawn faults during writes; `python -m tests.fault.writes` draws as many as asked."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("kinds", ["npy,hdf5,zarr", "obstore"])
def test_a_write_under_a_fault_is_whole_or_not_there(kinds: str) -> None:
    pytest.importorskip("h5py"), pytest.importorskip("zarr")
    if kinds == "obstore":
        pytest.importorskip("obstore"), pytest.importorskip("moto.server")
    command = [sys.executable, "-m", "tests.fault.writes", "--faults", "6", "--seed", "1", "--kind", kinds]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and "6 faults of seed 1, 0 wrong" in ran.stdout, ran.stdout + ran.stderr
