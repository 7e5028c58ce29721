"""Completion of `%%jmars --<tab>` and `%jmars <tab>`, by IPython's own completer."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

from jmars.notebook import flags
from jmars.notebook.flags import USAGE, flag_names
from tests.notebook.shells import Notebook, new_shell


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setattr(flags, "_clusters", lambda: ["night", "noon"])
    with new_shell() as shell:
        Notebook(shell)("%load_ext jmars")
        yield shell


def completed(shell, code: str, rest: str = "") -> list[str]:
    """What a front end offers for the cursor at the end of `code`, with `rest` behind it."""
    with provisionalcompleter():
        return [one.text for one in shell.Completer.completions(code + rest, len(code))]


@pytest.mark.parametrize("rest", ["", "\nx = 1\ny = 2"])
def test_flags_of_a_cell(shell, rest):
    assert completed(shell, "%%jmars --", rest) == [one for one in flag_names() if one.startswith("--")]
    assert completed(shell, "%%jmars --me", rest) == ["--memory"]
    assert "--memory" not in completed(shell, "%%jmars --memory 2GiB --", rest)  # given already
    assert completed(shell, "%%jmars -w 2 --ch", rest) == ["--chunk"]
    assert completed(shell, "%%jmars --view ", rest) == ["full", "line", "none"]


def test_names_of_clusters_and_subcommands(shell):
    assert completed(shell, "%jmars st") == ["status", "stop"]
    assert completed(shell, "%jmars ") == list(flags.SUBCOMMANDS)
    assert completed(shell, "%jmars connect n") == ["night", "noon"]
    assert completed(shell, "cluster = %jmars connect n") == ["night", "noon"]
    assert completed(shell, "%%jmars --on ni") == ["night"]
    assert completed(shell, "%%jmars --on ") == ["night", "noon", "dask://", "ray://", "ssh://"]
    assert completed(shell, "x = 1\n%jmars why") == ["why"]


def test_other_lines_are_completed_as_before(shell):
    shell.user_ns["memory_of_mine"] = 1
    assert "memory_of_mine" in completed(shell, "memory_of")
    assert "memory_of_mine" in completed(shell, "%%jmars --memory 2GiB\nmemory_of")
    assert completed(shell, "%%jmars --memory ") == completed(shell, "%%other --memory ")


def test_a_second_load_and_an_unload(shell):
    shell.run_line_magic("reload_ext", "jmars")
    assert completed(shell, "%jmars st") == ["status", "stop"]
    shell.run_line_magic("unload_ext", "jmars")
    assert "status" not in completed(shell, "%jmars st")


def test_every_flag_and_subcommand_is_in_the_help():
    for word in (*flag_names(), *flags.SUBCOMMANDS):
        assert word in USAGE
