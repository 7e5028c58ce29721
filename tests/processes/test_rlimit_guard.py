"""The cap on a process's own memory: held in a process of the test's own, so that a mistake harms nobody."""

import errno
import pickle
import subprocess
import sys
from pathlib import Path
from resource import RLIMIT_DATA, getrlimit, setrlimit
from threading import Thread
from types import ModuleType

import cloudpickle
import numpy as np
import pyarrow
import pytest

from jmars.errors import MemoryLimitError, StorageError
from jmars.memory.quota import LEAST_SLACK
from jmars.native import library
from jmars.processes import rlimit_guard
from jmars.processes.rlimit_guard import RlimitGuard, is_out_of_memory, may_be_out_of_memory

MiB = 2**20


PROGRAM = """
import pickle, sys
import cloudpickle
try:
    answer = cloudpickle.load(sys.stdin.buffer)()
except BaseException as error:
    answer = error
sys.stdout.buffer.write(pickle.dumps(answer))
"""


def apart(function):
    """What `function` gives in a process of its own: a new one, whose heap has nothing free to fall back on."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=cloudpickle.dumps(function),
        stdout=subprocess.PIPE,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    answer = pickle.loads(done.stdout)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def grab(cap, size):
    """Whether an array of `size` bytes is refused under a cap, what was taken when it was, and whether it is later."""
    granted = RlimitGuard()
    granted.begin(cap)
    try:
        kept = np.ones(20 * MiB, np.uint8)
        np.ones(size, np.uint8)
        refused = False
    except MemoryError:
        refused = True
    taken = granted.taken()
    granted.end()
    after = np.ones(size, np.uint8).nbytes == size
    return refused, taken, after, kept.nbytes


def test_calls_beyond_the_cap_are_refused_and_leave_all_as_before():
    refused, taken, after, _ = apart(lambda: grab(60 * MiB, 100 * MiB))
    assert refused and 20 * MiB <= taken < 60 * MiB and after


def test_what_stays_below_the_cap_is_not_refused():
    assert not apart(lambda: grab(200 * MiB, 100 * MiB))[0]


def test_a_limit_set_by_the_user_is_neither_raised_nor_an_error():
    def work():
        setrlimit(RLIMIT_DATA, (2**31, 2**31))  # as `ulimit -d` does, or a batch system
        granted = RlimitGuard()
        granted.begin(2**33)
        under = getrlimit(RLIMIT_DATA)
        granted.end()
        return under, getrlimit(RLIMIT_DATA)

    assert apart(work) == ((2**31, 2**31), (2**31, 2**31))


def test_freed_memory_of_a_process_counts_until_it_is_handed_back():
    def work():
        granted = RlimitGuard()
        block = np.ones(64 * MiB, np.uint8)  # more than ever comes from what the heap has free
        kept = granted.kept()
        granted.trimmed()
        return kept, granted.kept(), len(block)

    kept, later, _ = apart(work)
    assert kept >= 60 * MiB and later < MiB


def test_the_free_heap_is_counted_again_after_growth_and_failure():
    def counts():
        from jmars.processes import rlimit_guard

        counted = []
        real = rlimit_guard._free_heap
        rlimit_guard._free_heap = lambda: counted.append(1) or real()
        rlimit_guard.RETAINED, rlimit_guard.LOOK_SECONDS = -(2**40), 1e9
        guard, seen = RlimitGuard(), []

        def begun():
            guard.begin(100 * MiB)
            guard.end()
            seen.append(len(counted))

        begun()
        begun()
        kept = np.ones(40 * MiB, np.uint8)
        begun()
        begun()
        guard.taken()
        begun()
        return seen, kept.nbytes

    assert apart(counts)[0] == [1, 1, 2, 2, 3]


def test_holes_in_the_heap_leave_half_of_a_cap_for_stacks_and_large_arrays():
    def work():
        granted = RlimitGuard()
        blocks = [bytes(100_000) for _ in range(2_000)]  # of the heap, below the size that is mapped
        blocks = blocks[::10]  # the holes are small, and the heap cannot shrink
        granted.begin(64 * MiB)
        Thread(target=len, args=(blocks,)).start()
        size = np.ones(40 * MiB, np.uint8).nbytes
        try:
            size += np.ones(64 * MiB, np.uint8).nbytes
        except MemoryError:
            granted.end()
        return size, rlimit_guard._free_heap() > 150 * MiB, granted.cap

    assert apart(work) == (40 * MiB, True, -1)


def test_the_peak_is_measured_where_that_is_asked():
    def work():
        granted = RlimitGuard()
        granted.begin(300 * MiB, measured=True)
        np.ones(100 * MiB, np.uint8)
        granted.end()
        return granted.peak()

    assert 95 * MiB <= apart(work) < 130 * MiB


def test_linear_algebra_under_a_small_cap_ends_no_process():
    def work():
        granted = RlimitGuard()
        granted.begin(LEAST_SLACK)
        square, ends = np.eye(600), []
        for function in (np.linalg.eigh, np.linalg.svd, np.linalg.inv, lambda x: x @ x):
            try:
                function(square)
                ends.append("ran")
            except MemoryError:
                ends.append("refused")
        granted.end()
        return ends

    assert set(apart(work)) <= {"ran", "refused"} and len(apart(work)) == 4


def kernels_at_the_cap():
    """Whether the C kernels are loaded when a function has no memory left."""
    from jmars.native import library

    guard = RlimitGuard()
    guard.begin(0)
    setrlimit(RLIMIT_DATA, (MiB, getrlimit(RLIMIT_DATA)[1]))  # less than the process has
    try:
        return library() is not None
    finally:
        guard.end()


def test_c_kernels_are_loaded_before_the_cap():
    if library() is None:
        pytest.skip("there are no C kernels here")
    assert apart(kernels_at_the_cap)


def test_no_cap_costs_nothing_to_end():
    assert apart(lambda: RlimitGuard().end()) is None


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libx.so: failed to map segment from shared object"),
        ImportError("libx.so: cannot map zero-fill pages"),
        ImportError("libx.so: cannot change memory protections"),
        ImportError("libx.so: cannot allocate symbol search list"),
        RuntimeError("can't start new thread"),
        pyarrow.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
        caused(StorageError("a.parquet cannot be read as Parquet"), MemoryError()),
    ],
)
def test_errors_that_say_that_there_was_no_memory(error):
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("cannot allocate memory"),
        OSError(errno.ENOSPC, "x"),
        MemoryLimitError("ours"),
        caused(MemoryLimitError("ours"), MemoryError()),
        caused(StorageError("a.parquet has changed"), ValueError("x")),
    ],
)
def test_errors_that_say_something_else(error):
    assert not is_out_of_memory(error)


def raised(source, at="lib.py"):
    try:
        exec(compile(source, at, "exec"), {})  # its frame is a module's, as in an import
    except Exception as error:
        return error
    raise AssertionError(source)


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (SyntaxError("expected ':'"), True),  # Python's parser, in a module without a mistake
        (ImportError("No module named 'h5py', backend not available"), True),  # a library whose own import failed
        (ModuleNotFoundError("No module named 'json'", name="json"), True),
        (ModuleNotFoundError("No module named 'not_there'", name="not_there.part"), False),
        (raised("import os; os.stat('libllvmlite.so')"), True),
        (ValueError("of the function"), False),
        (MemoryLimitError("ours"), False),
    ],
)
def test_errors_of_imports_may_say_that_there_was_no_memory(error, may):
    assert may_be_out_of_memory(error) == may


def test_a_part_that_a_module_without_a_spec_lacks_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "made_by_a_user", ModuleType("made_by_a_user"))  # as functions bring them along
    with pytest.raises(ModuleNotFoundError) as caught:
        import made_by_a_user.part  # noqa: F401
    assert may_be_out_of_memory(caught.value)
