"""The benchmark of GPUs, on a GPU made of NumPy: it runs to its end, with right values."""

from __future__ import annotations

import pytest

from tests.benchmarks import gpu

SMALL = ["--mib", "1", "--side", "64", "--slab", "8MiB", "--memory", "300MiB", "--cores", "1", "--rounds", "1"]


def test_it_measures_all_goals_and_finds_right_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu", "--fake", "--check", *SMALL])
    assert gpu.main() == 0
    told = capsys.readouterr().out
    assert all(f"  {name}: " in told for name in gpu.GOALS) and "values right" in told


def test_a_wrong_value_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    judge = gpu.Judge()
    judge.value("chain", 1.0, 1.0)
    judge.value("product", 1.0, 2.0)
    assert judge.wrong == ["product"] and "product: WRONG" in capsys.readouterr().out


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["gpu", "--check"])
    monkeypatch.setattr(gpu, "find_gpus", lambda: [])
    assert gpu.main() == 2 and "--fake" in capsys.readouterr().out
