"""Words of ssh: places, and command lines in which no word means anything to a shell."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.deploy.launch_ssh import SshPlace, remote_command, remote_program
from jmars.errors import ClusterStartError

HOSTILE = [
    "; touch owned",
    "$(touch owned)",
    "`touch owned`",
    "' \"; touch owned #",
    "a b",
    "&touch owned",
    "*",
    "!x",
    "é",
]


@pytest.mark.parametrize(
    "text, place",
    [
        ("far", SshPlace("", "far", 0)),
        ("ada@far.example.org", SshPlace("ada", "far.example.org", 0)),
        ("ada@10.0.0.7:2222", SshPlace("ada", "10.0.0.7", 2222)),
        ("ada@corp.example@far", SshPlace("ada@corp.example", "far", 0)),
        ("CORP\\ada@far", SshPlace("CORP\\ada", "far", 0)),
        ("[fe80::1%eth0]:22", SshPlace("", "fe80::1%eth0", 22)),
    ],
)
def test_places(text, place):
    assert SshPlace.parse(text) == place


@pytest.mark.parametrize(
    "text", ["", "@far", "far:", "far:ssh", "far:99999", "-oProxyCommand=x", "ada@-far", "a b", "far\n", "ssh://far"]
)
def test_what_is_no_place(text):
    with pytest.raises(ClusterStartError, match="no place for ssh"):
        SshPlace.parse(text)


@pytest.mark.parametrize("word", [word for word in HOSTILE if word != "é"])
def test_goal_10_no_place_runs_anything(word):
    for text in (word, f"{word}@far", f"far{word}"):
        with pytest.raises(ClusterStartError):
            SshPlace.parse(text)


SHELLS = [shell for shell in ("sh", "bash", "zsh", "fish", "csh") if shutil.which(shell)]
PRINTS = "import sys, os; print(repr((sys.argv[1:], os.environ.get('WORD'))))"
printable = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=12)


@settings(max_examples=40)
@given(st.lists(st.one_of(printable, st.sampled_from(HOSTILE)), max_size=4), st.one_of(printable, st.just("a='b'")))
def test_goal_10_a_shell_gives_each_word_as_it_is(words, value):
    command = remote_program(sys.executable, ["-c", PRINTS, *words], {"WORD": value})
    with subprocess.Popen([SHELLS[0], "-c", command], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout.read() == f"jmars process {shell.pid}\n{(words, value)!r}\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_goal_10_so_does_every_login_shell(shell, tmp_path):
    for make in (remote_command, lambda *words: remote_program(*words, {"WORD": HOSTILE[3]})):
        command = make(sys.executable, ["-c", PRINTS, *HOSTILE])
        done = subprocess.run([shell, "-c", command], capture_output=True, text=True, timeout=60, cwd=tmp_path)
        value = HOSTILE[3] if make is not remote_command else None
        assert done.stdout.splitlines()[-1] == repr((HOSTILE, value))
    assert not list(tmp_path.iterdir())


def test_a_path_may_begin_in_the_home_folder_there(tmp_path):
    folder = tmp_path / "my env"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    command = remote_command("~/my env/python", ["-c", "print(17)"])
    done = subprocess.run(
        [shutil.which("sh") or "sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(tmp_path), "PATH": "/nowhere"},
    )
    assert (done.stdout, done.stderr) == ("17\n", "")


@pytest.mark.parametrize(
    "python, environment",
    [("", {}), ("-c", {}), ("a\nb", {}), ("p", {"A=B": "x"}), ("p", {"A": "x\ny"}), ("p", {"": "x"})],
)
def test_what_cannot_be_a_word_is_refused(python, environment):
    with pytest.raises(ClusterStartError):
        remote_program(python, [], environment)
