"""The leak check itself: a test that leaves something is told so, one that shares something is not."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.census import ForeignFiles

CONFTEST = """
import tests.leaks
tests.leaks.GRACE = 0.6
pytest_plugins = ["tests.leaks"]
"""

Run = Callable[[str], pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a file of tests in a pytest of its own that has the leak check."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeconftest(CONFTEST)

    def run_it(text: str) -> pytest.RunResult:
        pytester.makepyfile(textwrap.dedent(text))
        without = [
            f"-pno:{name}" for name in ("cacheprovider", "nbval", "hypothesispytest", "anyio", "zarr")
        ]  # starts sooner
        return pytester.runpytest_subprocess(*without, timeout=60)

    return run_it


def test_a_test_that_leaves_nothing_passes(run: Run) -> None:
    run("""
        import subprocess, tempfile, threading
        def test_it():
            subprocess.run(["true"], check=True)
            with tempfile.TemporaryFile():
                pass
            thread = threading.Thread(target=print)
            thread.start()
            thread.join()
    """).assert_outcomes(passed=1)


def test_each_leak_is_an_error_of_its_own_test(run: Run) -> None:
    result = run("""
        import mmap, os, signal, subprocess, tempfile, threading

        held = []

        def test_child():
            held.append(subprocess.Popen(["sleep", "600"]))

        def test_grandchild_in_a_session_of_its_own():
            subprocess.run(["sh", "-c", "setsid sleep 601 >/dev/null 2>&1 &"])

        def test_fork_whose_parent_died():
            middle = os.fork()
            if not middle:
                if not os.fork():
                    signal.pause()
                os._exit(0)
            os.waitpid(middle, 0)

        def test_thread():
            threading.Thread(target=threading.Event().wait, name="lost", daemon=True).start()

        def test_descriptor():
            os.open("/dev/null", os.O_RDONLY)

        def test_memory_map():
            descriptor = os.memfd_create("lost")
            os.ftruncate(descriptor, 8)
            held.append(mmap.mmap(descriptor, 8))
            os.close(descriptor)

        def test_shared_memory_file():
            open("/dev/shm/jmars-lost", "w").close()

        def test_temporary_file():
            os.close(tempfile.mkstemp()[0])

        def test_runtime_file():
            open(os.environ["JMARS_RUNTIME_DIR"] + "/spill", "w").close()

        def test_nothing_more():
            pass
    """)
    result.assert_outcomes(passed=10, errors=9)
    named = {
        "child": "pid * (sleep 600)",
        "grandchild_in_a_session_of_its_own": "pid * (sleep 601)",
        "fork_whose_parent_died": "pid * (*pytest*)",
        "thread": "thread 'lost'",
        "descriptor": "file descriptor * -> /dev/null",
        "memory_map": "mapped shared memory /memfd:lost*",
        "shared_memory_file": "shared memory file /dev/shm/jmars-lost",
        "temporary_file": "file tmp/*",
        "runtime_file": "file run/spill",
    }
    for test, thing in named.items():
        result.stdout.fnmatch_lines([f"*test_{test} left behind*", f"  {thing}"])


def test_what_a_shared_fixture_holds_is_its_own_until_it_ends(run: Run) -> None:
    run("""
        import os, subprocess, pytest
        @pytest.fixture(scope="module")
        def shared():
            path = os.environ["JMARS_RUNTIME_DIR"] + "/registry"
            open(path, "w").close()
            command = ["sh", "-c", "read line; sleep 5 & wait"]
            child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
            yield child
            os.killpg(child.pid, 9)
            child.wait()
            child.stdin.close()
            os.unlink(path)
        def test_one(shared):
            pass
        def test_its_children_are_its_own(shared):
            shared.stdin.write(b"go\\n")
            shared.stdin.flush()
        def test_without():
            pass
    """).assert_outcomes(passed=3)


def test_a_shared_fixture_that_leaks_is_an_error_of_the_last_test(run: Run) -> None:
    result = run("""
        import os, subprocess, pytest
        @pytest.fixture(scope="module")
        def shared():
            open(os.environ["JMARS_RUNTIME_DIR"] + "/registry", "w").close()
            yield subprocess.Popen(["sleep", "603"])
        def test_one(shared):
            pass
        def test_two():
            pass
    """)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*at teardown of test_two*", "*sleep 603*", "*file run/registry (fixture 'shared')*"])


def test_a_mark_lets_named_files_stay(run: Run) -> None:
    run("""
        import tempfile, pytest
        @pytest.mark.leaves("browser-profile*")
        def test_it():
            tempfile.mkdtemp(prefix="browser-profile")
            with open(tempfile.gettempdir() + "/browser-profile-1", "w"):
                pass
    """).assert_outcomes(passed=1)


def test_a_shared_file_of_another_run_is_told_from_one_of_this_run() -> None:
    path = Path(f"/dev/shm/jmars-test-{os.getpid()}")
    path.touch()
    command = ["sh", "-c", f"exec 3<{path}; echo up; read line"]
    held = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with held, path.open("rb") as mine:
        assert held.stdout is not None and held.stdout.readline() == b"up\n"
        foreign, ours, names = ForeignFiles(), {os.getpid()}, {path.name}
        assert foreign.among(names, ours) == set()  # both have it open
        mine.close()
        assert foreign.among(names, {held.pid}) == set()
        assert foreign.among(names, ours) == names
        held.communicate(b"end\n")
        assert foreign.among(names, ours) == names  # known by now
        path.unlink()
        path.touch()
        assert foreign.among(names, ours) == set()  # another file of the same name, that no process has open
    path.unlink()
    assert foreign.among(names, ours) == names
